package stationarity_test

import (
	"fmt"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

// highest returns the strongest action while a conversation grows step by step, and the
// number of steps at which it was first taken.
func highest(steps int, step func(c *conversation, n int)) (action stationarity.Action, at int) {
	c := begun()
	for n := 1; n <= steps; n++ {
		step(c, n)
		f := stationarity.Check(c.String(), stationarity.Config{OnStop: stationarity.OnStopEnd})
		if f.Action > action {
			action, at = f.Action, n
		}
	}
	return action, at
}

// What was reported in public, and what must not be taken for it.
func TestReports(t *testing.T) {
	type report struct {
		name  string
		steps int
		step  func(c *conversation, n int)
		want  stationarity.Action
		at    int
	}
	for _, r := range []report{
		{"MoonshotAI/kimi-code#3214: an identical Read about 90 times", 90, func(c *conversation, _ int) {
			c.step(call("Read", `{"path":"/src/app.py"}`, "1  import os\n2  "))
		}, stationarity.ActionStop, 8},
		{"a curl 76 times in 7,198 s", 76, func(c *conversation, n int) {
			date := fmt.Sprintf("date: Fri, 02 Jan 2026 %02d:%02d:%02d GMT", n*94/3600, n*94/60%60, n*94%60)
			c.step(call("bash", `{"command":"curl -si http://127.0.0.1:8000/status","timeout":10}`,
				fmt.Sprintf("HTTP/1.1 200 OK\r\n%s\r\nx-request-id: 9f86d0818%07x\r\n\r\n{\"state\":\"pending\"}", date, n)))
		}, stationarity.ActionStop, 12},
		{"alternating calls", 30, func(c *conversation, n int) {
			if n%2 == 1 {
				c.step(call("read", `{"path":"a"}`, "A"))
			} else {
				c.step(call("read", `{"path":"b"}`, "B"))
			}
		}, stationarity.ActionStop, 16},
		{"can1357/oh-my-pi#10895: 303 calls, one field varied, are not caught", 303, func(c *conversation, n int) {
			c.step(call("bash", fmt.Sprintf(`{"command":"make","note":"try %d"}`, n), "make: nothing to be done"))
		}, stationarity.ActionNone, 0},
		{"typeclaw/typeclaw#669: polls whose result changes", 100, func(c *conversation, n int) {
			c.step(call("bash", `{"command":"tail -1 build.log"}`, fmt.Sprintf("[%d/100] compiling", n)))
		}, stationarity.ActionNone, 0},
		{"a poll that shows a percentage", 100, func(c *conversation, n int) {
			c.step(call("read", `{"path":"progress"}`, fmt.Sprintf("%d%%", n)))
		}, stationarity.ActionNone, 0},
		{"RooCodeInc/Roo-Code#9502: 50 paged reads", 50, func(c *conversation, n int) {
			c.step(call("read_file", fmt.Sprintf(`{"path":"big.txt","offset":%d,"limit":100}`, n*100), "more text"))
		}, stationarity.ActionNone, 0},
		{"paged reads by a cursor in the result", 50, func(c *conversation, n int) {
			c.step(call("read", `{"next":true}`, fmt.Sprintf("page %d", n)))
		}, stationarity.ActionNone, 0},
		{"one failing test run after different edits", 60, func(c *conversation, n int) {
			if n%2 == 0 {
				c.step(call("bash", `{"command":"go test ./..."}`, "FAIL\tpkg\t0.012s"))
			} else {
				c.step(call("edit", fmt.Sprintf(`{"path":"a.go","old":"%d","new":"%d"}`, n, n+1), "ok"))
			}
		}, stationarity.ActionNone, 0},
		{"one failing test run after reading and different edits", 90, func(c *conversation, n int) {
			switch n % 3 {
			case 0:
				c.step(call("bash", `{"command":"go test ./..."}`, "FAIL\tpkg\t0.012s"))
			case 1:
				c.step(call("read", `{"path":"a.go"}`, fmt.Sprintf("x := %d", n)))
			default:
				c.step(call("edit", `{"path":"a.go","append":"x"}`, "ok"))
			}
		}, stationarity.ActionNone, 0},
		{"one failing test run after the same edit", 60, func(c *conversation, n int) {
			if n%2 == 0 {
				c.step(call("bash", `{"command":"go test ./..."}`, fmt.Sprintf("FAIL\tpkg\t0.0%ds", n)))
			} else {
				c.step(call("edit", `{"path":"a.go","old":"a","new":"b"}`, "not found"))
			}
		}, stationarity.ActionStop, 24},
		{"a user who asks for the same again", 60, func(c *conversation, _ int) {
			c.add(userMessage("Is it up?")).step(poll).add(assistant)
		}, stationarity.ActionNone, 0},
		{"codex polls a command that prints nothing", 60, func(c *conversation, n int) {
			c.step(call("write_stdin", `{"session_id":32244,"chars":"","yield_time_ms":30000}`, fmt.Sprintf(
				"Chunk ID: %06x\nWall time: 30.0%02d seconds\nProcess running with session ID 32244\nOriginal token count: 0\nOutput:\n", n*7919, n)))
		}, stationarity.ActionStop, 12},
		{"codex polls a command that prints dots", 60, func(c *conversation, n int) {
			dots := "................................................................................"[:n]
			c.step(call("write_stdin", `{"session_id":32244,"chars":"","yield_time_ms":30000}`,
				fmt.Sprintf("Chunk ID: %06x\nWall time: 30.0%02d seconds\nOutput:\n%s", n*7919, n, dots)))
		}, stationarity.ActionNone, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			if action, at := highest(r.steps, r.step); action != r.want || at != r.at {
				t.Errorf("got %v at %d, want %v at %d", action, at, r.want, r.at)
			}
		})
	}
}

// Two agents have two conversations, and nothing is kept of one for the other.
func TestTwoAgents(t *testing.T) {
	a, b := begun(), begun()
	for n := 1; n <= 6; n++ {
		wantCount(t, a.step(read), n)
		wantCount(t, b.step(read), n)
	}
	wantCount(t, a.step(poll), 1)
	wantCount(t, b.step(read), 7)
}

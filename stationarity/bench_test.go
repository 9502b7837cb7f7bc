package stationarity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

// fill adds steps until the conversation has that size.
func fill(size int, c *conversation, step func(c *conversation, n int)) string {
	total := 0
	for n, done := 0, 0; total < size; n++ {
		step(c, n)
		for ; done < len(c.items); done++ {
			total += len(c.items[done]) + 1
		}
	}
	return c.String()
}

// lines is what a tool may print: text with the escapes that JSON makes of it.
func lines(n, seed int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "\tif err := run(%d, \"part %d\"); err != nil { // took %d.%ds at 03:04:%02d\n", seed, i, i, seed%10, seed%60)
	}
	return b.String()
}

// inputs are conversations, and what is none, of about that size: of a usual kind, and
// of kinds that a careless reader takes too long for.
func inputs(size int) map[string]string {
	escapes := strings.Repeat(`\"`, 10_000)
	return map[string]string{
		"healthy": fill(size, begun(), func(c *conversation, n int) {
			c.step(call("read", fmt.Sprintf(`{"path":"%d.go"}`, n), lines(100, n)))
		}),
		"equal": fill(size, begun(), func(c *conversation, _ int) { c.step(call("read", `{"path":"a.go"}`, lines(100, 1))) }),
		"noise": fill(size, begun(), func(c *conversation, n int) { c.step(call("bash", `{"command":"make"}`, noisy(n))) }),
		"small": fill(size, begun(), func(c *conversation, n int) { c.step(call("bash", `{"command":"make"}`, fmt.Sprintf("%ds", n))) }),
		"cycle": fill(size, begun(), func(c *conversation, n int) {
			c.step(call("bash", fmt.Sprintf(`{"command":"make %d"}`, n%5), noisy(n)))
		}),
		"one step":    fill(size, begun(), func(c *conversation, n int) { c.add(functionCall(fmt.Sprint(n), "f", fmt.Sprintf(`{"n":%d}`, n))) }),
		"one result":  begun().step(call("f", "{}", lines(size/70, 1))).String(),
		"two results": begun().step(call("f", "{}", lines(size/140, 1))).step(call("f", "{}", lines(size/140, 2))).String(),
		"big arguments": fill(size, begun(), func(c *conversation, n int) {
			c.step(call("write", fmt.Sprintf(`{"n":%d,"text":%s}`, n, quote(lines(2000, 1))), "ok"))
		}),
		"injected":    fill(size, begun(), func(c *conversation, _ int) { c.add(userMessage("<skill>" + lines(100, 1) + "</skill>")) }),
		"many blocks": begun().repeat(4, read).add(userMessage(strings.Repeat("<skill></skill>", 60_000) + "x")).String(),
		"escapes":     fill(size, begun(), func(c *conversation, _ int) { c.step(call("f", escapes, escapes)) }),
		"backslashes": fill(size, begun(), func(c *conversation, n int) { c.step(call("f", "{}", strings.Repeat(`\`, 100_000)+fmt.Sprint(n))) }),
		"digits": fill(size, begun(), func(c *conversation, _ int) {
			c.step(call("f", "{}", strings.Repeat("1m", 5_000)+"x "+strings.Repeat("1 ", 5_000)))
		}),
		"quotes":         "[" + strings.Repeat(`"`, size) + "]",
		"open brackets":  strings.Repeat("[", size) + "]",
		"close brackets": strings.Repeat("]", size),
		"deep":           "[" + functionCall("1", "f", strings.Repeat("[", size/2)+strings.Repeat("]", size/2)) + "]",
		"empty items":    "[" + strings.Repeat("{},", size/3) + "{}]",
	}
}

// noisy is a result that is the same for each n, but for noise in all lines.
func noisy(n int) string {
	var b strings.Builder
	for i := range 100 {
		fmt.Fprintf(&b, "2026-01-02T03:04:%02dZ ok  \tgithub.com/example/part/%d\t%d.%03ds (id 9f86d081%04x)\n", n%60, i, n%90, n%1000, n%65536)
	}
	return b.String()
}

func BenchmarkCheck(b *testing.B) {
	for name, input := range inputs(5 << 20) {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			b.ReportAllocs()
			for b.Loop() {
				stationarity.Check(input, stationarity.Config{})
			}
		})
	}
}

func BenchmarkNudge(b *testing.B) {
	body := body(inputs(5 << 20)["equal"])
	f := stationarity.Finding{Action: stationarity.ActionNudge, Threshold: 4, Tools: []string{"read"}}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		stationarity.Nudge(body, f)
	}
}

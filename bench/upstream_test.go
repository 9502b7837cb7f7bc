package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// serveUpstream runs an upstream until the test ends, and is a probe of it alone.
func serveUpstream(t *testing.T) *probe {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- newUpstream().serve(l) }()
	t.Cleanup(func() {
		l.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("serve: got %v, want closed", err)
		}
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{port: port}
	return &probe{bench: &bench{upstream: p}, process: p, name: nameDirect}
}

// get reads a stream whole.
func get(t *testing.T, p *probe, like plan) string {
	t.Helper()
	c, err := dial(t.Context(), p.port, readSize)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.ask(like); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c.body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decode returns what the events of a stream say.
func decode(t *testing.T, stream string) (events []map[string]any) {
	t.Helper()
	if !strings.HasSuffix(stream, "\n\n") {
		t.Errorf("got no blank line at the end: %q", stream)
	}
	for frame := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(frame, "\ndata: ")
		var e map[string]any
		if err := json.Unmarshal([]byte(data), &e); !ok || err != nil {
			t.Fatalf("%v in frame %q", err, frame)
		}
		if name != "event: "+e["type"].(string) {
			t.Errorf("got %q for type %v", name, e["type"])
		}
		if e["sequence_number"] != float64(len(events)) {
			t.Errorf("got number %v, want %d: %s", e["sequence_number"], len(events), data)
		}
		events = append(events, e)
	}
	return events
}

func TestUpstream(t *testing.T) {
	p := serveUpstream(t)
	tests := []struct {
		name string
		plan plan
		want string // one letter for each event, see below
	}{
		{"short", plan{deltas: 4, batch: 1}, "CiRRRjmTdF"},
		{"no delta", plan{batch: 1}, "CijmdF"},
		{"one delta", plan{deltas: 1, batch: 1}, "CiRjmdF"},
		{"batches", plan{deltas: 16, batch: 5, id: 3}, "CiRRRRRRRRRRRRjmTTTTdF"},
		{"one batch", plan{deltas: 4, batch: 16, id: 1 << 40}, "CiRRRjmTdF"},
		{"paced", plan{deltas: 4, batch: 2, pace: time.Millisecond, id: 1}, "CiRRRjmTdF"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := letters(decode(t, get(t, p, tt.plan))); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// letters names each event by one.
func letters(events []map[string]any) string {
	var all strings.Builder
	for _, e := range events {
		letter := map[string]string{
			"response.created": "C", "response.reasoning_text.delta": "R", "response.output_text.delta": "T",
			"response.doom_loop_check": "L", "response.completed": "F",
		}[e["type"].(string)]
		if item, ok := e["item"].(map[string]any); ok {
			letter = map[string]string{
				"response.output_item.addedreasoning": "i", "response.output_item.donereasoning": "j",
				"response.output_item.addedmessage": "m", "response.output_item.donemessage": "d",
			}[e["type"].(string)+item["type"].(string)]
		}
		all.WriteString(letter)
	}
	return all.String()
}

// The length of deltas is that of the real API's, and no text comes twice.
func TestDeltas(t *testing.T) {
	f := newFrames()
	stamp := bytes.Repeat([]byte("7"), stampLen)
	seen := map[string]bool{}
	for _, pool := range [][]event{f.thoughts, f.texts} {
		for i := range pool {
			if got := len(pool[i].append(nil, 1234, stamp)); got != frameLen {
				t.Fatalf("delta %d: got %d bytes, want %d", i, got, frameLen)
			}
			if seen[pool[i].tail] {
				t.Fatalf("delta %d came before: %s", i, pool[i].tail)
			}
			seen[pool[i].tail] = true
		}
	}
	if f.textLen < 20 || f.textLen > 60 {
		t.Errorf("got %d bytes of text in a delta, want those of a few words", f.textLen)
	}
}

func TestUpstreamPaced(t *testing.T) {
	p := serveUpstream(t)
	before := time.Now()
	stream := get(t, p, plan{deltas: 5, batch: 1, pace: time.Millisecond})
	after := time.Now()
	all := delays([]byte(stream), after)
	if len(all) != 5 {
		t.Fatalf("got %d stamps, want 5", len(all))
	}
	for _, d := range all {
		if d < 0 || d > after.Sub(before) {
			t.Errorf("got a frame sent %v before the end, want 0 to %v", d, after.Sub(before))
		}
	}
	if all[0] <= all[4] {
		t.Errorf("got %v, want one after the other", all)
	}
}

// The first attempt reports a loop and goes on for ever; the one that is told of it
// is as others.
func TestUpstreamLoops(t *testing.T) {
	p := serveUpstream(t)
	c, err := dial(t.Context(), p.port, readSize)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.ask(plan{deltas: 4, batch: 1, loops: true}); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for !strings.Contains(got.String(), "tail_repetition:8@thinking\"]}}\n\n") {
		piece, err := c.read()
		got.Write(piece)
		if err != nil {
			t.Fatalf("%v after %s", err, got.String())
		}
	}
	c.Close()
	if got, want := letters(decode(t, got.String())), "Ci"+strings.Repeat("R", 20)+"L"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	body := `{"input":"Your last output ` + reminder + `."}`
	c, err = dial(t.Context(), p.port, readSize)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.post(plan{deltas: 4, batch: 1, loops: true}, body); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c.body)
	if err != nil {
		t.Fatal(err)
	}
	if got := letters(decode(t, string(text))); got != "CiRRRjmTdF" {
		t.Errorf("told of the loop: got %s, want CiRRRjmTdF", got)
	}
}

func TestUpstreamLeft(t *testing.T) {
	p := serveUpstream(t)
	if at, err := p.leftAt(t.Context(), 0); err != nil || !at.IsZero() {
		t.Errorf("got %v, %v before there was a stream, want no time", at, err)
	}
	d, err := p.leave(t.Context())
	if err != nil || d < 0 || d >= leaveLimit {
		t.Errorf("got %v, %v, want a time below %v", d, err, leaveLimit)
	}
}

func TestParsePlan(t *testing.T) {
	for _, p := range []plan{
		{batch: 1},
		{deltas: endless, batch: 16, pace: 5 * time.Millisecond, loops: true, id: 7},
		{batch: 1, silent: true, id: 1 << 60},
	} {
		if got, err := parsePlan(p.String()); err != nil || got != p {
			t.Errorf("got %+v, %v, want %+v", got, err, p)
		}
	}
	for _, s := range []string{"", "1,1", "1,0,0,false,false,0", "1,1,-1,false,false,0", "x,1,0,false,false,0"} {
		if got, err := parsePlan(s); err == nil {
			t.Errorf("%q: got %+v, want an error", s, got)
		}
	}
}

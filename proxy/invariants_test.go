package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
)

// loop is an attempt that thinks a little, then loops and says so.
func loop() simulate.Scenario {
	return simulate.Scenario{Loop: &simulate.Loop{After: 3, Every: 2}}
}

// I1: what is not recovered comes through byte for byte, however it is cut into
// reads, whatever its line ends, comments, byte order mark and tail.
func TestI1HealthyBytesAreUnchanged(t *testing.T) {
	shapes := []simulate.Scenario{
		{},
		{Reasoning: simulate.ReasoningRaw, Message: "äöü \U0001F600 done"},
		{Reasoning: simulate.ReasoningNone},
		{Calls: []simulate.Call{{Name: "read", Arguments: `{"path":"a b"}`}}, NoMessage: true},
		{Incomplete: "max_output_tokens"},
		{NoSequence: true, NoEventNames: true, DoneMarker: true},
		{EmptyOutput: true, NoAdded: true, ReasoningItems: 3},
		{Failure: &simulate.Failure{After: 4}},
		{Failure: &simulate.Failure{Code: "invalid_prompt"}},
	}
	ends := []string{"\n", "\r\n", "\r"}
	var sent []string
	rng := rand.New(rand.NewPCG(1, 1))
	var scenarios []simulate.Scenario
	for n := range 200 {
		sc := shapes[rng.IntN(len(shapes))]
		sc.LineEnd = ends[rng.IntN(len(ends))]
		sc.Seed = uint64(n + 1)
		stream := sc.Stream(n, []byte(streamBody))
		noise := []string{": comment" + sc.LineEnd + sc.LineEnd, sc.LineEnd, "event: ping" + sc.LineEnd + "data: {}" + sc.LineEnd + sc.LineEnd, "retry: 5" + sc.LineEnd + sc.LineEnd}
		for range rng.IntN(4) {
			stream = slices.Insert(stream, rng.IntN(len(stream)), noise[rng.IntN(len(noise))])
		}
		if rng.IntN(3) == 0 {
			stream[0] = "\ufeff" + stream[0]
		}
		if rng.IntN(3) == 0 {
			stream = append(stream, ": no end")
		}
		all := strings.Join(stream, "")
		sent = append(sent, all)
		sc = simulate.Scenario{Frames: stream}
		size := 1 + rng.IntN(600)
		sc.Split = func(b []byte) [][]byte { return slices.Collect(slices.Chunk(b, size)) }
		scenarios = append(scenarios, sc)
	}
	r := newRig(t, nil, scenarios...)
	for n, want := range sent {
		if got := r.answer(streamBody); got != want {
			t.Fatalf("stream %d: got\n%q\nwant\n%q", n, got, want)
		}
	}
	r.wantRequests(len(sent))
	r.settled(len(sent))
	r.wantMetric(0, "doomproxy_frames_total", "action", "rewritten")
	r.wantMetric(0, "doomproxy_frames_total", "action", "swallowed")
}

// I2: a check frame never reaches a client that did not ask for it.
func TestI2CheckFramesAreSwallowed(t *testing.T) {
	const check = `{"sequence_number":7,"type":"response.doom_loop_check","doom_loop_check":{"triggers":["low_logprob@thinking"]}}`
	healthy := simulate.Scenario{}.Stream(0, []byte(streamBody))
	for name, frame := range map[string]string{
		"named":              "event: response.doom_loop_check\ndata: " + check + "\n\n",
		"unnamed":            "data: " + check + "\n\n",
		"other name":         "event: message\ndata: " + check + "\n\n",
		"CRLF":               "event: response.doom_loop_check\r\ndata: " + check + "\r\n\r\n",
		"CR":                 "event: response.doom_loop_check\rdata: " + check + "\r\r",
		"no space":           "event:response.doom_loop_check\ndata:" + check + "\n\n",
		"garbage":            "event: response.doom_loop_check\ndata: {\"broken\n\n",
		"no data":            "event: response.doom_loop_check\n\n",
		"several data lines": "data: {\"type\":\"response.doom_loop_check\",\ndata: \"doom_loop_check\":{\"triggers\":[]}}\n\n",
		"with a comment":     ": note\nevent: response.doom_loop_check\nid: 4\ndata: " + check + "\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			stream := slices.Insert(slices.Clone(healthy), 4, frame)
			r := newRig(t, nil, simulate.Scenario{Frames: stream})
			if got, want := r.answer(streamBody), strings.Join(healthy, ""); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			r.settled(1)
			r.wantMetric(1, "doomproxy_frames_total", "action", "swallowed")
		})
	}
	t.Run("split at every byte", func(t *testing.T) {
		frame := "event: response.doom_loop_check\r\ndata: " + check + "\r\n\r\n"
		before, after := strings.Join(healthy[:4], ""), strings.Join(healthy[4:], "")
		var scenarios []simulate.Scenario
		for cut := range len(frame) {
			scenarios = append(scenarios, simulate.Scenario{
				Frames: []string{before, frame, after},
				Split: func([]byte) [][]byte {
					return [][]byte{[]byte(before + frame[:cut]), []byte(frame[cut:] + after)}
				},
			})
		}
		r := newRig(t, nil, scenarios...)
		for cut := range len(frame) {
			// Where CR and LF of the last line end are parted, the LF is a blank
			// line of its own, and stays.
			got := strings.Replace(r.answer(streamBody), "\n\n\nevent", "\n\nevent", 1)
			if got != before+after {
				t.Fatalf("cut at %d: got\n%s\nwant\n%s", cut, got, before+after)
			}
		}
	})
	t.Run("at the unterminated end", func(t *testing.T) {
		for _, data := range []string{check, check[:40], ""} {
			r := newRig(t, nil, simulate.Scenario{Frames: append(slices.Clone(healthy), "event: response.doom_loop_check\ndata: "+data)})
			if got, want := r.answer(streamBody), strings.Join(healthy, ""); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		}
	})
}

// A delta that quotes the event's name is text.
func TestQuotedNameIsForwarded(t *testing.T) {
	sc := simulate.Scenario{
		Thinking: []string{`The frame is called response.doom_loop_check and holds {"type":"response.doom_loop_check"}. `},
		Message:  `data: {"type":"response.doom_loop_check"}`,
	}
	r := newRig(t, nil, sc)
	if got, want := r.answer(streamBody), strings.Join(sc.Stream(0, []byte(streamBody)), ""); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	r.settled(1)
	r.wantMetric(0, "doomproxy_malformed_checks_total")
}

// I3: one response, whole and in order; behind a splice the new attempt's own
// events but for their place.
func TestI3OneResponse(t *testing.T) {
	for _, raw := range []string{simulate.ReasoningSummary, simulate.ReasoningRaw} {
		for _, agent := range []string{"OpenAI/JS 7.59.0", "codex_exec/0.171.0"} {
			for loops := 1; loops <= 2; loops++ {
				t.Run(fmt.Sprintf("%s/%s/%d", raw, agent, loops), func(t *testing.T) {
					a := loop()
					a.Reasoning, a.ReasoningItems = raw, 2
					b := simulate.Scenario{Reasoning: raw, Calls: []simulate.Call{{Name: "read"}}, Message: "so be it"}
					r := newRig(t, nil, append(slices.Repeat([]simulate.Scenario{a}, loops), b)...)
					got := r.answer(streamBody, "User-Agent", agent)
					if err := checkI3(got, events(t, got)); err != nil {
						t.Fatalf("%v in:\n%s", err, got)
					}
					compareSpliced(t, got, loops, b.Stream(loops, r.upstream(loops).Body))
					tombstones := strings.Count(got, recovery.TombstonePrefix)
					if want := map[bool]int{true: 0, false: loops}[strings.HasPrefix(agent, "codex")]; tombstones != want {
						t.Errorf("got %d tombstones, want %d", tombstones, want)
					}
					r.settled(1)
					r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "recovered")
				})
			}
		}
	}
}

// compareSpliced compares the client's events behind the n-th resample with the
// frames the upstream sent for it.
func compareSpliced(t *testing.T, raw string, n int, upstream []string) {
	t.Helper()
	if err := spliced(t, raw, fmt.Sprintf(": doomproxy resample=%d ", n), strings.Join(upstream, "")); err != nil {
		t.Error(err)
	}
}

// spliced returns how the client's events behind a marker differ from those that
// the upstream sent for that attempt: they are the same, but for output_index,
// sequence_number, the response id, and lifecycle events the client had.
func spliced(t *testing.T, raw, marker, upstream string) error {
	t.Helper()
	before, behind, ok := strings.Cut(raw, marker)
	if !ok {
		return fmt.Errorf("no %q in:\n%s", marker, raw)
	}
	had := map[string]bool{}
	shift := 0
	for _, e := range events(t, before) {
		had[e.typ()] = true
		if i, ok := e.number("output_index"); ok {
			shift = max(shift, i+1)
		}
	}
	var want []event
	preamble := true
	for _, e := range events(t, upstream) {
		lifecycle := slices.Contains([]string{"response.created", "response.queued", "response.in_progress"}, e.typ())
		preamble = preamble && lifecycle
		if lifecycle && preamble && had[e.typ()] || e.typ() == "response.doom_loop_check" {
			continue
		}
		want = append(want, e)
	}
	got := slices.DeleteFunc(events(t, behind), func(e event) bool {
		_, numbered := e.number("sequence_number")
		return e.typ() == "response.in_progress" && !numbered // the proxy's own, to keep the client waiting
	})
	if len(got) != len(want) {
		return fmt.Errorf("got %d events behind the splice: %v\nwant %d: %v", len(got), types(got), len(want), types(want))
	}
	for i := range want {
		g, w := got[i], want[i]
		if wi, ok := w.number("output_index"); ok {
			if gi, _ := g.number("output_index"); gi != wi+shift {
				return fmt.Errorf("event %d: got output_index %d, want %d", i, gi, wi+shift)
			}
		}
		for _, e := range []event{g, w} {
			delete(e.data, "output_index")
			delete(e.data, "sequence_number")
			if resp, ok := e.data["response"].(map[string]any); ok {
				delete(resp, "id")
			}
		}
		if g.name != w.name || fmt.Sprint(g.data) != fmt.Sprint(w.data) {
			return fmt.Errorf("event %d: got %s %v\nwant %s %v", i, g.name, g.data, w.name, w.data)
		}
	}
	return nil
}

// I4: no more attempts than the budgets give.
func TestI4Attempts(t *testing.T) {
	refuse := simulate.Scenario{Status: http.StatusBadRequest}
	for _, tc := range []struct {
		name      string
		retries   int
		scenarios []simulate.Scenario
		want      int
		outcome   string
	}{
		{"no budget", 0, []simulate.Scenario{finite()}, 1, "accepted_after_budget"},
		{"one", 1, []simulate.Scenario{finite()}, 2, "accepted_after_budget"},
		{"two", 2, []simulate.Scenario{finite()}, 3, "accepted_after_budget"},
		{"five", 5, []simulate.Scenario{finite()}, 6, "accepted_after_budget"},
		{"clamped", 50, []simulate.Scenario{finite()}, 6, "accepted_after_budget"},
		{"ladder", 2, []simulate.Scenario{loop(), refuse}, 4, "gave_up"},
		{"ladder spends no retries", 2, []simulate.Scenario{loop(), refuse, loop(), loop(), {}}, 4, "accepted_after_budget"},
		{"retries spend no ladder", 2, []simulate.Scenario{loop(), loop(), refuse, refuse, {}}, 5, "recovered"},
		{"two refusals, two cuts", 2, []simulate.Scenario{loop(), refuse, loop(), refuse, {}}, 5, "recovered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for i, sc := range tc.scenarios {
				if i >= 3 && sc.Loop != nil {
					tc.scenarios[i] = finite() // may be the last, accepted one
				}
			}
			r := newRig(t, func(c *proxy.Config) { c.Policy.MaxRetries = tc.retries }, tc.scenarios...)
			raw := r.answer(streamBody)
			if err := checkI3(raw, events(t, raw)); err != nil {
				t.Errorf("%v in:\n%s", err, raw)
			}
			r.wantRequests(tc.want)
			r.settled(1)
			r.wantMetric(1, "doomproxy_recoveries_total", "outcome", tc.outcome)
			r.wantMetric(float64(tc.want), "doomproxy_attempts_total")
		})
	}
}

// finite is a loop that ends by itself, as a complete answer.
func finite() simulate.Scenario {
	return simulate.Scenario{Loop: &simulate.Loop{After: 3, Every: 2, Then: simulate.ThenFinish}}
}

// I5: when the client goes away the upstream is closed within 100 ms, whatever
// the request is doing, and no further attempt is made.
func TestI5ClientGone(t *testing.T) {
	hang := simulate.Scenario{End: simulate.EndHang, Limit: 5} // thinking
	visible := simulate.Scenario{Reasoning: simulate.ReasoningNone, End: simulate.EndHang, Limit: 6}
	long := func(c *proxy.Config) { c.CutJitter = time.Hour }
	for _, tc := range []struct {
		name     string
		change   func(*proxy.Config)
		scenario []simulate.Scenario
		wait     string // what the client waits to see before it goes
		requests int    // made upstream by then
	}{
		{"before headers", nil, nil, "", 1},
		{"thinking", nil, []simulate.Scenario{hang}, "reasoning_summary_part.added", 1},
		{"visible", nil, []simulate.Scenario{visible}, "output_text.delta", 1},
		{"back-off", long, []simulate.Scenario{loop()}, "doomproxy resample=1", 1},
		{"second attempt, before headers", nil, []simulate.Scenario{loop(), {Status: -1}}, "doomproxy resample=1", 2},
		{"second attempt, before its first frame", nil, []simulate.Scenario{loop(), {Frames: []string{}, End: simulate.EndHang}}, "doomproxy resample=1", 2},
		{"second attempt, lifecycle only", nil, []simulate.Scenario{loop(), {End: simulate.EndHang, Limit: 2}}, "doomproxy resample=1", 2},
		{"second attempt, thinking", nil, []simulate.Scenario{loop(), hang}, "\"output_index\":1", 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			arrived := make(chan *simulate.Request, 8)
			r := newRig(t, tc.change)
			r.sim.Script = func(n int, req *simulate.Request) simulate.Scenario {
				arrived <- req
				if tc.scenario == nil || tc.scenario[min(n, len(tc.scenario)-1)].Status < 0 {
					<-req.Gone // slow to send its headers
					return simulate.Scenario{}
				}
				return tc.scenario[min(n, len(tc.scenario)-1)]
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				resp, err := r.post(ctx, streamBody)
				if err == nil {
					defer resp.Body.Close()
					if tc.wait != "" {
						waitFor(resp.Body, tc.wait)
					}
					for range tc.requests - 1 {
						<-arrived // the first was taken below
					}
					cancel()
					_, err = io.Copy(io.Discard, resp.Body)
				}
				failed <- err
			}()
			first := <-arrived
			if tc.wait == "" {
				cancel()
			}
			if err := <-failed; !errors.Is(err, context.Canceled) {
				t.Fatalf("got %v from the client, want its own cancel", err)
			}
			last := first
			if tc.requests > 1 {
				last = r.upstream(tc.requests - 1)
			}
			within(t, 100*time.Millisecond, "closing the upstream", last.Done)
			r.settled(1)
			r.wantRequests(tc.requests)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "client_gone", "code", "499")
			r.wantMetric(0, "doomproxy_requests_in_flight")
		})
	}
}

// waitFor reads until text was seen.
func waitFor(r io.Reader, text string) {
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), text) {
		n, err := r.Read(buf)
		seen.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// I6: nothing of a discarded attempt is in the final output, nor goes upstream
// again but for the bounded replay of the very request.
func TestI6NothingDiscardedComesBack(t *testing.T) {
	a := loop()
	a.ReasoningItems = 2
	r := newRig(t, nil, a, a, simulate.Scenario{Message: "fine"}, simulate.Scenario{Message: "next"})
	raw := r.answer(streamBody)
	evs := events(t, raw)
	output := fmt.Sprint(evs[len(evs)-1].get("response", "output"))
	for i, e := range evs {
		if id, ok := e.get("item", "id").(string); ok && i < len(evs)-len(afterSplice(t, raw, 2)) && strings.Contains(output, id) {
			t.Errorf("the final output holds %s of a discarded attempt", id)
		}
	}
	// The client's next request brings all it was sent.
	var items []string
	for _, e := range evs {
		if e.typ() == "response.output_item.done" && strings.Contains(e.raw, recovery.TombstonePrefix) {
			item := e.raw[strings.Index(e.raw, `"item":`)+len(`"item":`):]
			items = append(items, strings.TrimSuffix(item, "}"))
		}
	}
	if len(items) != 2 {
		t.Fatalf("got %d tombstones, want 2", len(items))
	}
	kept := `{"type":"message","role":"user","content":"go on"}`
	r.answer(`{"stream":true,"input":[` + strings.Join(items, ",") + `,` + kept + `]}`)
	if got, want := string(r.upstream(3).Body), `{"stream":true,"input":[`+kept+`]}`; got != want {
		t.Errorf("got %s upstream, want %s", got, want)
	}
	r.settled(2)
	r.wantMetric(2, "doomproxy_scrubbed_items_total", "reason", "tombstone")
}

// I7: a stream in which response.created was seen never ends cleanly without a
// terminal event.
func TestI7NoCleanEndWithoutTerminalEvent(t *testing.T) {
	healthy := simulate.Scenario{}.Stream(0, []byte(streamBody))
	visible := slices.IndexFunc(healthy, func(f string) bool { return strings.Contains(f, "response.output_text.delta") })
	for _, end := range []string{simulate.EndEOF, simulate.EndAbort} {
		for n := 1; n < len(healthy); n++ {
			t.Run(fmt.Sprintf("%s/%d", end, n), func(t *testing.T) {
				r := newRig(t, nil, simulate.Scenario{Limit: n, End: end})
				resp, raw, err := r.stream(streamBody)
				if resp.StatusCode != http.StatusOK {
					t.Fatalf("got status %d", resp.StatusCode)
				}
				if err != nil {
					if n < visible-2 {
						t.Errorf("got a dropped connection before anything was visible, want response.failed")
					}
					return
				}
				r.settled(1)
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "gave_up")
				r.wantMetric(0, "doomproxy_recoveries_total")
				evs := events(t, raw)
				last := evs[len(evs)-1]
				if last.typ() != "response.failed" || last.get("response", "error", "code") != "server_error" {
					t.Errorf("got a clean end behind %v", last)
				}
				if n > visible {
					t.Errorf("got %s behind something visible, want a dropped connection", last.typ())
				}
			})
		}
	}
	t.Run("other dialects end as they ended", func(t *testing.T) {
		const chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\n"
		r := newRig(t, nil, simulate.Scenario{Frames: []string{chunk, chunk}})
		if got := r.answer(streamBody); got != chunk+chunk {
			t.Errorf("got %q, want %q", got, chunk+chunk)
		}
	})
	t.Run("terminal event without its blank line", func(t *testing.T) {
		stream := strings.TrimRight(strings.Join(healthy, ""), "\n")
		r := newRig(t, nil, simulate.Scenario{Frames: []string{stream}})
		if got := r.answer(streamBody); got != stream {
			t.Errorf("got %q, want %q", got, stream)
		}
	})
	t.Run("terminal event cut short", func(t *testing.T) {
		stream := strings.TrimRight(strings.Join(healthy, ""), "}\n")
		r := newRig(t, nil, simulate.Scenario{Frames: []string{stream}})
		if _, _, err := r.stream(streamBody); err == nil {
			t.Error("got a clean end, want a dropped connection")
		}
	})
	t.Run("a frame cut short before the failure", func(t *testing.T) {
		part := healthy[4][:len(healthy[4])/2]
		r := newRig(t, nil, simulate.Scenario{Frames: append(slices.Clone(healthy[:4]), part)})
		raw := r.answer(streamBody)
		if err := checkI3(raw, events(t, raw)); err != nil {
			t.Errorf("%v in:\n%s", err, raw)
		}
	})
	t.Run("upstream resets", func(t *testing.T) {
		url := rawUpstream(t, func(_ int, conn net.Conn, _ *http.Request) {
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n%s", strings.Join(healthy[:5], ""))
			conn.(*net.TCPConn).SetLinger(0) //nolint:errcheck // then the client sees an end, and the test fails
		})
		raw := newRigFor(t, url, nil).answer(streamBody)
		if evs := events(t, raw); evs[len(evs)-1].typ() != "response.failed" {
			t.Errorf("got %v, want response.failed at the end", types(evs))
		}
	})
}

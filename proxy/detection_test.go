package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
	"github.com/doomproxy/doomproxy/sseframe"
)

// detecting has loops cut that the detector finds, with the defaults of serve.
func detecting(c *proxy.Config) { c.Detector.Act = detect.Exact }

// silent is detecting in front of an upstream that is not asked for reports, so
// that it makes none.
func silent(c *proxy.Config) {
	detecting(c)
	c.SignalHeaders = proxy.SignalHeadersNever
}

const phrase = "Wait, I should check the lock file again. "

// loopsOn loops in its thinking until it is cut.
func loopsOn() simulate.Scenario {
	return simulate.Scenario{Loop: &simulate.Loop{After: 3, Phrase: phrase}}
}

// An upstream that reports nothing loops: the attempt is cut within the stated
// delay, and the client gets a clean answer.
func TestLocalLoopIsCut(t *testing.T) {
	for name, change := range map[string]func(*proxy.Config){
		"live": silent,
		"hold": func(c *proxy.Config) { silent(c); c.Delivery = proxy.DeliveryHold },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, change, loopsOn(), simulate.Scenario{Message: "fine"})
			raw := r.answer(streamBody)
			evs := events(t, raw)
			if err := checkI3(raw, evs); err != nil || evs[len(evs)-1].typ() != "response.completed" {
				t.Errorf("got %v and %v, want a recovery", types(evs), err)
			}
			r.wantRequests(2)
			if name == "live" {
				// 768 bytes of it make the loop certain, and text is looked into 512 bytes
				// at a time. What makes it certain is not sent.
				least, most := 768/len(phrase), (768+512)/len(phrase)
				if got := strings.Count(raw, phrase); got < least || got > most {
					t.Errorf("the client got the phrase %d times, want %d to %d", got, least, most)
				}
				if !strings.Contains(raw, ": doomproxy resample=1 trigger=tail_repetition:8@thinking\n\n") {
					t.Errorf("no comment marks the splice in:\n%s", raw)
				}
			}
			r.settled(1)
			r.wantMetric(1, "doomproxy_doom_aborts_total")
			r.wantMetric(1, "doomproxy_doom_aborts_total", "source", "local", "kind", "tail_repetition", "mode", "enforce")
			r.wantMetric(1, "doomproxy_doom_signals_total", "source", "local", "channel", "thinking", "confident", "true")
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "recovered")
			log := r.log.String()
			if want := fmt.Sprintf("period=%d copies=18 repeated=", len(phrase)); !strings.Contains(log, `"loops":["exact@thinking offset=`) || !strings.Contains(log, want) {
				t.Errorf("got the log %s, want the loop's numbers in it", log)
			}
			if strings.Contains(log, "lock file") {
				t.Errorf("the log holds text: %s", log)
			}
		})
	}
}

// The same of a client that wants one JSON object.
func TestLocalLoopIsCutForPlainAnswers(t *testing.T) {
	r := newRig(t, silent, loopsOn(), simulate.Scenario{Message: "fine"})
	if raw := r.answer(`{"model":"m","input":"hi"}`); !strings.Contains(raw, `"fine"`) || strings.Contains(raw, phrase) {
		t.Errorf("got %s, want the second answer", raw)
	}
	r.wantRequests(2)
}

// The budget of resamples is the same for both sources.
func TestLocalLoopsAndTheBudget(t *testing.T) {
	loop := loopsOn()
	loop.Loop.Deltas, loop.Loop.Then = 60, simulate.ThenFinish
	r := newRig(t, silent, loop)
	raw := r.answer(streamBody)
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Error(err)
	}
	r.wantRequests(3)
	r.settled(1)
	r.wantMetric(2, "doomproxy_doom_aborts_total", "source", "local")
	r.wantMetric(1, "doomproxy_requests_total", "outcome", "accepted_after_budget")
}

// A loop that both sides find is cut once, whoever is first.
func TestLoopThatBothFind(t *testing.T) {
	for source, every := range map[string]int{"upstream": 4, "local": 40} {
		t.Run(source, func(t *testing.T) {
			loop := loopsOn()
			loop.Loop.Every, loop.Loop.Triggers = every, []string{"tail_repetition:8@thinking"}
			r := newRig(t, detecting, loop, simulate.Scenario{Message: "fine"})
			r.answer(streamBody)
			r.wantRequests(2)
			r.settled(1)
			r.wantMetric(1, "doomproxy_doom_aborts_total")
			r.wantMetric(1, "doomproxy_doom_aborts_total", "source", source)
			r.wantMetric(1, "doomproxy_doom_signals_total", "confident", "true")
		})
	}
	t.Run("in the attempt that is accepted", func(t *testing.T) {
		loop := loopsOn()
		loop.Loop.Every, loop.Loop.Triggers = 30, []string{"tail_repetition:8@thinking"}
		loop.Loop.Deltas, loop.Loop.Then = 30, simulate.ThenFinish
		r := newRig(t, func(c *proxy.Config) { detecting(c); c.Policy.MaxRetries = 0 }, loop)
		r.answer(streamBody)
		r.settled(1)
		// The same label counts once for each source.
		r.wantMetric(1, "doomproxy_doom_signals_total", "source", "local")
		r.wantMetric(1, "doomproxy_doom_signals_total", "source", "upstream")
		r.wantMetric(0, "doomproxy_doom_aborts_total")
		r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "accepted_after_budget")
	})
}

// What else is found, or not looked for, ends nothing.
func TestLocalLoopsThatAreNotCut(t *testing.T) {
	finite := func(channel, phrase string) simulate.Scenario {
		return simulate.Scenario{Loop: &simulate.Loop{Channel: channel, Phrase: phrase, Deltas: 200, Triggers: []string{}, Then: simulate.ThenFinish}}
	}
	const none, warned, confident = "", "warned", "confident"
	for _, tc := range []struct {
		name     string
		change   func(*proxy.Config)
		scenario simulate.Scenario
		headers  []string
		signals  string  // what they are at best
		observed float64 // attempts that would have been cut
	}{
		{"in the answer", nil, finite("response", phrase), nil, warned, 0},
		{"in a call", nil, finite("tool", phrase), nil, warned, 0},
		{"observed", func(c *proxy.Config) { c.Detector.Mode = proxy.ModeObserve }, finite("", phrase), nil, confident, 1},
		{"recovery observed", func(c *proxy.Config) { c.Mode = proxy.ModeObserve }, finite("", phrase), nil, confident, 1},
		{"no part may act", func(c *proxy.Config) { c.Detector.Act = 0 }, finite("", phrase), nil, warned, 0},
		{"off", func(c *proxy.Config) { c.Detector.Mode = proxy.ModeOff }, finite("", phrase), nil, none, 0},
		{"recovery off", func(c *proxy.Config) { c.Mode = proxy.ModeOff }, finite("", phrase), nil, none, 0},
		{"recovery off for this request", nil, finite("", phrase), []string{"X-Doomproxy-Recovery", "off"}, none, 0},
		{"another channel", func(c *proxy.Config) { c.Detector.Channels = []detect.Channel{detect.Tool} }, finite("", phrase), nil, none, 0},
		{"too few copies", nil, simulate.Scenario{Loop: &simulate.Loop{Phrase: phrase, Deltas: 18, Triggers: []string{}, Then: simulate.ThenFinish}}, nil, none, 0},
		{"deferred", nil, finite("", phrase), []string{"X-Grok-Doom-Loop-Check", "1024"}, confident, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *proxy.Config) {
				silent(c)
				if tc.change != nil {
					tc.change(c)
				}
			}, tc.scenario)
			raw := r.answer(streamBody, tc.headers...)
			if want := strings.Join(tc.scenario.Stream(0, []byte(streamBody)), ""); raw != want {
				t.Errorf("got %d bytes that differ from the upstream's %d", len(raw), len(want))
			}
			r.wantRequests(1)
			r.settled(1)
			got := none
			switch {
			case r.metric("doomproxy_doom_signals_total", "source", "local", "confident", "true") > 0:
				got = confident
			case r.metric("doomproxy_doom_signals_total", "source", "local") > 0:
				got = warned
			}
			if got != tc.signals {
				t.Errorf("got signals that are %q at best, want %q", got, tc.signals)
			}
			r.wantMetric(tc.observed, "doomproxy_doom_aborts_total")
			r.wantMetric(tc.observed, "doomproxy_doom_aborts_total", "mode", "observe", "source", "local")
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "clean")
		})
	}
}

// What only the second part finds is cut if it may act.
func TestOtherPartsCanAct(t *testing.T) {
	var counting []string
	for i := range 100 {
		counting = append(counting, fmt.Sprintf("Turn %d: the tests still fail, so let me look at the output again. ", i))
	}
	loop := simulate.Scenario{Thinking: counting}
	r := newRig(t, silent, loop)
	r.answer(streamBody)
	r.wantRequests(1)
	r.settled(1)
	r.wantMetric(0, "doomproxy_doom_signals_total", "confident", "true")
	if r.metric("doomproxy_doom_signals_total", "source", "local") == 0 {
		t.Error("nothing was found")
	}
	r = newRig(t, func(c *proxy.Config) { silent(c); c.Detector.Act = detect.Exact | detect.Counter }, loop, simulate.Scenario{})
	r.answer(streamBody)
	r.wantRequests(2)
}

// The threshold counts for what is found here, too: it takes more copies.
func TestMaxThresholdOfLocalLoops(t *testing.T) {
	for threshold, copies := range map[int]int{64: 768 / len(phrase), 4: 36, 2: 72} {
		r := newRig(t, func(c *proxy.Config) { silent(c); c.Policy.MaxThreshold = threshold }, loopsOn(), simulate.Scenario{Message: "fine"})
		raw := r.answer(streamBody)
		// Text is looked into 512 bytes at a time.
		if got, most := strings.Count(raw, phrase), copies+512/len(phrase)+1; got < copies-1 || got > most {
			t.Errorf("threshold %d: got the phrase %d times, want %d to %d", threshold, got, copies-1, most)
		}
	}
}

// A loop that is just long enough when the thinking ends is cut before anything is
// visible, though its last text is still to be looked into by then.
func TestLoopAtTheEndOfThinking(t *testing.T) {
	enough := 768/len(phrase) + 1
	for copies, requests := range map[int]int{enough - 1: 1, enough: 2} {
		loop := simulate.Scenario{Thinking: slices.Repeat([]string{phrase}, copies), Message: "Here it is."}
		r := newRig(t, silent, loop, simulate.Scenario{})
		r.answer(streamBody)
		r.wantRequests(requests)
	}
}

// A loop in thinking that goes on behind something visible is late.
func TestLateLocalLoop(t *testing.T) {
	healthy := simulate.Scenario{Message: "Here it is."}.Stream(0, []byte(streamBody))
	var all []string
	for _, f := range healthy {
		all = append(all, f)
		if strings.HasPrefix(f, "event: response.output_text.done") {
			for range 40 {
				all = append(all, delta("response.reasoning_text.delta", phrase))
			}
		}
	}
	r := newRig(t, silent, simulate.Scenario{Frames: all})
	if raw := r.answer(streamBody); raw != strings.Join(all, "") {
		t.Error("the stream was changed")
	}
	r.settled(1)
	r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "late")
}

// delta returns a frame with a text, whose bytes are not touched, broken UTF-8
// included.
func delta(typ, text string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":\"%[1]s\",\"output_index\":0,\"delta\":\"%s\"}\n\n", typ, escaped(text))
}

func escaped(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case c == '"', c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			fmt.Fprintf(&b, `\u%04x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// No legitimate text is changed or acted on, in whatever channel it comes.
func TestLegitimateTextPasses(t *testing.T) {
	for _, shape := range corpus.Legitimate() {
		t.Run(shape.Name, func(t *testing.T) {
			t.Parallel()
			text := shape.Sample(1).Text
			healthy := simulate.Scenario{}.Stream(0, []byte(streamBody))
			all := slices.Clone(healthy[:2])
			all = append(all, "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"reasoning\",\"id\":\"rs_0123456789abcdef\"}}\n\n")
			for _, typ := range []string{"response.reasoning_text.delta", "response.output_text.delta", "response.function_call_arguments.delta"} {
				for _, piece := range corpus.Cut(text, 1) {
					all = append(all, delta(typ, string(piece)))
				}
			}
			all = append(all, healthy[len(healthy)-1])
			r := newRig(t, silent, simulate.Scenario{Frames: all})
			if raw := r.answer(streamBody); raw != strings.Join(all, "") {
				t.Error("the stream was changed")
			}
			r.wantRequests(1)
			r.settled(1)
			r.wantMetric(0, "doomproxy_doom_signals_total")
			r.wantMetric(0, "doomproxy_doom_aborts_total")
		})
	}
}

// foreign are streams of other dialects that loop, in the named channel.
func foreign() map[string]struct{ path, channel, stream string } {
	chat := func(member string) string {
		var b strings.Builder
		b.WriteString(": OPENROUTER PROCESSING\n\n")
		for range 100 {
			fmt.Fprintf(&b, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{%s}}]}\n\n", fmt.Sprintf(member, escaped(phrase)))
		}
		b.WriteString("data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		return b.String()
	}
	messages := func(kind, member string) string {
		var b strings.Builder
		b.WriteString("event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg\"}}\r\n\r\n")
		for range 100 {
			fmt.Fprintf(&b, "event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"%s\",\"%s\":\"%s\"}}\r\n\r\n", kind, member, escaped(phrase))
		}
		b.WriteString("event: message_stop\r\ndata: {\"type\":\"message_stop\"}\r\n\r\n")
		return b.String()
	}
	return map[string]struct{ path, channel, stream string }{
		"chat reasoning_content": {"/v1/chat/completions", "thinking", chat(`"reasoning_content":"%s"`)},
		"chat reasoning":         {"/v1/chat/completions", "thinking", chat(`"reasoning":"%s"`)},
		"chat content":           {"/v1/chat/completions", "response", chat(`"content":"%s"`)},
		"chat tool calls":        {"/v1/chat/completions", "tool", chat(`"tool_calls":[{"index":0,"function":{"arguments":"%s"}}]`)},
		"messages thinking":      {"/v1/messages", "thinking", messages("thinking_delta", "thinking")},
		"messages text":          {"/v1/messages", "response", messages("text_delta", "text")},
		"messages tool":          {"/v1/messages", "tool", messages("input_json_delta", "partial_json")},
	}
}

// Streams of other dialects pass as they come, and are watched.
func TestForeignStreamsAreWatched(t *testing.T) {
	for name, tc := range foreign() {
		for _, mode := range []proxy.Mode{proxy.ModeEnforce, proxy.ModeOff} {
			t.Run(name+" "+string(mode), func(t *testing.T) {
				r := newRigFor(t, newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					io.WriteString(w, tc.stream) //nolint:errcheck // the test looks at what arrives
				})), func(c *proxy.Config) { silent(c); c.Detector.Mode = mode })
				resp, err := client.Post(r.url+tc.path, "application/json", strings.NewReader(`{"model":"m","stream":true}`)) //nolint:noctx // it ends
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				raw, err := io.ReadAll(resp.Body)
				if err != nil || string(raw) != tc.stream {
					t.Errorf("got %d bytes and %v, want the upstream's %d", len(raw), err, len(tc.stream))
				}
				r.settled(1)
				want := r.metric("doomproxy_doom_signals_total")
				if found := want > 0; found != (mode == proxy.ModeEnforce) {
					t.Errorf("got %v signals", want)
				}
				r.wantMetric(want, "doomproxy_doom_signals_total", "source", "local", "channel", tc.channel)
				r.wantMetric(0, "doomproxy_doom_aborts_total")
				r.wantMetric(1, "doomproxy_requests_total", "outcome", "clean", "protection", "passthrough")
				if log := r.log.String(); strings.Contains(log, `"loops"`) != (mode == proxy.ModeEnforce) || strings.Contains(log, "lock file") {
					t.Errorf("got the log %s", log)
				}
			})
		}
	}
}

// What is watched is not held up: part of a frame passes, too.
func TestWatchedStreamIsNotHeldUp(t *testing.T) {
	got := make(chan string)
	r := newRigFor(t, newServer(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, part := range []string{": keepalive\n", "data: {\"choices\"", ":[]}\n\n"} {
			io.WriteString(w, part) //nolint:errcheck // the test looks at what arrives
			w.(http.Flusher).Flush()
			<-got
		}
	})), nil)
	resp, err := client.Post(r.url+"/v1/chat/completions", "application/json", strings.NewReader(`{}`)) //nolint:noctx // it ends
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 100)
	for _, want := range []string{": keepalive\n", "data: {\"choices\"", ":[]}\n\n"} {
		n, err := resp.Body.Read(b)
		if string(b[:n]) != want {
			t.Errorf("got %q, %v, want %q", b[:n], err, want)
		}
		got <- want
	}
}

// An operator can switch the detector while the proxy runs.
func TestSwitchDetector(t *testing.T) {
	state := new(proxy.State)
	loop := loopsOn()
	loop.Loop.Deltas, loop.Loop.Then = 60, simulate.ThenFinish
	r := newRig(t, func(c *proxy.Config) { silent(c); c.State = state }, loop, simulate.Scenario{}, loop, loop)
	r.answer(streamBody)
	r.wantRequests(2)
	state.SetMode(proxy.GuardDetector, proxy.ModeOff)
	r.answer(streamBody)
	r.wantRequests(3)
	state.SetMode(proxy.GuardDetector, proxy.ModeObserve)
	r.answer(streamBody)
	r.wantRequests(4)
	r.settled(3)
	r.wantMetric(1, "doomproxy_doom_aborts_total", "mode", "enforce")
	r.wantMetric(1, "doomproxy_doom_aborts_total", "mode", "observe")
}

// found returns what a Detection makes of a stream.
func found(t *testing.T, d *proxy.Detection, stream string) []detect.Signal {
	t.Helper()
	var s sseframe.Scanner
	s.Reset(strings.NewReader(stream))
	var parser recovery.Parser
	var all []detect.Signal
	for {
		f, err := s.Next()
		if err != nil {
			return append(all, d.End()...)
		}
		ev := parser.Parse(f)
		all = append(all, d.Watch(ev)...)
	}
}

// Wherever a text is cut into deltas and however it is escaped, the signals are
// the same, at the same offsets.
func TestDetectionDoesNotDependOnDeltas(t *testing.T) {
	text := strings.Repeat("Hm \U0001F600: \"a\\b\"\n\tcafé ", 100)
	quoted := map[string]string{
		"as it is": escaped(text),
		"ASCII":    strings.Trim(strconv.QuoteToASCII(text), `"`),
	}
	// JSON has no \U escape, but pairs.
	quoted["ASCII"] = strings.ReplaceAll(quoted["ASCII"], `\U0001f600`, `\ud83d\ude00`)
	const typ = "response.reasoning_text.delta"
	frame := func(piece string) string {
		return "data: {\"type\":\"" + typ + "\",\"delta\":\"" + piece + "\"}\n\n"
	}
	var want []detect.Signal
	for name, q := range quoted {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1)) // #nosec G404 -- a test's
			var stream strings.Builder
			for rest := q; rest != ""; {
				n := escapeAligned(rest, 1+r.IntN(40))
				stream.WriteString(frame(rest[:n]))
				rest = rest[n:]
			}
			var d proxy.Detection
			got := found(t, &d, stream.String())
			if size := d.Size(detect.Thinking); size != int64(len(text)) {
				t.Fatalf("%s: got %d bytes of text, want %d", name, size, len(text))
			}
			d.Close()
			if want == nil {
				want = slices.Clone(got)
			}
			if len(got) == 0 || !slices.Equal(got, want) {
				t.Fatalf("%s, seed %d: got %v, want %v", name, seed, got, want)
			}
		}
	}
}

// escapeAligned returns a length near n that tears no escape.
func escapeAligned(s string, n int) int {
	at := 0
	for at < n && at < len(s) {
		switch {
		case s[at] != '\\':
			at++
		case s[at+1] == 'u':
			at += 6
		default:
			at += 2
		}
	}
	return at
}

// In a stream that goes on, watching costs no allocation.
func TestWatchingDoesNotAllocate(t *testing.T) {
	streams := map[string]string{
		"responses": delta("response.reasoning_text.delta", "one \"two\"\n"),
		"chat":      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one \\\"two\\\"\\n\"}}]}\n\n",
		"messages":  "data: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"one \\\"two\\\"\\n\"}}\n\n",
	}
	for name, frame := range streams {
		d := proxy.Detection{Foreign: true}
		var parser recovery.Parser
		watch := func() {
			ev := parser.Parse(sseframe.Frame{Raw: []byte(frame)})
			d.Watch(ev)
		}
		for range 4000 { // until it has all its memory and has nothing new to say
			watch()
		}
		raw := []byte(frame)
		if n := testing.AllocsPerRun(500, func() {
			ev := parser.Parse(sseframe.Frame{Raw: raw})
			d.Watch(ev)
		}); n != 0 {
			t.Errorf("%s: got %v allocations for a delta, want none", name, n)
		}
		d.Close()
	}
}

// What the detector costs, in ratio to a stream that is not watched.
func BenchmarkDetector(b *testing.B) {
	stream := longStream(2000)
	for _, mode := range []proxy.Mode{proxy.ModeOff, proxy.ModeEnforce} {
		b.Run(string(mode), func(b *testing.B) {
			h := inProcessWith(b, func(c *proxy.Config) { c.Detector.Mode = mode }, func(*http.Request) io.Reader { return bytes.NewReader(stream) })
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				ask(h)
			}
		})
	}
}

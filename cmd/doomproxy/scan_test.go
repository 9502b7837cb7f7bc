package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/doomproxy/doomproxy/simulate"
)

var update = flag.Bool("update", false, "write the golden files")

// scanFor runs scan and returns its exit code and what it printed.
func scanFor(t *testing.T, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told bytes.Buffer
	a := &app{stdin: stdin, stdout: &out, stderr: &told}
	code = report(&told, a.run(t.Context(), append([]string{"scan"}, args...)))
	return code, out.String(), told.String()
}

// scanJSON is scanFor with the output as programs read it.
func scanJSON(t *testing.T, stdin io.Reader, args ...string) (code int, list []scanned) {
	t.Helper()
	code, stdout, stderr := scanFor(t, stdin, append(args, "--format", "json")...)
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatalf("%v in:\n%s%s", err, stdout, stderr)
	}
	return code, list
}

// stream is a captured stream of a scenario.
func stream(sc simulate.Scenario) string {
	return strings.Join(sc.Stream(0, []byte(`{"model":"m","stream":true}`)), "")
}

const scanPhrase = "Wait, I should check the lock file again. "

// loopStream is a stream that loops in a channel, reported or not.
func loopStream(channel string, triggers ...string) string {
	return stream(simulate.Scenario{Loop: loopOf(channel, triggers...)})
}

func loopOf(channel string, triggers ...string) *simulate.Loop {
	if triggers == nil {
		triggers = []string{}
	}
	return &simulate.Loop{Channel: channel, After: 3, Phrase: scanPhrase, Deltas: 60, Triggers: triggers, Always: true, Then: simulate.ThenFinish}
}

// chatStream is a Chat Completions stream that says the same n times.
func chatStream(member string, n int) string {
	return strings.Repeat("data: {\"choices\":[{\"index\":0,\"delta\":{\""+member+"\":\""+scanPhrase+"\"}}]}\n\n", n) + "data: [DONE]\n\n"
}

// responsesDelta is an event with text of a Responses stream.
func responsesDelta(kind, text string) string {
	data, _ := json.Marshal(map[string]any{"type": "response." + kind + ".delta", "output_index": 0, "delta": text}) //nolint:errchkjson // strings
	return "data: " + string(data) + "\n\n"
}

func TestScanVerdicts(t *testing.T) {
	messages := func(kind string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\"}\n\n" +
			strings.Repeat("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\""+kind+"\":\""+scanPhrase+"\"}}\n\n", 100)
	}
	whole := loopStream("thinking")
	shown := "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":9,\"item\":{\"type\":\"message\"}}\n\n"
	terminalOnly := loopOf("thinking", "tail_repetition:32@thinking")
	terminalOnly.TerminalOnly, terminalOnly.Deltas = true, 3
	counting := simulate.Scenario{}
	for i := range 100 {
		counting.Thinking = append(counting.Thinking, fmt.Sprintf("Turn %d: the tests still fail, so let me look at the output again. ", i))
	}
	exact := func(channel string) scannedSignal {
		return scannedSignal{Source: "local", Label: "tail_repetition:8@" + channel, Part: "exact", Channel: channel, Period: 42, Copies: 18, Repeated: 768}
	}
	long := func(channel string) scannedSignal {
		return scannedSignal{Source: "local", Label: "tail_repetition:4@" + channel, Part: "exact", Channel: channel, Period: 42, Copies: 48, Repeated: 2048}
	}
	reported := func(label string) scannedSignal {
		return scannedSignal{Source: "upstream", Label: label, Channel: "thinking"}
	}
	const foreign = "streams of this kind are never cut"
	for _, tc := range []struct {
		name, text string
		args       []string
		verdict    string
		dialect    string
		first      scannedSignal
		why        string // the first is not acted on
	}{
		{"healthy", stream(simulate.Scenario{}), nil, verdictNoLoop, dialectResponses, scannedSignal{}, ""},
		{"found", whole, nil, verdictCut, dialectResponses, exact("thinking"), ""},
		{"found in one event", responsesDelta("reasoning_text", strings.Repeat(scanPhrase, 50)), nil, verdictCut, dialectResponses, exact("thinking"), ""},
		{"reported first", loopStream("thinking", "tail_repetition:32@thinking"), nil, verdictCut, dialectResponses, reported("tail_repetition:32@thinking"), ""},
		{"reported at the end", stream(simulate.Scenario{Loop: terminalOnly, NoMessage: true}), nil, verdictCut, dialectResponses, reported("tail_repetition:32@thinking"), ""},
		{"reported behind an answer", stream(simulate.Scenario{Loop: terminalOnly}), nil, verdictWarned, dialectResponses, reported("tail_repetition:32@thinking"), "behind something visible"},
		{"reported, too loose", loopStream("thinking", "tail_repetition:65@thinking"), nil, verdictCut, dialectResponses, reported("tail_repetition:65@thinking"), "too loose"},
		{"another kind", loopStream("thinking", "low_logprob@thinking"), nil, verdictCut, dialectResponses, reported("low_logprob@thinking"), "a kind that only warns"},
		{"threshold", whole, []string{"--max-threshold", "4"}, verdictCut, dialectResponses, exact("thinking"), "too loose"},
		{"no part may act", whole, []string{"--act", ""}, verdictWarned, dialectResponses, exact("thinking"), "exact only warns"},
		{"counter", stream(counting), nil, verdictWarned, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:32@thinking", Part: "counter", Channel: "thinking", Period: 66, Copies: 23, Repeated: 1536}, "counter only warns"},
		{"counter may act", stream(counting), []string{"--act", "exact,counter"}, verdictCut, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:32@thinking", Part: "counter", Channel: "thinking", Period: 66, Copies: 23, Repeated: 1536}, ""},
		{"in the answer", loopStream("response"), nil, verdictWarned, dialectResponses, long("response"), "not in the thinking"},
		{"in a call", loopStream("tool"), nil, verdictWarned, dialectResponses, long("tool"), "not in the thinking"},
		{"late", shown + whole, nil, verdictWarned, dialectResponses, exact("thinking"), "behind something visible"},
		{"chat", chatStream("reasoning_content", 100), nil, verdictWarned, dialectChat, exact("thinking"), foreign},
		{"chat, answer", chatStream("content", 100), nil, verdictWarned, dialectChat, long("response"), foreign},
		{"chat, healthy", chatStream("reasoning_content", 1), nil, verdictNoLoop, dialectChat, scannedSignal{}, ""},
		{"messages", messages("thinking"), nil, verdictWarned, dialectMessages, exact("thinking"), foreign},
		{"messages, call", messages("partial_json"), nil, verdictWarned, dialectMessages, long("tool"), foreign},
		{"text", strings.Repeat(scanPhrase, 30), []string{"--text"}, verdictWarned, dialectText, exact("thinking"), "plain text is not cut"},
		{"text of an answer", strings.Repeat(scanPhrase, 90), []string{"--text", "--channel", "response"}, verdictWarned, dialectText, long("response"), "plain text is not cut"},
		{"less text of an answer", strings.Repeat(scanPhrase, 30), []string{"--text", "--channel", "response"}, verdictNoLoop, dialectText, scannedSignal{}, ""},
		{"no text", "", []string{"--text"}, verdictNoLoop, dialectText, scannedSignal{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, list := scanJSON(t, nil, append(tc.args, file(t, tc.text))...)
			got := list[0]
			wantCode := 1
			if tc.verdict == verdictNoLoop {
				wantCode = 0
			}
			if code != wantCode || got.Verdict != tc.verdict || got.Dialect != tc.dialect || got.Bytes != int64(len(tc.text)) {
				t.Errorf("got exit code %d and %+v, want %d, %s and %s", code, got, wantCode, tc.verdict, tc.dialect)
			}
			if wantCode == 0 {
				if len(got.Signals) > 0 || got.Place != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			first := got.Signals[0]
			if first.Offset <= 0 || first.Offset > got.Text[first.Channel] {
				t.Errorf("got the offset %d of %v", first.Offset, got.Text)
			}
			tc.first.Event, tc.first.At, tc.first.Offset = first.Event, first.At, first.Offset
			tc.first.Acts, tc.first.Why = tc.why == "", tc.why
			if first != tc.first {
				t.Errorf("got first %+v, want %+v", first, tc.first)
			}
			i := slices.IndexFunc(got.Signals, func(s scannedSignal) bool { return s.Acts })
			if (i >= 0) != (tc.verdict == verdictCut) {
				t.Errorf("got %s and the signals %+v", got.Verdict, got.Signals)
			}
			wantPlace(t, &got, tc.text, &got.Signals[max(i, 0)])
		})
	}
}

// wantPlace checks that a verdict is about a signal, and what lies behind it.
func wantPlace(t *testing.T, got *scanned, text string, of *scannedSignal) {
	t.Helper()
	p, behind := got.Place, ""
	switch {
	case p.Event != of.Event || p.At != of.At:
		t.Errorf("got the place %+v, want that of %+v", p, of)
	case got.Dialect == dialectText:
		behind = text[p.At:]
		if p.At != of.Offset || p.Tokens != int64(len(behind)/4) {
			t.Errorf("got %+v, want the place behind the first %d bytes", p, of.Offset)
		}
	default:
		before, rest := text[:p.At], ""
		_, rest, _ = strings.Cut(text[p.At:], "\n\n")
		behind = rest
		if strings.Count(before, "\n\n") != p.Event-1 {
			t.Errorf("got event %d at byte %d, which is not where it begins", p.Event, p.At)
		}
	}
	if p.Bytes != int64(len(behind)) || (p.Tokens > 0) != strings.Contains(behind, scanPhrase[:10]) && !strings.Contains(behind, ".delta\"") {
		t.Errorf("got %+v, want %d bytes behind it", p, len(behind))
	}
	if want := 100 * float64(len(behind)) / float64(len(text)); p.Percent < want-0.06 || p.Percent > want+0.06 {
		t.Errorf("got %v %%, want %v %%", p.Percent, want)
	}
}

// What a cut saves is what had not come by then, in bytes of text for tokens.
func TestScanSavings(t *testing.T) {
	text := responsesDelta("reasoning_text", strings.Repeat(scanPhrase, 20)) +
		responsesDelta("output_text", strings.Repeat("é", 200)) + responsesDelta("function_call_arguments", strings.Repeat("xyzw", 10))
	_, list := scanJSON(t, nil, file(t, text))
	if got := *list[0].Place; got.Event != 1 || got.At != 0 || got.Tokens != (400+40)/4 {
		t.Errorf("got %+v, want 110 tokens behind event 1", got)
	}
}

// Signals of the event that is cut count alike; what comes behind it does not.
func TestScanOfSeveralLoops(t *testing.T) {
	check := func(labels string) string {
		return "event: response.doom_loop_check\ndata: {\"type\":\"response.doom_loop_check\",\"doom_loop_check\":{\"triggers\":[" + labels + "]}}\n\n"
	}
	text := check(`"tail_repetition:32@thinking","low_logprob@thinking","tail_repetition:8@thinking","tail_rep\u001b[31m@x\ny"`) +
		check(`"tail_repetition:32@thinking","tail_repetition:4@thinking"`)
	for _, thought := range []string{"First things first: there is a bug. ", "Anyway, let us go on with something else! "} {
		text += responsesDelta("reasoning_text", thought+strings.Repeat(scanPhrase, 30))
	}
	_, list := scanJSON(t, nil, file(t, text))
	var got []string
	for _, s := range list[0].Signals {
		got = append(got, fmt.Sprintf("%d %s %s %v %s", s.Event, s.Label, s.Channel, s.Acts, s.Why))
	}
	want := []string{
		"1 tail_repetition:32@thinking thinking true ",
		"1 low_logprob@thinking thinking false a kind that only warns",
		"1 tail_repetition:8@thinking thinking true ",
		"1 tail_rep31m@xy other false not in the thinking",
		"2 tail_repetition:4@thinking thinking false behind the cut",
		"3 tail_repetition:8@thinking thinking false behind the cut",
		"4 tail_repetition:8@thinking thinking false behind the cut",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The list of signals is bounded, and the verdict does not depend on that.
func TestScanOfManySignals(t *testing.T) {
	letters := func(r rune) rune { return 'a' + r%26 }
	var text strings.Builder
	for i := range maxScanned + 5 {
		unit := strings.Map(letters, fmt.Sprintf("%d", 1e9+i*7919)) + " comes after " + strings.Map(letters, fmt.Sprintf("%d", 1e9+i*104729)) + ". "
		text.WriteString(responsesDelta("function_call_arguments", strings.Repeat(unit, 4+2048/len(unit))))
	}
	warned := text.String()
	// A call is visible, which would keep the loop behind it from being cut.
	cut := strings.ReplaceAll(warned, "function_call_arguments", "reasoning_text") + responsesDelta("reasoning_text", strings.Repeat(scanPhrase, 200))
	_, list := scanJSON(t, nil, file(t, warned), file(t, cut), "--max-threshold", "2")
	if got := list[0]; got.Verdict != verdictWarned || len(got.Signals) != maxScanned || got.LeftOut < 5 || got.Place.Event > 2 {
		t.Errorf("got %s, %d signals, %d left out and %+v", got.Verdict, len(got.Signals), got.LeftOut, got.Place)
	}
	if got := list[1]; got.Verdict != verdictCut || len(got.Signals) != maxScanned || got.Place.Event != maxScanned+6 {
		t.Errorf("got %s, %d signals, %d left out and %+v", got.Verdict, len(got.Signals), got.LeftOut, got.Place)
	}
	_, stdout, _ := scanFor(t, nil, file(t, warned))
	wantText(t, stdout, fmt.Sprintf("\n  and %d more\n", list[0].LeftOut))
}

// Line ends, and how a stream is cut into reads and deltas, change nothing but
// places.
func TestScanIsNotPicky(t *testing.T) {
	var thought strings.Builder
	for _, part := range []string{"Let me see. Ünïcödé 🙂 helps. ", strings.Repeat("Wäit, “what” 🙂\nis that? ", 60)} {
		thought.WriteString(part)
	}
	deltas := func(size int) string {
		var b strings.Builder
		for chunk := range slices.Chunk([]rune(thought.String()), size) {
			b.WriteString(responsesDelta("reasoning_summary_text", string(chunk)))
		}
		return b.String()
	}
	plain := deltas(40)
	_, list := scanJSON(t, nil, file(t, plain))
	want := list[0].Signals
	if len(want) < 2 {
		t.Fatalf("got %+v", want)
	}
	for name, stdin := range map[string]io.Reader{
		"CRLF":         strings.NewReader(strings.ReplaceAll(plain, "\n", "\r\n")),
		"CR":           strings.NewReader(strings.ReplaceAll(plain, "\n", "\r")),
		"BOM":          strings.NewReader("\ufeff" + plain),
		"comment":      strings.NewReader(": captured\n\n" + plain),
		"head":         strings.NewReader("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + plain),
		"no end":       strings.NewReader(strings.TrimSuffix(plain, "\n\n")),
		"broken end":   strings.NewReader(plain + "data: {\"type\":\"response.reasoning_te"),
		"small reads":  iotest.OneByteReader(strings.NewReader(plain)),
		"late errors":  iotest.DataErrReader(strings.NewReader(plain)),
		"small deltas": strings.NewReader(deltas(1)),
		"one delta":    strings.NewReader(deltas(1 << 20)),
		"escapes":      strings.NewReader(strings.ReplaceAll(plain, "🙂", `\ud83d\ude42`)),
	} {
		_, list := scanJSON(t, stdin, "-")
		got := list[0]
		if got.Verdict != verdictCut || len(got.Signals) != len(want) {
			t.Errorf("%s: got %+v, want the signals %+v", name, got, want)
			continue
		}
		for i := range want {
			g, w := got.Signals[i], want[i]
			if g.Label != w.Label || g.Offset != w.Offset || g.Period != w.Period || g.Copies != w.Copies || g.Repeated != w.Repeated {
				t.Errorf("%s: got %+v, want %+v", name, g, w)
			}
		}
		if strings.HasSuffix(name, "end") && got.Events != len(slices.Collect(strings.SplitSeq(plain, "\n\n")))-1 {
			t.Errorf("%s: got %d events", name, got.Events)
		}
	}
}

// What cannot be read is told, and does not keep the rest from being read.
func TestScanErrors(t *testing.T) {
	healthy, loops := file(t, stream(simulate.Scenario{})), file(t, loopStream("thinking"))
	for name, tc := range map[string]struct{ path, want string }{
		"missing":         {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		"directory":       {t.TempDir(), "is a directory"},
		"empty":           {file(t, "\n"), "no event stream: it is empty, want server-sent events as they came"},
		"JSON":            {file(t, `{"id":"resp_1","status":"completed"}`), `no event stream: it is a JSON document, want the answer to a request with "stream":true`},
		"compressed":      {file(t, "\x1f\x8b\x08\x00"), "no event stream: it is compressed, want it unpacked: gunzip"},
		"text":            {file(t, "Wait, wait.\n\nWait."), `no event stream: it looks like plain text, want lines that begin with "data:", or the flag --text`},
		"much text":       {file(t, strings.Repeat("Wait, wait. ", 17<<20/12)), "no event stream: it looks like plain text"},
		"comments":        {file(t, ": keep-alive\n\n: keep-alive\n\n"), "no event stream: no event in it has data"},
		"broken":          {file(t, "event: response.doom_loop_check\ndata: {\"type\":"), "no event stream: no event in it has data that is whole"},
		"too large":       {file(t, stream(simulate.Scenario{})+"data: "+strings.Repeat("x", 17<<20)+"\n\n"), fmt.Sprintf(", at byte %d, is larger than 16 MiB", len(stream(simulate.Scenario{})))},
		"first too large": {file(t, "data: "+strings.Repeat("x", 17<<20)+"\n\n"), "event 1, at byte 0, is larger than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			code, list := scanJSON(t, nil, healthy, tc.path, loops)
			if code != 2 || list[0].Verdict != verdictNoLoop || list[1].Verdict != verdictUnreadable || !strings.Contains(list[1].Error, tc.want) || list[2].Verdict != verdictCut {
				t.Errorf("got exit code %d and %+v, want 2, and %q of the second", code, list, tc.want)
			}
			_, stdout, stderr := scanFor(t, nil, healthy, tc.path)
			wantText(t, stderr, "doomproxy: "+tc.path+": ", tc.want)
			wantText(t, stdout, tc.path+"\n", "  unreadable: ", tc.want, healthy+"\n", "verdict: no loop")
			if n := strings.Count(stderr, "\n"); n != 1 {
				t.Errorf("got %d lines of errors, want 1:\n%s", n, stderr)
			}
		})
	}
}

// A file is told apart by how it begins, however it comes, and what was found
// in one before an error is shown.
func TestScanErrorsOfStandardInput(t *testing.T) {
	json := `{"output":"` + strings.Repeat("x", 30<<10)
	code, _, stderr := scanFor(t, iotest.OneByteReader(strings.NewReader(json)), "-")
	if want := "doomproxy: standard input: no event stream: it is a JSON document"; code != 2 || !strings.HasPrefix(stderr, want) {
		t.Errorf("got exit code %d and %q, want %q", code, stderr, want)
	}
	broken := io.MultiReader(strings.NewReader(loopStream("thinking")), iotest.ErrReader(errors.New("the disk is gone")))
	code, stdout, stderr := scanFor(t, broken, "-")
	if want := "doomproxy: standard input: the disk is gone\n"; code != 2 || stderr != want {
		t.Errorf("got exit code %d and %q, want %q", code, stderr, want)
	}
	wantText(t, stdout, "a Responses stream of ", "tail_repetition:8@thinking", "  unreadable: the disk is gone\n")
	if strings.Contains(stdout, "verdict") {
		t.Errorf("got a verdict on half a file:\n%s", stdout)
	}
}

// A command that waits for standard input can be interrupted.
func TestScanInterrupted(t *testing.T) {
	in, typed := io.Pipe()
	c := begin(t, func(a *app) { a.stdin = in }, nil, "scan", "-", file(t, ""))
	t.Cleanup(func() { typed.Close() })
	if _, err := io.WriteString(typed, loopStream("thinking")); err != nil {
		t.Fatal(err)
	}
	c.stop()
	err := c.wait(t)
	if code := report(&c.stderr, err); code != 2 || c.stderr.String() != "doomproxy: standard input: interrupted\n" {
		t.Errorf("got exit code %d and %q, want 2 and that it was interrupted", code, &c.stderr)
	}
}

func TestScanUsage(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no file":    {nil, "want the names of files, or - for standard input"},
		"format":     {[]string{"--format", "yaml", "x"}, `--format: "yaml" is not allowed, want one of text, json`},
		"channel":    {[]string{"--text", "--channel", "all", "x"}, `--channel: "all" is not allowed, want one of thinking, response, tool`},
		"no text":    {[]string{"--channel", "tool", "x"}, "--channel is for --text"},
		"part":       {[]string{"--act", "exact,sure", "x"}, `--act: "sure" is not allowed, want one of exact, counter, saturation`},
		"threshold":  {[]string{"--max-threshold", "x", "x"}, `invalid argument "x"`},
		"two faults": {[]string{"--act", "x", "--format", "x", "x"}, `--act: "x" is not allowed`},
	} {
		if code, stdout, stderr := scanFor(t, nil, tc.args...); code != exitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: got exit code %d, %q and %q, want %q", name, code, stdout, stderr, tc.want)
		}
	}
	_, stdout, _ := scanFor(t, nil, "--help")
	wantText(t, stdout, "Examples:", "--max-threshold N", "--act PARTS", "--channel CHANNEL", "standard input")
}

// A threshold out of range is brought into it, with a warning, as serve does.
func TestScanThresholdOutOfRange(t *testing.T) {
	healthy := file(t, stream(simulate.Scenario{}))
	for given, want := range map[string]string{"65": "64 is used", "-1": "2 is used", "0": "2 is used", "64": "", "2": ""} {
		code, _, stderr := scanFor(t, nil, "--max-threshold", given, healthy)
		if code != 0 || !strings.Contains(stderr, want) || (want == "") != (stderr == "") {
			t.Errorf("%s: got exit code %d and %q, want %q", given, code, stderr, want)
		}
	}
	code, list := scanJSON(t, nil, "--max-threshold", "0", file(t, loopStream("thinking")))
	if code != 1 || list[0].Verdict != verdictWarned || list[0].Signals[0].Why != "too loose" {
		t.Errorf("got %+v, want that 2 is used", list)
	}
}

// A report that is lost is not taken for one that says something.
func TestScanWithoutOutput(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var told bytes.Buffer
		a := &app{stdout: brokenWriter{}, stderr: &told}
		code := report(&told, a.run(t.Context(), []string{"scan", "--format", format, file(t, stream(simulate.Scenario{}))}))
		if code != 2 || told.String() != "doomproxy: write the report: full\n" {
			t.Errorf("%s: got exit code %d and %q, want 2 and why", format, code, &told)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("full") }

// What people and programs are shown. It holds nothing of the text.
func TestScanReport(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for _, f := range []struct{ name, text string }{
		{"a loop.sse", loopStream("thinking", "exact_repetition:72x2@thinking", "tail_repetition:32@thinking")},
		{"odd\n\x1b[31m\u202ename.sse", chatStream("reasoning_content", 40)},
		{"answer.sse", loopStream("response", "low_logprob@thinking")},
		{"cut.sse", responsesDelta("reasoning_text", strings.Repeat(scanPhrase, 20))},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, []byte(f.text), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, path)
	}
	files = append(files, "testdata/scan/healthy.sse")
	for golden, args := range map[string][]string{
		"testdata/scan/report.txt":  files,
		"testdata/scan/report.json": append([]string{"--format", "json"}, files...),
		"testdata/scan/text.txt":    {"--text", "--channel", "response", "-"},
	} {
		code, stdout, stderr := scanFor(t, strings.NewReader(strings.Repeat(scanPhrase, 99)), args...)
		if code != 1 || stderr != "" {
			t.Errorf("got exit code %d and %q, want 1 and nothing", code, stderr)
		}
		got := strings.ReplaceAll(stdout, dir, "DIR")
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil { // #nosec G306 -- a file of the repository
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("got\n%s\nwant (-update writes it)\n%s", got, want)
		}
		if strings.Contains(stdout, "lock file") {
			t.Errorf("the report holds text of the model's:\n%s", stdout)
		}
	}
}

// A large stream takes no more memory than a small one.
func TestScanOfALargeStream(t *testing.T) {
	frame := strings.Join(simulate.Scenario{}.Stream(0, []byte(`{"stream":true}`))[3:6], "")
	for name, tc := range map[string]struct {
		head, text string
		size       int
		args       []string
	}{
		"stream": {loopStream("thinking"), frame, 40 << 20, nil},
		"text":   {"", scanPhrase, 8 << 20, []string{"--text"}}, // all of it goes through the detector
	} {
		before := liveHeap()
		var used int64
		tail := &repeated{text: tc.text, n: tc.size / len(tc.text), end: func() { used = liveHeap() - before }}
		code, list := scanJSON(t, io.MultiReader(strings.NewReader(tc.head), tail), append(tc.args, "-")...)
		if got := list[0]; code != 1 || got.Bytes < int64(tc.size-len(tc.text)) || len(got.Signals) == 0 {
			t.Errorf("%s: got exit code %d and %+v", name, code, got)
		}
		if used > 1<<20 {
			t.Errorf("%s: %d bytes are held at the end of the stream", name, used)
		}
	}
}

// liveHeap returns how many bytes of memory are in use.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) // #nosec G115 -- a size of this process
}

// repeated reads text n times, and calls end before it says that this was all.
type repeated struct {
	text  string
	n, at int
	end   func()
}

func (r *repeated) Read(b []byte) (int, error) {
	if r.n == 0 {
		r.end()
		return 0, io.EOF
	}
	m := copy(b, r.text[r.at:])
	if r.at += m; r.at == len(r.text) {
		r.at, r.n = 0, r.n-1
	}
	return m, nil
}

package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/simulate"
)

var update = flag.Bool("update", false, "write the golden files")

// scanFor runs scan and returns its exit code and what it printed.
func scanFor(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, told bytes.Buffer
	code = report(&told, run(t.Context(), append([]string{"scan"}, args...), &out, &told, nil))
	return code, out.String(), told.String()
}

// scanJSON is scanFor with the output as programs read it.
func scanJSON(t *testing.T, args ...string) (code int, list []scanned) {
	t.Helper()
	code, stdout, stderr := scanFor(t, append(args, "--format", "json")...)
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
	if triggers == nil {
		triggers = []string{}
	}
	return stream(simulate.Scenario{Loop: &simulate.Loop{Channel: channel, After: 3, Phrase: scanPhrase, Deltas: 60, Triggers: triggers, Then: simulate.ThenFinish}})
}

func TestScanVerdicts(t *testing.T) {
	chat := func(member string) string {
		return strings.Repeat("data: {\"choices\":[{\"index\":0,\"delta\":{\""+member+"\":\""+scanPhrase+"\"}}]}\n\n", 100) + "data: [DONE]\n\n"
	}
	messages := strings.Repeat("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"thinking_delta\",\"thinking\":\""+scanPhrase+"\"}}\n\n", 100)
	whole := loopStream("thinking")
	counting := simulate.Scenario{}
	for i := range 100 {
		counting.Thinking = append(counting.Thinking, fmt.Sprintf("Turn %d: the tests still fail, so let me look at the output again. ", i))
	}
	for _, tc := range []struct {
		name, text string
		args       []string
		code       int
		verdict    string
		dialect    string
		first      scannedSignal // as far as it is told here
	}{
		{"healthy", stream(simulate.Scenario{}), nil, 0, verdictNoLoop, dialectResponses, scannedSignal{}},
		{"found", whole, nil, 1, verdictCut, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Acts: true}},
		{"reported first", loopStream("thinking", "tail_repetition:32@thinking"), nil, 1, verdictCut, dialectResponses, scannedSignal{Source: "upstream", Label: "tail_repetition:32@thinking", Acts: true}},
		{"reported, too loose", loopStream("thinking", "tail_repetition:65@thinking"), nil, 1, verdictCut, dialectResponses, scannedSignal{Source: "upstream", Label: "tail_repetition:65@thinking", Why: "too loose"}},
		{"another kind", loopStream("thinking", "low_logprob@thinking"), nil, 1, verdictCut, dialectResponses, scannedSignal{Source: "upstream", Label: "low_logprob@thinking", Why: "a kind that only warns"}},
		{"threshold", whole, []string{"--max-threshold", "4"}, 1, verdictCut, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Why: "too loose"}},
		{"no part may act", whole, []string{"--act", ""}, 1, verdictWarned, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Why: "exact only warns"}},
		{"counter", stream(counting), nil, 1, verdictWarned, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:32@thinking", Part: "counter", Why: "counter only warns"}},
		{"counter may act", stream(counting), []string{"--act", "exact,counter"}, 1, verdictCut, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:32@thinking", Part: "counter", Acts: true}},
		{"in the answer", stream(simulate.Scenario{Loop: &simulate.Loop{Channel: "response", Phrase: scanPhrase, Deltas: 100, Triggers: []string{}, Then: simulate.ThenFinish}}), nil, 1, verdictWarned, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:4@response", Part: "exact", Period: 42, Copies: 48, Why: "not in the thinking"}},
		{"late", strings.Replace(whole, "event: response.output_item.added", "event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"output_index\":9,\"item\":{\"type\":\"message\"}}\n\nevent: response.output_item.added", 1), nil, 1, verdictWarned, dialectResponses, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Why: "behind something visible"}},
		{"chat", chat("reasoning_content"), nil, 1, verdictWarned, dialectChat, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Why: "streams of this kind are never cut"}},
		{"chat, healthy", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n", nil, 0, verdictNoLoop, dialectChat, scannedSignal{}},
		{"messages", messages, nil, 1, verdictWarned, dialectMessages, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Why: "streams of this kind are never cut"}},
		{"text", strings.Repeat(scanPhrase, 30), []string{"--text"}, 1, verdictWarned, dialectText, scannedSignal{Source: "local", Label: "tail_repetition:8@thinking", Part: "exact", Period: 42, Copies: 18, Why: "plain text is not cut"}},
		{"text of an answer", strings.Repeat(scanPhrase, 30), []string{"--text", "--channel", "response"}, 0, verdictNoLoop, dialectText, scannedSignal{}},
		{"no text", "", []string{"--text"}, 0, verdictNoLoop, dialectText, scannedSignal{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, list := scanJSON(t, append(tc.args, file(t, tc.text))...)
			got := list[0]
			if code != tc.code || got.Verdict != tc.verdict || got.Dialect != tc.dialect || got.Bytes != int64(len(tc.text)) {
				t.Errorf("got exit code %d and %+v, want %d, %s and %s", code, got, tc.code, tc.verdict, tc.dialect)
			}
			if tc.code == 0 {
				if len(got.Signals) > 0 || got.Place != nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			first := got.Signals[0]
			if tc.first.Period == 0 {
				first.Period, first.Copies = 0, 0
			}
			first.Event, first.At, first.Offset, first.Repeated, first.Channel = 0, 0, 0, 0, ""
			if first != tc.first {
				t.Errorf("got first %+v, want %+v", first, tc.first)
			}
			if p := got.Place; p.Bytes != got.Bytes-p.At || p.At <= 0 || p.Tokens <= 0 && tc.name != "text" {
				t.Errorf("got the place %+v of %d bytes", p, got.Bytes)
			}
			if tc.verdict == verdictCut {
				i := slices.IndexFunc(got.Signals, func(s scannedSignal) bool { return s.Acts })
				if i < 0 || got.Signals[i].At != got.Place.At || !strings.HasPrefix(tc.text[got.Place.At:], "event: ") {
					t.Errorf("got the place %+v, which is not that of the first signal that acts", got.Place)
				}
			}
		})
	}
}

// Line ends, and how a stream is cut into deltas, change nothing but places.
func TestScanIsNotPicky(t *testing.T) {
	plain := loopStream("thinking")
	_, list := scanJSON(t, file(t, plain))
	want := list[0].Signals
	for name, text := range map[string]string{
		"CRLF":    strings.ReplaceAll(plain, "\n", "\r\n"),
		"BOM":     "\ufeff" + plain,
		"comment": ": captured\n\n" + plain,
		"no end":  strings.TrimSuffix(plain, "\n\n"),
	} {
		_, list := scanJSON(t, file(t, text))
		got := list[0]
		if got.Verdict != verdictCut || len(got.Signals) != len(want) || got.Events == 0 || got.Bytes != int64(len(text)) {
			t.Errorf("%s: got %+v, want the signals %+v", name, got, want)
			continue
		}
		for i := range want {
			if got.Signals[i].Offset != want[i].Offset || got.Signals[i].Event != want[i].Event {
				t.Errorf("%s: got %+v, want %+v", name, got.Signals[i], want[i])
			}
		}
	}
}

// What cannot be read is told, and does not keep the rest from being read.
func TestScanErrors(t *testing.T) {
	healthy := file(t, stream(simulate.Scenario{}))
	for name, tc := range map[string]struct{ path, want string }{
		"missing":    {filepath.Join(t.TempDir(), "none"), "no such file or directory"},
		"directory":  {t.TempDir(), "is a directory"},
		"empty":      {file(t, "\n"), "no event stream: it is empty"},
		"JSON":       {file(t, `{"id":"resp_1","status":"completed"}`), `no event stream: it is a JSON document, want the answer to a request with "stream":true`},
		"compressed": {file(t, "\x1f\x8b\x08\x00"), "no event stream: it is compressed, want it unpacked: gunzip"},
		"text":       {file(t, "Wait, wait.\n\nWait."), "no event stream: want lines that begin with data:, or --text for plain text"},
		"too large":  {file(t, stream(simulate.Scenario{})+"data: "+strings.Repeat("x", 17<<20)+"\n\n"), "is larger than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := scanFor(t, tc.path, healthy)
			if code != 2 {
				t.Errorf("got exit code %d, want 2", code)
			}
			wantText(t, stderr, "doomproxy: "+tc.path+": ", tc.want)
			wantText(t, stdout, "  unreadable: ", tc.want, healthy+"\n", "verdict: no loop")
			if _, list := scanJSON(t, tc.path, healthy); list[0].Verdict != verdictUnreadable || list[0].Error == "" || list[1].Verdict != verdictNoLoop {
				t.Errorf("got %+v", list)
			}
		})
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
		"threshold":  {[]string{"--max-threshold", "65", "x"}, "--max-threshold: 65 is not allowed, want a number from 2 to 64"},
		"two faults": {[]string{"--max-threshold", "1", "--format", "x", "x"}, "--max-threshold: 1 is not allowed"},
	} {
		if code, stdout, stderr := scanFor(t, tc.args...); code != exitUsage || stdout != "" || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: got exit code %d, %q and %q, want %q", name, code, stdout, stderr, tc.want)
		}
	}
}

// What people are shown. It holds nothing of the text.
func TestScanReport(t *testing.T) {
	text := loopStream("thinking", "exact_repetition:72x2@thinking", "tail_repetition:32@thinking")
	path := filepath.Join(t.TempDir(), "odd\nname.sse")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := scanFor(t, path, "testdata/scan/healthy.sse")
	if code != 1 || stderr != "" {
		t.Errorf("got exit code %d and %q, want 1 and nothing", code, stderr)
	}
	got := strings.Replace(stdout, filepath.Dir(path), "DIR", 1)
	const golden = "testdata/scan/report.txt"
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

// A large stream from standard input takes no more memory than a small one.
func TestScanOfStandardInput(t *testing.T) {
	frame := strings.Join(simulate.Scenario{}.Stream(0, []byte(`{"stream":true}`))[3:6], "")
	n := 40 << 20 / len(frame)
	in := io.MultiReader(strings.NewReader(loopStream("thinking")), &repeated{frame, n, 0})
	o := scanOptions{maxThreshold: 64, act: []string{"exact"}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s, err := o.scanFile(stdinName, in)
	runtime.ReadMemStats(&after)
	if err != nil || s.Verdict != verdictCut || s.Bytes < 39<<20 || s.name() != "standard input" {
		t.Errorf("got %v and %s of %d bytes", err, s.Verdict, s.Bytes)
	}
	if used := after.HeapSys - before.HeapSys; int64(used) > 16<<20 {
		t.Errorf("%d bytes more of heap were needed", used)
	}
}

// repeated reads text n times.
type repeated struct {
	text  string
	n, at int
}

func (r *repeated) Read(b []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	m := copy(b, r.text[r.at:])
	if r.at += m; r.at == len(r.text) {
		r.at, r.n = 0, r.n-1
	}
	return m, nil
}

package stationarity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

func TestResults(t *testing.T) {
	for _, tc := range []struct {
		name string
		a, b string
		same bool
	}{
		{"equal", "ok", "ok", true},
		{"other word", "starting", "running", false},
		{"empty", "", "x", false},

		{"blanks", "a  b\tc", "a b c", true},
		{"line ends", " a\r\n\r\nb\n", "a\nb", true},
		{"blanks around a sign", "a ( b ) : c", "a(b):c", true},
		{"words that a blank keeps apart", "a b", "ab", false},
		{"numbers that a blank keeps apart", "1 2", "12", false},
		{"characters beyond ASCII that a blank keeps apart", "é à", "éà", false},

		{"RFC 3339", "at 2026-01-02T03:04:05Z", "at 2026-12-31T23:59:59Z", true},
		{"RFC 3339 with all", "2026-01-02T03:04:05.123+02:00 up", "2026-12-31T23:59:59.9-10:30 up", true},
		{"ISO with a blank", "2026-01-02 03:04:05,123 INFO x", "2026-01-03 13:14:15,999 INFO x", true},
		{"ISO without seconds", "-rw 2026-01-02 03:04 a.go", "-rw 2026-02-03 13:14 a.go", true},
		{"ISO compact", "20260102T030405Z", "20260103T130405Z", true},
		{"ISO with a zone", "2026-01-02 03:04:05 +0000 up", "2026-01-02 03:04:06 +0000 up", true},
		{"Go's log", "2026/01/02 03:04:05 x", "2026/01/03 03:04:06 x", true},
		{"time of day", "[03:04:05] x", "[13:14:15.678] x", true},
		{"time of day, half", "at 3:04:05 PM", "at 11:59:59 am", true},
		{"curl's Date", "Date: Fri, 02 Jan 2026 03:04:05 GMT", "Date: Fri, 02 Jan 2026 04:05:06 GMT", true},
		{"date(1)", "Fri Jan  2 03:04:05 UTC 2026", "Fri Jan  2 03:05:06 UTC 2026", true},
		{"another day", "Fri Jan  2 03:04:05 UTC 2026", "Sat Jan  3 03:04:05 UTC 2026", false},
		{"seconds from 1970", `{"created_at":1767225600,"state":"queued"}`, `{"created_at":1767225699,"state":"queued"}`, true},
		{"milliseconds from 1970", `{"updatedAt": 1767225600123}`, `{"updatedAt": 1767225699999}`, true},
		{"with a fraction", `timestamp=1767225600.123`, `timestamp=1767225699.9`, true},

		{"seconds", "ok pkg 0.35s", "ok pkg 12s", true},
		{"milliseconds", "took 12ms.", "took 1234ms.", true},
		{"microseconds", "12µs", "9.5µs", true},
		{"minutes and seconds", "real 0m0.005s", "real 1m2.5s", true},
		{"age", "web-1 Running 5m12s", "web-1 Running 1h3m", true},
		{"with a blank", "Wall time: 0.0512 seconds", "Wall time: 30.0024 seconds", true},
		{"jest", "Time:        2.345 s", "Time:        3.1 s", true},
		{"in words", "3 minutes ago", "12 minutes ago", true},
		{"by its label", `{"duration_seconds":0.3,"exit_code":1}`, `{"duration_seconds":12,"exit_code":1}`, true},
		{"by its label, too", "elapsed: 3", "elapsed: 12", true},

		{"UUID", "job 0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0 queued", "job 12345678-1234-1234-1234-123456789012 queued", true},
		{"UUID of letters", "deadbeef-aaaa-bbbb-cccc-ddddeeeeffff", "12345678-aaaa-bbbb-cccc-ddddeeeeffff", true},
		{"hexadecimal", "image 9f86d081 ready", "image 0a1b2c3d4e5f ready", true},
		{"digest", "sha256:9f86d081884c7d65", "sha256:60303ae22b998861", true},
		{"pointer", "&{0x00001234}", "&{0xc000012345}", true},
		{"call id", "see call_Ab3dEf9hIj2k", "see call_000000000000", true},
		{
			"codex", "Chunk ID: f800eb\nWall time: 1.0024 seconds\nProcess running with session ID 32244\nOutput:\n",
			"Chunk ID: abcdef\nWall time: 30.0001 seconds\nProcess running with session ID 52328\nOutput:\n", true,
		},
		{"codex, other output", "Chunk ID: f800eb\nOutput:\n1 passed", "Chunk ID: abcdef\nOutput:\n2 passed", false},
		{"codex, process ended", "Chunk ID: f800eb\nProcess running with session ID 32244", "Chunk ID: f800eb\nProcess exited with code 0", false},

		{"several", "03:04:05 a 5s b 9f86d081", "13:14:15 a 12s b 60303ae2", true},
		{"one of several", "03:04:05 a 5s b 9f86d081", "13:14:15 c 5s b 9f86d081", false},
		{"one is no noise", "in 5s", "in 5", false},
		{"one of them left out", "a 5s 7s", "a 5s", false},
		{"another kind of noise", "at 03:04:05", "at 5s", false},
		{"JSON in the text", `{"output":"03:04:05 x\n5s\n12:00:00","n":"\u001b[0m1"}`, `{"output":"03:04:09 x\n7s\n12:00:09","n":"\u001b[0m1"}`, true},
		{"behind a control character", "\x0103:04:05", "\x0103:04:09", true},
		{"JSON in the text, changed", `{"output":"x\n1"}`, `{"output":"x\n2"}`, false},
		{"paths", `C:\new`, `C:\tew`, false},
		{"colours", "\x1b[31mred", "\x1b[32mred", false},

		{"count", "12 lines", "13 lines", false},
		{"percentage", "45%", "46%", false},
		{"decimal", "loss 0.351", "loss 0.349", false},
		{"bytes", "1734221123 bytes", "1734221999 bytes", false},
		{"many digits", "12345678901234", "12345678901235", false},
		{"size", "5 M of 9 M", "6 M of 9 M", false},
		{"shares of a CPU", "web-1 5m 45Mi", "web-1 7m 45Mi", false},
		{"dimensions", "3d", "2d", false},
		{"version", "v1.2.3", "v1.2.4", false},
		{"version with an s", "1.2.3s", "1.2.4s", false},
		{"date alone", "due 2026-01-02", "due 2026-01-03", false},
		{"line and column", "a.go:12:34:56: x", "a.go:12:34:57: x", false},
		{"position", "main.go:12:34", "main.go:12:35", false},
		{"minutes and hours", "alarm at 12:34", "alarm at 12:35", false},
		{"no time", "12:61:99", "12:61:98", false},
		{"colons go on", "12:34:56:78", "12:34:57:78", false},
		{"short hash", "HEAD is now at 1a2b3c4", "HEAD is now at 1a2b3c5", false},
		{"words of hexadecimal letters", "defaced", "effaced", false},
		{"long words of hexadecimal letters", "feedface", "deadbeef", false},
		{"power of ten", "1000000e7", "1000000e8", false},
		{"tries", "took 3 tries", "took 4 tries", false},
		{"port", "listening on :8080", "listening on :8081", false},
		{"exit code", "exit code: 0", "exit code: 1", false},
		{"id that counts up", `{"id":17}`, `{"id":18}`, false},
		{"label of something else", `{"size":1767225600}`, `{"size":1767225601}`, false},
		{"time that is none", `{"time":12}`, `{"time":13}`, false},
		{"line and column at the end", "at a.go:12:34:56", "at a.go:12:34:57", false},
		{"long hours", "123:45:07", "123:45:08", false},
		{"time and a letter", "03:04:05x", "03:04:06x", false},
		{"milliseconds and a digit", "5 ms2", "6 ms2", false},
		{"two forms in one", "1h2 seconds", "1h3 seconds", false},
		{"label without a sign", "elapsed 3", "elapsed 4", false},
		{"label and other signs", "elapsed [%]: 3", "elapsed [%]: 4", false},
		{"label and a letter", "duration: 1.5x", "duration: 1.6x", false},
		{"short address", "0x1234", "0x1235", false},
		{"no address", "0xlonglong1", "0xlonglong2", false},
		{"no hexadecimal number", "no12345678", "no12345679", false},
		{"short id", "call_1", "call_2", false},
		{"UUID that goes on", "12345678-1234-1234-1234-123456789012z", "12345679-1234-1234-1234-123456789012z", false},
		{"UUID with another sign", "12345678-1234-1234-1234_123456789012", "12345679-1234-1234-1234_123456789012", false},
		{"UUID with another letter", "12345678-1234-1234-1234-12345678901g", "12345679-1234-1234-1234-12345678901g", false},
		{"units in no order", "5s2m", "5s3m", false},
		{"other id", "user ID 17", "user ID 18", false},
		{"rate", "12 req/s", "13 req/s", false},
		{"label with a unit", "duration: 12 files", "duration: 12 lines", false},
		{"seconds of something", "5 s", "6 s", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := 1
			if tc.same {
				want = 2
			}
			wantCount(t, begun().step(call("f", "", tc.a)).step(call("f", "", tc.b)), want)
			wantCount(t, begun().step(call("f", "", tc.b)).step(call("f", "", tc.a)), want)
			// The same in the midst of more.
			a, b := "a {\n"+tc.a+"\n} z", "a {\n"+tc.b+"\n} z"
			wantCount(t, begun().step(call("f", "", a)).step(call("f", "", b)), want)
		})
	}
}

func TestResultRules(t *testing.T) {
	c := begun()
	for i := range 5 {
		c.step(call("read", "{}", fmt.Sprint(i)))
	}
	if got := stationarity.Check(c.String(), stationarity.Config{}); got.Action != stationarity.ActionNone {
		t.Errorf("compared: got %+v", got)
	}
	got := stationarity.Check(c.String(), stationarity.Config{Results: stationarity.ResultsIgnore})
	if got.Action != stationarity.ActionNudge || got.Count != 5 {
		t.Errorf("ignored: got %+v", got)
	}
}

// A result that changed begins a new run, and what was before does not count.
func TestChangedResult(t *testing.T) {
	c := begun()
	for i, result := range strings.Split("aaabbcaaaa", "") {
		c.step(call("bash", `{"command":"make status"}`, result))
		wantCount(t, c, []int{1, 2, 3, 1, 2, 1, 1, 2, 3, 4}[i])
	}
}

func TestResultShapes(t *testing.T) {
	step := func(c *conversation, output string) {
		c.calls++
		c.add(functionCall(fmt.Sprint(c.calls), "f", "{}"),
			fmt.Sprintf(`{"type":"function_call_output","call_id":"%d","output":%s}`, c.calls, output))
	}
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{`[{"type":"input_text","text":"took 5s\n"}]`, `[{"type":"input_text","text":"took 7s"}]`, true},
		{`[{"type":"input_text","text":"5 of 9"}]`, `[{"type":"input_text","text":"6 of 9"}]`, false},
		{`[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo+5s/9f86d081"}]`, `[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgp+5s/9f86d081"}]`, false},
		{`null`, `null`, true},
		{`null`, `""`, false},
		{`{"a":1}`, `{"a":2}`, false},
	} {
		c := begun()
		step(c, tc.a)
		step(c, tc.b)
		want := 1
		if tc.same {
			want = 2
		}
		wantCount(t, c, want)
	}
}

// What stands far behind in a huge result counts to the byte.
func TestHugeResults(t *testing.T) {
	huge := strings.Repeat("The build goes on.\n", 20_000)
	pair := func(a, b string) *conversation {
		return begun().step(call("f", "", a)).step(call("f", "", b))
	}
	wantCount(t, pair("took 5s "+huge, "took 7s "+huge), 2)
	wantCount(t, pair(huge+"1%", huge+"1%"), 2)
	wantCount(t, pair(huge+"1%", huge+"2%"), 1)
	wantCount(t, pair(huge+"5s", huge+"7s"), 1)
}

package recovery_test

import (
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

func TestParseLabel(t *testing.T) {
	const (
		unknown = recovery.KindUnknown
		tail    = recovery.KindTailRepetition
		exact   = recovery.KindExactRepetition
		lowprob = recovery.KindLowLogprob
	)
	for _, tc := range []struct {
		label                     string
		kind                      recovery.Kind
		channel                   string
		threshold, tokens, copies uint32
	}{
		{"tail_repetition:8@thinking", tail, "thinking", 8, 0, 0},
		{"tail_repetition:0@thinking", tail, "thinking", 0, 0, 0},
		{"tail_repetition:064@response", tail, "response", 64, 0, 0},
		{"tail_repetition:4294967295@tool", tail, "tool", 4294967295, 0, 0},
		{"tail_repetition:4294967296@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:+8@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:-8@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:8.0@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition: 8@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:0x8@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:1_0@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:٨@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:8:8@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition@thinking", unknown, "thinking", 0, 0, 0},
		{"tail_repetition:8", tail, "", 8, 0, 0},
		{"tail_repetition:8@", tail, "", 8, 0, 0},
		{"tail_repetition:8@thinking@tool", tail, "thinking@tool", 8, 0, 0},
		{"tail_repetition:8@@thinking", tail, "@thinking", 8, 0, 0},
		{"tail_repetition:8@ thinking", tail, " thinking", 8, 0, 0},
		{"tail_repetition@8:thinking", unknown, "8:thinking", 0, 0, 0},
		{"Tail_repetition:8@thinking", unknown, "thinking", 0, 0, 0},
		{" tail_repetition:8@thinking", unknown, "thinking", 0, 0, 0},
		{"exact_repetition:80x3@thinking", exact, "thinking", 0, 80, 3},
		{"exact_repetition:4294967295x4294967295@tool", exact, "tool", 0, 4294967295, 4294967295},
		{"exact_repetition:80x@thinking", unknown, "thinking", 0, 0, 0},
		{"exact_repetition:x3@thinking", unknown, "thinking", 0, 0, 0},
		{"exact_repetition:80@thinking", unknown, "thinking", 0, 0, 0},
		{"exact_repetition:80X3@thinking", unknown, "thinking", 0, 0, 0},
		{"exact_repetition:80x3x2@thinking", unknown, "thinking", 0, 0, 0},
		{"exact_repetition:80x4294967296@thinking", unknown, "thinking", 0, 0, 0},
		{"low_logprob@thinking", lowprob, "thinking", 0, 0, 0},
		{"low_logprob", lowprob, "", 0, 0, 0},
		{"low_logprob:3@x", unknown, "x", 0, 0, 0},
		{"low_logprob:@thinking", unknown, "thinking", 0, 0, 0},
		{"semantic_loop:4@thinking", unknown, "thinking", 0, 0, 0},
		{"@thinking", unknown, "thinking", 0, 0, 0},
		{"@", unknown, "", 0, 0, 0},
		{"", unknown, "", 0, 0, 0},
	} {
		want := recovery.Signal{
			Label: tc.label, Kind: tc.kind, Channel: tc.channel,
			Threshold: tc.threshold, Tokens: tc.tokens, Copies: tc.copies,
		}
		if got := recovery.ParseLabel(tc.label); got != want {
			t.Errorf("%q: got %+v, want %+v", tc.label, got, want)
		}
	}
}

func TestKindString(t *testing.T) {
	for label, want := range map[string]string{
		"tail_repetition:8@thinking":     "tail_repetition",
		"exact_repetition:80x3@thinking": "exact_repetition",
		"low_logprob@thinking":           "low_logprob",
		"made\nup":                       "other",
	} {
		if got := recovery.ParseLabel(label).Kind.String(); got != want {
			t.Errorf("%q: got %q, want %q", label, got, want)
		}
	}
}

func TestChannelLabel(t *testing.T) {
	for channel, want := range map[string]string{
		"thinking": "thinking", "response": "response", "tool": "tool",
		"": "other", "Thinking": "other", "thinking ": "other", "thinking@tool": "other", "a\nb": "other",
	} {
		if got := recovery.ParseLabel("low_logprob@" + channel).ChannelLabel(); got != want {
			t.Errorf("%q: got %q, want %q", channel, got, want)
		}
	}
}

func TestSanitizeLabel(t *testing.T) {
	for label, want := range map[string]string{
		"tail_repetition:8@thinking":                          "tail_repetition:8@thinking",
		"low-logprob.2@A_Z":                                   "low-logprob.2@A_Z",
		"x\n\nevent: response.completed\ndata: {\"a\":1}\n\n": "xevent:response.completeddata:a:1",
		"a\rb\r\nc\x00\u2028\u0085d":                          "abcd",
		"ä€😀 \xff\xfe":                                        "",
		"":                                                    "",
	} {
		if got := recovery.SanitizeLabel(label); got != want {
			t.Errorf("%q: got %q, want %q", label, got, want)
		}
	}
}

func FuzzParseLabel(f *testing.F) {
	for _, label := range []string{"tail_repetition:8@thinking", "exact_repetition:80x3@tool", "low_logprob:3@x", "@\n\xff"} {
		f.Add(label)
	}
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_:.@-"
	f.Fuzz(func(t *testing.T, label string) {
		s := recovery.ParseLabel(label)
		if s.Label != label {
			t.Errorf("got label %q, want %q", s.Label, label)
		}
		if _, channel, _ := strings.Cut(label, "@"); s.Channel != channel {
			t.Errorf("got channel %q of %q, want %q", s.Channel, label, channel)
		}
		if s.Kind == recovery.KindUnknown && (s.Threshold != 0 || s.Tokens != 0 || s.Copies != 0) {
			t.Errorf("got numbers of an unknown signal: %+v", s)
		}
		if got := recovery.SanitizeLabel(label); strings.Trim(got, allowed) != "" {
			t.Errorf("got %q of %q, want only %s", got, label, allowed)
		}
	})
}

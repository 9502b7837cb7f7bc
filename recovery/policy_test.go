package recovery_test

import (
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

func TestPolicyConfident(t *testing.T) {
	for _, tc := range []struct {
		label        string
		maxThreshold int
		want         bool
	}{
		{"tail_repetition:64@thinking", 0, true},
		{"tail_repetition:65@thinking", 0, false},
		{"tail_repetition:0@thinking", 0, true},
		{"tail_repetition:4294967295@thinking", 0, false},
		{"tail_repetition:8@thinking", 8, true},
		{"tail_repetition:9@thinking", 8, false},
		{"tail_repetition:2@thinking", 1, true},
		{"tail_repetition:3@thinking", 1, false},
		{"tail_repetition:2@thinking", -5, true},
		{"tail_repetition:64@thinking", 1000, true},
		{"tail_repetition:65@thinking", 1000, false},
		{"tail_repetition:2@response", 0, false},
		{"tail_repetition:2@tool", 0, false},
		{"tail_repetition:2@", 0, false},
		{"tail_repetition:2", 0, false},
		{"tail_repetition:2@Thinking", 0, false},
		{"tail_repetition:2@thinking ", 0, false},
		{"tail_repetition:2@thinking@thinking", 0, false},
		{"low_logprob@thinking", 0, false},
		{"exact_repetition:80x3@thinking", 0, false},
		{"exact_repetition:1x2@thinking", 0, false},
		{"semantic_loop:2@thinking", 0, false},
		{"tail_repetition:+2@thinking", 0, false},
	} {
		p := recovery.Policy{MaxThreshold: tc.maxThreshold}
		if got := p.Confident(recovery.ParseLabel(tc.label)); got != tc.want {
			t.Errorf("%q, at most %d: got %v, want %v", tc.label, tc.maxThreshold, got, tc.want)
		}
	}
}

func TestPolicyClamped(t *testing.T) {
	for _, tc := range []struct{ in, want recovery.Policy }{
		{recovery.Policy{}, recovery.Policy{MaxThreshold: 64}},
		{recovery.Policy{MaxThreshold: -1, MaxRetries: -1}, recovery.Policy{MaxThreshold: 2}},
		{recovery.Policy{MaxThreshold: 1, MaxRetries: 1}, recovery.Policy{MaxThreshold: 2, MaxRetries: 1}},
		{recovery.Policy{MaxThreshold: 2, MaxRetries: 5}, recovery.Policy{MaxThreshold: 2, MaxRetries: 5}},
		{recovery.Policy{MaxThreshold: 64, MaxRetries: 6}, recovery.Policy{MaxThreshold: 64, MaxRetries: 5}},
		{recovery.Policy{MaxThreshold: 65, MaxRetries: 1 << 40}, recovery.Policy{MaxThreshold: 64, MaxRetries: 5}},
	} {
		if got := tc.in.Clamped(); got != tc.want {
			t.Errorf("%+v: got %+v, want %+v", tc.in, got, tc.want)
		}
	}
}

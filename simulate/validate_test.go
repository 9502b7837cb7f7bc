package simulate

import (
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		key string // "" where the scenario is valid
		sc  Scenario
	}{
		{"", Scenario{}},
		{"", Scenario{Status: 599, Loop: &Loop{}, Failure: &Failure{}}},
		{"status", Scenario{Status: 199}},
		{"status", Scenario{Status: 600}},
		{"reasoning", Scenario{Reasoning: "x"}},
		{"line_end", Scenario{LineEnd: "\n\r"}},
		{"end", Scenario{End: "x"}},
		{"failure.event", Scenario{Failure: &Failure{Event: "x"}}},
		{"loop.channel", Scenario{Loop: &Loop{Channel: "x"}}},
		{"loop.then", Scenario{Loop: &Loop{Then: "x"}}},
		{"reasoning_items", Scenario{ReasoningItems: -1}},
		{"limit", Scenario{Limit: -1}},
		{"delay", Scenario{Delay: -1}},
		{"failure.after", Scenario{Failure: &Failure{After: -1}}},
		{"loop.after", Scenario{Loop: &Loop{After: -1}}},
		{"loop.deltas", Scenario{Loop: &Loop{Deltas: -1}}},
		{"loop.every", Scenario{Loop: &Loop{Every: -1}}},
	}
	for _, tt := range tests {
		err := tt.sc.Validate()
		if (err == nil) != (tt.key == "") || err != nil && !strings.Contains(err.Error(), ": "+tt.key+" ") {
			t.Errorf("Validate(%+v) = %v, want an error about %q", tt.sc, err, tt.key)
		}
	}
}

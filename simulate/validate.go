package simulate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Validate reports the first value that has no meaning, naming its key and what
// is allowed. It looks at words and numbers, not at whether the parts make
// sense together.
func (sc Scenario) Validate() error {
	if sc.Status != 0 && (sc.Status < 200 || sc.Status > 599) {
		return fmt.Errorf("simulate: status %d: want 0 or 200 to 599", sc.Status)
	}
	loop, failure := Loop{}, Failure{}
	if sc.Loop != nil {
		loop = *sc.Loop
	}
	if sc.Failure != nil {
		failure = *sc.Failure
	}
	return errors.Join(
		oneOf("reasoning", sc.Reasoning, ReasoningSummary, ReasoningRaw, ReasoningNone),
		oneOf("line_end", sc.LineEnd, "\n", "\r\n", "\r"),
		oneOf("end", sc.End, EndEOF, EndHang, EndAbort, EndRefuse),
		oneOf("failure.event", failure.Event, FailureResponse, FailureError, FailureErrorNested),
		oneOf("loop.channel", loop.Channel, ChannelThinking, ChannelResponse, ChannelTool),
		oneOf("loop.then", loop.Then, ThenHang, ThenFinish, ThenIncomplete, ThenEOF),
		notNegative("reasoning_items", sc.ReasoningItems),
		notNegative("limit", sc.Limit),
		notNegative("delay", sc.Delay),
		notNegative("failure.after", failure.After),
		notNegative("loop.after", loop.After),
		notNegative("loop.deltas", loop.Deltas),
		notNegative("loop.every", loop.Every),
	)
}

func oneOf(key, value string, allowed ...string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = fmt.Sprintf("%q", a)
	}
	return fmt.Errorf("simulate: %s %q: want one of %s", key, value, strings.Join(quoted, ", "))
}

func notNegative[N ~int | ~int64](key string, value N) error {
	if value < 0 {
		return fmt.Errorf("simulate: %s %v: want 0 or more", key, value)
	}
	return nil
}

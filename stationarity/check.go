package stationarity

import (
	"slices"
	"strings"
)

// Action is what is to be done about a request.
type Action uint8

// The actions.
const (
	ActionNone  Action = iota // send the request as it is
	ActionNudge               // send what Nudge makes of it
	ActionStop                // do not send it: answer with Answer
)

// String returns the action as it stands in metrics.
func (a Action) String() string {
	switch a {
	case ActionNudge:
		return "nudge"
	case ActionStop:
		return "stop"
	case ActionNone:
	}
	return "none"
}

// Tier is the kind of the steps that are repeated.
type Tier uint8

// The tiers.
const (
	Tight Tier = iota + 1 // all calls read or plan
	Loose                 // any other
	NoOp                  // one shell call whose command is `true`
)

// String returns the tier as it stands in metrics.
func (t Tier) String() string {
	switch t {
	case Tight:
		return "tight"
	case NoOp:
		return "no_op"
	case Loose:
	}
	return "loose"
}

// Finding is what a request's input repeats, and what is to be done about that.
// Its zero value says that there is nothing to be done.
type Finding struct {
	Action Action
	Tier   Tier
	// Count is how often the step, or the cycle of steps, was made; 100 stands for
	// more, too, unless a threshold is higher.
	Count int
	// Threshold is the count from which on such steps are nudged, or, if they
	// never are, stopped.
	Threshold int
	// Cycle is the number of steps that are repeated, 1 to 5.
	Cycle int
	// Calls is the number of calls in these steps.
	Calls int
	// Tools are the names of the tools they call: sorted, 8 at most, each of 64
	// bytes at most, reduced to letters, digits and _.:/- alone.
	Tools []string
}

// Bounds of Finding.Tools and of a name in it.
const (
	maxTools = 8
	maxName  = 64
)

// Check looks at the input of a request, the JSON value alone. Text, and what is
// no valid JSON, repeats nothing.
func Check(input string, cfg Config) Finding {
	reader := newReader(input, &cfg)
	run := run{limit: cfg.highest()}
	for {
		s, ok := reader.next()
		if !ok || !run.add(s, func(t *step) bool { return reader.same(s, t, cfg.Results) }) {
			break
		}
	}
	var found Finding
	for p := 1; p <= maxCycle; p++ {
		count := run.count(p)
		if count < 2 {
			continue
		}
		if f := cfg.judge(run.end[:p], count); f.Action > found.Action {
			found = f
		}
	}
	return found
}

// judge decides about steps that were made count times.
func (c *Config) judge(steps []*step, count int) Finding {
	tier := c.tier(steps)
	t := c.thresholds(tier)
	f := Finding{Tier: tier, Count: count, Threshold: t.Stop, Cycle: len(steps)}
	if t.Nudge > 0 {
		f.Threshold = t.Nudge
	}
	switch {
	case t.Stop > 0 && count >= t.Stop:
		f.Action = ActionStop
		if c.OnStop == OnStopNudge {
			f.Action = ActionNudge
			f.Threshold = min(f.Threshold, t.Stop)
		}
	case t.Nudge > 0 && count >= t.Nudge:
		f.Action = ActionNudge
	default:
		return Finding{}
	}
	f.Tools, f.Calls = tools(steps)
	return f
}

func (c *Config) tier(steps []*step) Tier {
	if len(steps) == 1 && len(steps[0].calls) == 1 && steps[0].calls[0].noop {
		return NoOp
	}
	for _, s := range steps {
		for i := range s.calls {
			if !c.tight(s.calls[i].name) {
				return Loose
			}
		}
	}
	return Tight
}

// tools returns the names of the tools of steps, and how many calls they are.
func tools(steps []*step) (names []string, calls int) {
	for _, s := range steps {
		calls += len(s.calls)
		for i := range s.calls {
			if name := clean(s.calls[i].name); name != "" {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.Clip(names[:min(len(names), maxTools)]), calls
}

// clean reduces a name, which comes from outside, to what may stand in a text.
func clean(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune("_.:/-", r):
			return r
		}
		return -1
	}, name[:min(len(name), 4*maxName)])
	return name[:min(len(name), maxName)]
}

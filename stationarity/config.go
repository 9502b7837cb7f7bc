package stationarity

import (
	"slices"
	"strings"
)

// Config says which repetitions are acted on. Its zero value is the default.
type Config struct {
	// Tight, Loose and NoOp are the thresholds of the tiers. Those that are zero
	// are the defaults: 4 and 8, 8 and 12, and for no-ops no nudge, but a stop at 4.
	Tight, Loose, NoOp Thresholds
	// TightTools are the names of tools that only read or plan, in any case: a
	// step that calls no others is of the tight tier. Nil means DefaultTightTools.
	TightTools []string
	// Results says whether a step whose results changed counts as the same.
	Results Results
	// OnStop is what is done at a stop threshold.
	OnStop OnStop
	// Injected are texts of messages which have the role of the user but are not
	// of the user, besides the nudges and what known agents add: the proxy's own
	// reminders.
	Injected []string
}

// Thresholds are the counts from which a repetition is acted on.
type Thresholds struct {
	// Nudge and Stop are counts of the same step, or of the same cycle of
	// steps. Zero means the default of the tier, less than zero never.
	Nudge, Stop int
}

// Results says what the results of calls mean for their repetition.
type Results uint8

// The rules for results.
const (
	// ResultsCompare takes a call for the same only if its result is the same,
	// but for timestamps, durations, ids and white space.
	ResultsCompare Results = iota
	// ResultsIgnore looks at the calls alone.
	ResultsIgnore
)

// OnStop is what is done at a stop threshold.
type OnStop uint8

// What may be done at a stop threshold.
const (
	// OnStopNudge goes on with nudges.
	OnStopNudge OnStop = iota
	// OnStopEnd ends the turn.
	OnStopEnd
)

// never is a threshold that is not reached.
const never = -1

// thresholds returns those of a tier, never zero.
func (c *Config) thresholds(t Tier) Thresholds {
	var set, preset Thresholds
	switch t {
	case Tight:
		set, preset = c.Tight, Thresholds{Nudge: 4, Stop: 8}
	case NoOp:
		set, preset = c.NoOp, Thresholds{Nudge: never, Stop: 4}
	default:
		set, preset = c.Loose, Thresholds{Nudge: 8, Stop: 12}
	}
	if set.Nudge == 0 {
		set.Nudge = preset.Nudge
	}
	if set.Stop == 0 {
		set.Stop = preset.Stop
	}
	return set
}

// highest returns how far there is a need to count.
func (c *Config) highest() int {
	n := maxCount
	for _, tier := range []Tier{Tight, Loose, NoOp} {
		t := c.thresholds(tier)
		n = max(n, t.Nudge, t.Stop)
	}
	return n
}

// DefaultTightTools returns the names that known agents give to tools that read
// a file or keep a plan. What such a call returns changes only by the agent's
// own doing, so that few repetitions tell enough.
func DefaultTightTools() []string {
	return []string{
		"read", "read_file", "readfile", "read_files", "read_many_files", "fs_read", "open_file",
		"view", "view_file", "view_image", "cat",
		"todo", "todo_read", "todoread", "todo_write", "todowrite", "write_todos", "todo_list",
		"update_todo_list", "manage_todo_list", "update_plan", "plan",
	}
}

// tight reports whether a tool only reads or plans.
func (c *Config) tight(name string) bool {
	tools := c.TightTools
	if tools == nil {
		tools = DefaultTightTools()
	}
	return slices.ContainsFunc(tools, func(tool string) bool { return strings.EqualFold(tool, name) })
}

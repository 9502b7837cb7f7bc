package recovery

import (
	"strings"

	"github.com/tidwall/gjson"
)

// Bounds of what one attempt may report, from the wire contract.
const (
	maxSignals    = 64
	maxLabelBytes = 256
)

// Collector gathers the signals of one attempt: those that the upstream reports,
// and those that are found on this side. Reports are cumulative, so a label
// counts once. Use a fresh one per attempt.
type Collector struct {
	signals   []Signal
	malformed int
	dropped   int
}

// Absorb takes in the report that ev carries, if it carries one, and returns
// the signals that were not known before. They stay owned by the Collector.
func (c *Collector) Absorb(ev *Event) []Signal {
	if !ev.mentions {
		return nil
	}
	known, dropped := len(c.signals), c.dropped
	wellFormed := true
	switch ev.Class {
	case ClassCheck:
		triggers := gjson.Result{}
		if ValidJSON(ev.Data) {
			triggers = gjson.Get(ev.Data, "doom_loop_check.triggers")
		}
		wellFormed = c.add(triggers)
	case ClassTerminal:
		triggers := ev.responseMember("doom_loop_check.triggers")
		if triggers.Type == gjson.Null || triggers.IsArray() && !triggers.Get("0").Exists() {
			return nil // no report
		}
		wellFormed = c.add(triggers)
	case ClassNone, ClassLifecycle, ClassError, ClassDone, ClassOther:
	}
	if !wellFormed || c.dropped > dropped {
		c.malformed++
	}
	return c.signals[known:]
}

// add takes in the labels among triggers and reports whether the set was well
// formed: an array of at least one label and of nothing else.
func (c *Collector) add(triggers gjson.Result) bool {
	if !triggers.IsArray() {
		return false
	}
	wellFormed, n := true, 0
	triggers.ForEach(func(_, label gjson.Result) bool {
		n++
		if label.Type != gjson.String {
			wellFormed = false
			return true
		}
		if !c.addSignal(ParseLabel(strings.Clone(label.Str))) {
			c.dropped++
		}
		return true
	})
	return wellFormed && n > 0
}

// Add takes in a signal that was found on this side. It stands among Signals
// unless it was known before, or there are too many of them.
func (c *Collector) Add(s Signal) {
	s.Source = SourceLocal
	c.addSignal(s)
}

// addSignal takes in a signal. It reports false for one beyond the bounds, which
// hold for each source by itself.
func (c *Collector) addSignal(s Signal) bool {
	n := 0
	for _, known := range c.signals {
		if known.Label == s.Label && known.Source == s.Source && known.WarnOnly == s.WarnOnly {
			return true
		}
		if known.Source == s.Source {
			n++
		}
	}
	if n == maxSignals || len(s.Label) > maxLabelBytes {
		return false
	}
	c.signals = append(c.signals, s)
	return true
}

// Signals returns all signals so far, in the order they came. They stay owned
// by the Collector.
func (c *Collector) Signals() []Signal { return c.signals }

// Malformed returns the number of reports that were not well formed or held
// labels beyond the bounds.
func (c *Collector) Malformed() int { return c.malformed }

// Dropped returns the number of labels that were beyond the bounds.
func (c *Collector) Dropped() int { return c.dropped }

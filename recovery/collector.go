package recovery

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Bounds of what one attempt may report, from the wire contract.
const (
	maxSignals    = 64
	maxLabelBytes = 256
)

// Collector gathers the signals that one attempt reports. Reports are
// cumulative, so a label counts once. Use a fresh one per attempt.
type Collector struct {
	Policy Policy

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
		c.addLabel(label.Str)
		return true
	})
	return wellFormed && n > 0
}

func (c *Collector) addLabel(label string) {
	if slices.ContainsFunc(c.signals, func(s Signal) bool { return s.Label == label }) {
		return
	}
	if len(c.signals) == maxSignals || len(label) > maxLabelBytes {
		c.dropped++
		return
	}
	c.signals = append(c.signals, ParseLabel(strings.Clone(label)))
}

// Signals returns all signals so far, in the order they came. They stay owned
// by the Collector.
func (c *Collector) Signals() []Signal { return c.signals }

// Malformed returns the number of reports that were not well formed or held
// labels beyond the bounds.
func (c *Collector) Malformed() int { return c.malformed }

// Dropped returns the number of labels that were beyond the bounds.
func (c *Collector) Dropped() int { return c.dropped }

// Tightest returns the confident signal with the lowest threshold, the first
// of them if there are several; ok is false if no signal is confident.
func (c *Collector) Tightest() (tightest Signal, ok bool) {
	for _, s := range c.signals {
		if c.Policy.Confident(s) && (!ok || s.Threshold < tightest.Threshold) {
			tightest, ok = s, true
		}
	}
	return tightest, ok
}

package detect

// exact finds text that repeats byte for byte.
type exact struct{ tracker }

// judge looks at the unit of a repetition that is due, and returns a signal if
// it goes on for long enough. A signal is raised again each time the copies
// have doubled.
func (e *exact) judge(p *profile) (Signal, bool) {
	u := e.unit()
	least := p.exactTimes.least(p.exact[u.kind()], e.period)
	if e.repeated() < least {
		e.lookAt(least)
		return Signal{}, false
	}
	copies := e.repeated() / e.period
	e.lookAt(2 * copies * e.period)
	return Signal{
		Part:      Exact,
		Repeated:  int64(e.repeated()),
		Period:    e.period,
		Copies:    copies,
		Tokens:    u.tokens,
		Threshold: tightness(copies, 2),
	}, true
}

package detect

// counter finds folded text that repeats: prose that counts its turns, or is
// spaced differently each time. Only prose: numbered lines of code and data
// that differ in nothing else are ordinary.
type counter struct{ tracker }

// judge is as that of exact. A repetition raises one signal: it goes on to be
// warned of at 32, however long it gets.
func (c *counter) judge(p *profile) (Signal, bool) {
	u := c.unit()
	c.lookNoMore()
	if !u.template && !u.prose() {
		return Signal{}, false
	}
	copies := c.repeated() / c.period
	return Signal{
		Part:      Counter,
		Repeated:  int64(c.repeated()),
		Period:    c.period,
		Copies:    copies,
		Tokens:    u.tokens,
		Threshold: tightness(copies, warnOnly),
	}, true
}

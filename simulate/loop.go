package simulate

// checkName is the event of a mid-stream report.
const checkName = "response.doom_loop_check"

// looping gives the loop if it is in that channel.
func (g *generator) looping(channel string) *Loop {
	if g.loop == nil || g.loop.Channel != channel {
		return nil
	}
	return g.loop
}

// repeat writes the phrases of a loop and its reports, and then does what Then
// says. nil is no loop.
func (g *generator) repeat(l *Loop, write func(delta string)) {
	if l == nil {
		return
	}
	for i := 1; i <= l.Deltas && !g.stopped; i++ {
		write(l.Phrase)
		if i%l.Every == 0 {
			g.check(l, i/l.Every)
		}
	}
	if g.report && l.TerminalOnly {
		g.labels = l.Triggers
	}
	if g.stopped {
		return
	}
	switch l.Then {
	case ThenHang:
		g.stopped, g.hang = true, true
	case ThenEOF:
		g.stopped = true
	case ThenIncomplete:
		g.short = true
	}
}

// check sends the k-th report, counted from 1.
func (g *generator) check(l *Loop, k int) {
	if !g.report || l.TerminalOnly || !g.ready() {
		return
	}
	if l.Raw != nil {
		if k <= len(l.Raw) {
			g.send(l.Raw[k-1])
		}
		return
	}
	if k > len(l.Triggers) {
		return
	}
	g.labels = l.Triggers[:k]
	name := checkName
	if l.Unnamed {
		name = ""
	}
	g.send(g.frame(name, encode(checkEvent{
		Sequence: g.next(), Type: checkName, Check: doomLoopCheck{Triggers: g.labels},
	})))
}

package detect

// Memory returns the bytes that d has allocated.
func (d *Detector) Memory() int {
	n := 0
	for _, t := range []*tracker{&d.exact.tracker, &d.counter.tracker} {
		n += cap(t.ring) + 2*cap(t.index)
	}
	n += 2 * cap(d.saturation.phrases.places)
	n += 4 * (int(classes) + 1) * cap(d.saturation.blocks)
	return n
}

// Tightness is exported to be tested.
var Tightness = tightness

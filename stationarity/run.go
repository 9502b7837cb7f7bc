package stationarity

const (
	// maxCycle is the longest cycle, in steps, whose repetitions are counted.
	maxCycle = 5
	// maxCount is how far repetitions are counted, unless a threshold is higher.
	maxCount = 100
)

// run counts how often the steps at the end of a conversation are repeated. They
// are added from the last one on.
type run struct {
	limit int             // how far there is a need to count
	added int             // steps
	end   [maxCycle]*step // those that were added first
	ring  [maxCycle]*step // those that were added last
	// periods are the cycles of 1 to maxCycle steps.
	periods [maxCycle]period
}

// period is what is known of the cycles of one length.
type period struct {
	steps  int  // that many at the end are as in a cycle
	closed bool // the one before these is not
}

// add takes in the step before the last one. same compares it with another. It
// reports whether further steps can change a count.
func (r *run) add(s *step, same func(*step) bool) bool {
	if r.added < maxCycle {
		r.end[r.added] = s
	}
	open, full := false, false
	for i := range r.periods {
		p, length := &r.periods[i], i+1
		if !p.closed && r.added >= length {
			p.closed = !same(r.ring[(r.added-length)%maxCycle])
		}
		if !p.closed {
			p.steps++
			open = true
			full = full || p.steps == r.limit*length
		}
	}
	r.ring[r.added%maxCycle] = s
	r.added++
	return open && !full
}

// count returns how often the cycle of that length at the end was run through; 0
// if it is itself a repetition of a shorter one.
func (r *run) count(length int) int {
	steps := r.periods[length-1].steps
	for shorter := 1; shorter < length; shorter++ {
		if length%shorter == 0 && r.periods[shorter-1].steps >= steps {
			return 0
		}
	}
	return steps / length
}

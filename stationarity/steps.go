package stationarity

import (
	"hash/maphash"
	"slices"
)

// step is all calls that the model made between two of its inputs.
type step struct {
	calls []call
	sig   uint64 // of the calls, in whatever order they were made
	full  uint64 // of the calls and their results; 0 until it is asked for
}

// maxCalls is how many calls a step may have; agents make a handful at a time.
// One with more, and what was before it, is not looked at.
const maxCalls = 256

// reader reads an input's steps, the last one first, up to the last message of
// the user's.
type reader struct {
	hasher
	injected []string
	items    list
	item     item // the last one that was read
	held     bool // it belongs to the step before
	done     bool
}

func newReader(input string, cfg *Config) *reader {
	return &reader{hasher: newHasher(), injected: cfg.Injected, items: listOf(input)}
}

// read reads the item before the last one.
func (r *reader) read() (it *item, ok bool) {
	switch {
	case r.held:
		r.held = false
		return &r.item, true
	case r.done || r.items.at == 0:
		return nil, false
	}
	start, ok := r.item.parse(r.items.s, r.items.at)
	r.items.step(start, ok)
	return &r.item, ok
}

// result is the output of a call.
type result struct {
	output string
	taken  bool   // its call was found
	sig    uint64 // of that call
}

// next returns the step before the last one that was returned. There is none
// before a message of the user's, nor at and before a step that holds results of
// calls which the input does not show: it is like no other.
func (r *reader) next() (s *step, ok bool) {
	s = &step{}
	var results map[string]*result
	taken := 0
read:
	for it, ok := r.read(); ok; it, ok = r.read() {
		side := it.side()
		if side == sideUser {
			side = sideClient
			if !injected(it, r.injected) {
				side = sideEnd
			}
		}
		switch side {
		case sideNone, sideUser:
		case sideEnd:
			r.done = true
			break read
		case sideClient, sideOutput:
			if len(s.calls) > 0 {
				r.held = true
				break read
			}
			if side == sideOutput {
				if results == nil {
					results = make(map[string]*result)
				}
				// Of two outputs of one call the last counts.
				if key, _ := it.keys(); results[key] == nil {
					results[key] = &result{output: it.output}
				}
			}
		case sideCall:
			if len(s.calls) == maxCalls {
				r.done = true
				return nil, false
			}
			key, other := it.keys()
			found := results[key]
			if found == nil && other != "" {
				found = results[other]
			}
			if found == nil {
				s.calls = append(s.calls, r.call(it, ""))
				continue
			}
			c := r.call(it, found.output)
			if found.taken && c.sig == found.sig {
				continue // the client sent the call twice
			}
			if !found.taken {
				found.taken, found.sig = true, c.sig
				taken++
			}
			s.calls = append(s.calls, c)
		}
	}
	if len(s.calls) == 0 || taken < len(results) {
		r.done = true
		return nil, false
	}
	s.seal()
	return s, true
}

// seal computes the signature of the calls.
func (s *step) seal() {
	slices.SortFunc(s.calls, call.compare)
	s.sig = uint64(len(s.calls))
	for i := range s.calls {
		s.sig = mix(s.sig, s.calls[i].sig)
	}
}

// same reports whether two steps make the same calls, and, unless results are
// ignored, with the same results.
func (r *reader) same(a, b *step, results Results) bool {
	return a.sig == b.sig && (results == ResultsIgnore || r.full(a) == r.full(b))
}

// full computes the signature of the calls and their results. Most steps are
// never asked for it.
func (r *reader) full(s *step) uint64 {
	if s.full != 0 {
		return s.full
	}
	for i := range s.calls {
		s.calls[i].result = r.result(s.calls[i].output)
	}
	slices.SortFunc(s.calls, call.compare)
	seed := maphash.String(r.seed, "full")
	for i := range s.calls {
		seed = mix(mix(seed, s.calls[i].sig), s.calls[i].result)
	}
	s.full = max(seed, 1)
	return s.full
}

package proxy

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cancelledFor is how long a request is refused that an operator cancelled:
// agents send it again when their connection is dropped.
const cancelledFor = time.Minute

// maxRecoveries is how many ended requests with a loop are kept to be shown.
const maxRecoveries = 100

// State is what the proxies of a process have in common, and what outlives a
// change of their configuration. The zero value is ready for use. It is safe for
// concurrent use, and must not be copied.
type State struct {
	memory     allowance
	retries    retryBudget
	protected  atomic.Int64 // requests that run
	refusals   lessons      // models that refuse replayed reasoning
	streamless lessons      // models that refuse to stream
	nudgeless  lessons      // models that refuse a nudge
	complained atomic.Int64 // when an error of the ledger was logged last, in seconds
	keeper     keeper

	seeded sync.Once
	seed   maphash.Seed // of fingerprints; set with the first one

	mu         sync.Mutex // guards all below
	running    map[string]*live
	recoveries []Recovery           // the oldest first
	cancelled  map[uint64]time.Time // until when, by fingerprint
	modes      map[Guard]Mode       // that were switched to
}

// Running is a request that is being served.
type Running struct {
	ID         string   `json:"id"`
	Upstream   string   `json:"upstream"`
	Model      string   `json:"model"` // as in metrics
	Protection string   `json:"protection"`
	Phase      string   `json:"phase"`
	Attempt    int      `json:"attempt"` // from 1; 0 before the first one
	Age        float64  `json:"age"`     // in seconds
	Frames     int64    `json:"frames"`  // received, as of the last write to the client
	Signals    []string `json:"signals"` // labels of loop reports, reduced to harmless characters
	// Repeated says what is done about an agent that repeats its tool calls, and
	// why; empty if it does not.
	Repeated string `json:"repeated,omitempty"`
}

// Recovery is a request that ended after a confident loop report.
type Recovery struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"` // of its end
	Upstream  string    `json:"upstream"`
	Model     string    `json:"model"`
	Outcome   string    `json:"outcome"`
	Attempts  int       `json:"attempts"`
	Cuts      int       `json:"cuts"`
	Discarded int64     `json:"discarded"` // bytes of cut attempts
	Seconds   float64   `json:"seconds"`
	Signals   []string  `json:"signals"`
}

// live is the part of a running request that others may look at.
type live struct {
	frames atomic.Int64
	start  time.Time
	cancel context.CancelCauseFunc
	// fingerprint is that of the request, 0 if its body was not read.
	fingerprint atomic.Uint64

	mu    sync.Mutex // guards all below
	shown Running
}

// change changes what others see.
func (l *live) change(f func(shown *Running)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(&l.shown)
}

// Running returns the requests that are being served, the oldest first.
func (s *State) Running() []Running {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Running, 0, len(s.running))
	for _, l := range s.running {
		l.mu.Lock()
		r := l.shown
		r.Signals = slices.Clone(r.Signals)
		l.mu.Unlock()
		r.Age = time.Since(l.start).Seconds()
		r.Frames = l.frames.Load()
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b Running) int {
		switch {
		case a.Age > b.Age:
			return -1
		case a.Age < b.Age:
			return 1
		}
		return 0
	})
	return list
}

// Recoveries returns the last requests that ended after a confident report, the
// newest first.
func (s *State) Recoveries() []Recovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := slices.Clone(s.recoveries)
	slices.Reverse(list)
	return list
}

// Cancel drops a running request: the connections to its client and upstream are
// closed, and the same request is refused for a minute. It reports whether
// there is such a request.
func (s *State) Cancel(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.running[id]
	if !ok {
		return false
	}
	l.cancel(ErrCancelled) // before the look at its fingerprint: see known
	s.refuse(l.fingerprint.Load())
	return true
}

// refuse has requests with a fingerprint refused from now on. s.mu is held.
func (s *State) refuse(fingerprint uint64) {
	if fingerprint == 0 {
		return
	}
	if s.cancelled == nil {
		s.cancelled = make(map[uint64]time.Time)
	}
	s.cancelled[fingerprint] = time.Now().Add(cancelledFor)
}

// known takes down the fingerprint of a request, which may have been cancelled
// before there was one.
func (s *State) known(ctx context.Context, l *live, fingerprint uint64) {
	l.fingerprint.Store(fingerprint)
	if errors.Is(context.Cause(ctx), ErrCancelled) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.refuse(fingerprint)
	}
}

// isCancelled reports whether a request was cancelled a moment ago.
func (s *State) isCancelled(fingerprint uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for f, until := range s.cancelled {
		if now.After(until) {
			delete(s.cancelled, f)
		}
	}
	_, ok := s.cancelled[fingerprint]
	return ok
}

// fingerprint tells requests apart. It says nothing of them.
func (s *State) fingerprint(parts ...string) uint64 {
	s.seeded.Do(func() { s.seed = maphash.MakeSeed() })
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, part := range parts {
		h.WriteString(part) //nolint:errcheck // it has none
		h.WriteByte(0)      //nolint:errcheck // likewise
	}
	return max(h.Sum64(), 1)
}

// Guard is a part of the proxy whose mode can be switched while it runs.
type Guard string

// The guards.
const (
	GuardRecovery     Guard = "recovery"     // Config.Mode
	GuardDetector     Guard = "detector"     // Config.Detector.Mode
	GuardStationarity Guard = "stationarity" // Config.Stationarity.Mode
)

// Guards returns all of them.
func Guards() []Guard { return []Guard{GuardRecovery, GuardDetector, GuardStationarity} }

// SetMode puts a mode in the place of a guard's configured ones. An empty one
// lets these hold again.
func (s *State) SetMode(g Guard, m Mode) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.modes == nil {
		s.modes = make(map[Guard]Mode)
	}
	s.modes[g] = m
}

// Mode returns a guard's mode that was set, or "".
func (s *State) Mode(g Guard) Mode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modes[g]
}

// enter takes a request in.
func (s *State) enter(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = make(map[string]*live)
	}
	s.running[l.shown.ID] = l
}

// leave takes a request out, and in among the recoveries if it is one.
func (s *State) leave(id string, r *Recovery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, id)
	if r == nil {
		return
	}
	if len(s.recoveries) == maxRecoveries {
		s.recoveries = slices.Delete(s.recoveries, 0, 1)
	}
	s.recoveries = append(s.recoveries, *r)
}

package proxy

import "sync/atomic"

// allowance is memory that all requests share, in bytes. It is safe for
// concurrent use.
type allowance struct {
	limit atomic.Int64
	used  atomic.Int64
}

// take reports whether there are n bytes left, and takes them.
func (a *allowance) take(n int) bool {
	if a.used.Add(int64(n)) > a.limit.Load() {
		a.give(n)
		return false
	}
	return true
}

// need takes n bytes that can't be done without.
func (a *allowance) need(n int) { a.used.Add(int64(n)) }

// give gives n bytes back.
func (a *allowance) give(n int) { a.used.Add(-int64(n)) }

package proxy

import (
	"sync"
	"time"
)

// How many of the requests of retryWindow may be made again: a fifth, but ten
// always. In an outage each client multiplies its requests by itself.
const (
	retryWindow  = 60 // seconds
	retryShare   = 5
	retryMinimum = 10
)

// retryBudget bounds the retries of all requests together. Its zero value is
// ready for use, and safe for concurrent use.
type retryBudget struct {
	mu    sync.Mutex
	slots [retryWindow]retrySlot // guarded by mu, by second
}

// retrySlot is what happened in one second.
type retrySlot struct{ second, requests, retries int64 }

// request takes down that a request came.
func (b *retryBudget) request(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.slot(now).requests++
}

// spend takes down a retry, and reports whether there was room for it.
func (b *retryBudget) spend(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.slot(now)
	var requests, retries int64
	for i := range b.slots {
		if s := &b.slots[i]; current.second-s.second < retryWindow {
			requests += s.requests
			retries += s.retries
		}
	}
	if retries >= max(requests/retryShare, retryMinimum) {
		return false
	}
	current.retries++
	return true
}

// slot returns the current slot, emptied if it held an older time.
func (b *retryBudget) slot(now time.Time) *retrySlot {
	s := &b.slots[now.Unix()%retryWindow]
	if s.second != now.Unix() {
		*s = retrySlot{second: now.Unix()}
	}
	return s
}

package proxy

import (
	"net/http"
	"sync"
	"time"
)

// headDelay is how long the head of an answer waits for its first event, to go out
// in one write with it. Most first events come with the head, but some take minutes.
const headDelay = time.Millisecond

// head sends the head of an answer on by itself, unless something follows it soon.
// It is the only thing that is ever sent to a client beside the loop of its request,
// which waits then.
type head struct {
	timer *time.Timer

	mu      sync.Mutex // guards settled, and the client's connection until then
	settled bool
}

// newHead returns the head that was written to w.
func newHead(w http.ResponseWriter) *head {
	h := new(head)
	h.timer = time.AfterFunc(headDelay, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.settled {
			http.NewResponseController(w).Flush() //nolint:errcheck // it shows again at the first write
		}
	})
	return h
}

// settle leaves the head to what follows it. Of nil there is none.
func (h *head) settle() {
	if h == nil || h.timer.Stop() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = true
}

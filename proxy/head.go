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
	timer *time.Timer // nil while there is no head to send

	mu      sync.Mutex // guards settled, and the client's connection until then
	settled bool
}

// wrote has the head sent on that was written to w.
func (h *head) wrote(w http.ResponseWriter) {
	h.timer = time.AfterFunc(headDelay, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.settled {
			http.NewResponseController(w).Flush() //nolint:errcheck // it shows again at the first write
		}
	})
}

// settle leaves the head, if there is one, to what follows it.
func (h *head) settle() {
	if h.timer == nil {
		return
	}
	if !h.timer.Stop() {
		h.mu.Lock()
		h.settled = true
		h.mu.Unlock()
	}
	h.timer = nil
}

package simulate

import (
	"bytes"
	"net/http"
	"slices"
	"sync"

	"github.com/tidwall/gjson"
)

const (
	defaultKeep      = 10_000
	defaultKeepBytes = 64 << 20
)

// Request is one request the server received, and how far its answer got. Its
// fields are set before the script sees it and never change; they are shared
// by all who hold it and must not be written to. The methods are safe for
// concurrent use.
type Request struct {
	// Ordinal counts POSTs to …/responses from 0. It is -1 for any other request.
	Ordinal int

	Method   string
	Path     string
	RawQuery string
	Header   http.Header
	// Body is what came over the wire, a Content-Encoding not undone.
	Body []byte
	// RemoteAddr is the client's address and port: equal for two requests of
	// one connection.
	RemoteAddr string

	// Done is closed when the handler has returned.
	Done <-chan struct{}
	// Gone is closed as soon as the client's connection goes away before it
	// was sent the whole reply. It stays open when the reply was complete, and
	// when it was the scenario that dropped the connection. Where both are
	// closed, Gone was first.
	Gone <-chan struct{}

	arrival int   // counts all requests from 0
	size    int64 // bytes of Header and Body
	done    chan struct{}
	gone    chan struct{}
	records *records

	// Guarded by records.mu.
	reply     []byte
	full      bool // reply takes no more
	forgotten bool
	writes    int
	sent      int64
	settled   bool // the client leaving is no loss any more
	lost      bool // gone is closed
}

// Sent tells how much of the reply has been handed to the connection: the
// number of writes (one frame each, unless [Scenario.Split] is set) and the
// bytes of body. What a client has received is always counted in; the write
// under way may be counted before it arrives.
func (r *Request) Sent() (writes int, bytes int64) {
	r.records.mu.Lock()
	defer r.records.mu.Unlock()
	return r.writes, r.sent
}

// Reply returns a copy of the reply's body as far as [Request.Sent] counts it,
// its beginning only if it went past [Server.KeepBytes], and nothing once the
// server has forgotten the request.
func (r *Request) Reply() []byte {
	r.records.mu.Lock()
	defer r.records.mu.Unlock()
	return bytes.Clone(r.reply)
}

// optedIn reports whether the client asked for doom-loop reports.
func (r *Request) optedIn() bool {
	return len(r.Header.Values(HeaderDoomLoopCheck)) > 0
}

// wantsStream decides as the API does, by the body. A body that is compressed
// is not read here, and taken to want a stream.
func (r *Request) wantsStream() bool {
	if r.Header.Get("Content-Encoding") != "" {
		return true
	}
	return gjson.ValidBytes(r.Body) && gjson.GetBytes(r.Body, "stream").Type == gjson.True
}

// settle notes that the client will have the whole reply with the next write.
func (r *Request) settle() {
	r.records.mu.Lock()
	defer r.records.mu.Unlock()
	r.settled = true
}

// leave notes that the connection is closed. It works while a script or a
// Before blocks, too.
func (r *Request) leave() {
	r.records.mu.Lock()
	defer r.records.mu.Unlock()
	if !r.settled {
		r.closeGone()
	}
}

// lose notes that the client certainly has not got the reply.
func (r *Request) lose() {
	r.records.mu.Lock()
	defer r.records.mu.Unlock()
	r.closeGone()
}

// closeGone is called with records.mu held.
func (r *Request) closeGone() {
	if !r.lost {
		r.lost = true
		close(r.gone)
	}
}

// wrote counts one write, before it is made: a client that has seen the bytes
// then never finds them missing.
func (r *Request) wrote(p string) {
	rs := r.records
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.writes++
	r.sent += int64(len(p))
	if r.forgotten || r.full {
		return
	}
	r.reply = append(r.reply, p...)
	rs.held += int64(len(p))
	rs.trim(r)
	if rs.held > rs.keepBytes { // it is r alone that is too large
		rs.held -= int64(len(p))
		r.reply = r.reply[:len(r.reply)-len(p)]
		r.full = true
	}
}

// records are the requests that are remembered.
type records struct {
	mu        sync.Mutex // guards all below, and the changing fields of each Request
	list      []*Request
	held      int64 // bytes of Header, Body and reply in list
	keepBytes int64
	keep      int
	arrivals  int
	ordinals  int
}

// add makes the record of a request that has been read. The ordinal is given
// out together with the place in the list, so that the two orders agree.
func (rs *records) add(keep int, keepBytes int64, hr *http.Request, body []byte, create bool) *Request {
	done, gone := make(chan struct{}), make(chan struct{})
	r := &Request{
		Ordinal:    -1,
		Method:     hr.Method,
		Path:       hr.URL.Path,
		RawQuery:   hr.URL.RawQuery,
		Header:     hr.Header.Clone(),
		Body:       body,
		RemoteAddr: hr.RemoteAddr,
		Done:       done,
		Gone:       gone,
		done:       done,
		gone:       gone,
		records:    rs,
		size:       int64(len(body)),
	}
	for name, values := range r.Header {
		for _, v := range values {
			r.size += int64(len(name) + len(v))
		}
	}
	if keep == 0 {
		keep = defaultKeep
	}
	if keepBytes <= 0 {
		keepBytes = defaultKeepBytes
	}

	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.keep, rs.keepBytes = keep, keepBytes
	r.arrival = rs.arrivals
	rs.arrivals++
	if create {
		r.Ordinal = rs.ordinals
		rs.ordinals++
	}
	if keep < 0 {
		r.forgotten = true
		return r
	}
	rs.list = append(rs.list, r)
	rs.held += r.size
	rs.trim(r)
	return r
}

// trim forgets the oldest requests until the rest is within bounds, but never
// the one named. It is called with mu held.
func (rs *records) trim(but *Request) {
	for i := 0; i < len(rs.list) && (len(rs.list) > rs.keep || rs.held > rs.keepBytes); {
		r := rs.list[i]
		if r == but {
			i++
			continue
		}
		rs.held -= r.size + int64(len(r.reply))
		r.reply, r.forgotten = nil, true
		if i == 0 {
			rs.list[0] = nil
			rs.list = rs.list[1:] // append reallocates in time, and leaves these behind
		} else {
			rs.list = slices.Delete(rs.list, i, i+1)
		}
	}
}

func (rs *records) snapshot() []*Request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return slices.Clone(rs.list)
}

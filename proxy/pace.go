package proxy

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// maxUnpaced is how many bytes are written to a client at a time: it has
// Config.ClientTimeout to take them.
const maxUnpaced = 64 << 10

// pace ends the connection of a client that takes nothing of its answer. It is
// a write deadline that moves on with each write.
type pace struct {
	conn  *http.ResponseController
	limit time.Duration
	until time.Time
}

// newPace returns the pace of one answer. The deadline of an earlier answer on
// the same connection is no longer one.
func newPace(w http.ResponseWriter, limit time.Duration) *pace {
	p := &pace{conn: http.NewResponseController(w), limit: limit}
	p.conn.SetWriteDeadline(time.Time{}) //nolint:errcheck // a test's recorder has none
	return p
}

// extend gives the client the whole limit again, and a little more, so that most
// calls need to do nothing.
func (p *pace) extend() {
	now := time.Now()
	if p.until.Sub(now) >= p.limit {
		return
	}
	p.until = now.Add(p.limit + p.limit/8)
	p.conn.SetWriteDeadline(p.until) //nolint:errcheck // see above
}

// refuse bounds how long the rest of a body is waited for that nobody wants.
func (p *pace) refuse() {
	p.conn.SetReadDeadline(time.Now().Add(p.limit)) //nolint:errcheck // see above
}

// patientReader reads a client's body and gives up on one that is not sent on.
type patientReader struct {
	io.Reader
	conn  *http.ResponseController
	limit time.Duration
}

func (r *patientReader) Read(b []byte) (int, error) {
	r.conn.SetReadDeadline(time.Now().Add(r.limit)) //nolint:errcheck // a test's recorder has none
	return r.Reader.Read(b)                         //nolint:wrapcheck // io.EOF must stay bare
}

// readBody reads r's body, as readAtMost does.
func (p *Proxy) readBody(w http.ResponseWriter, r *http.Request, take func(n int) bool) (string, error) {
	conn := http.NewResponseController(w)
	body, err := readAtMost(&patientReader{r.Body, conn, p.cfg.ClientTimeout}, p.cfg.MaxBody, take)
	if err == nil || errors.Is(err, errNoMemory) {
		// Behind the body the connection is read only to notice its end. A
		// deadline for what is left of a refused one stays: net/http reads it.
		conn.SetReadDeadline(time.Time{}) //nolint:errcheck // a test's recorder has none
	}
	return body, err
}

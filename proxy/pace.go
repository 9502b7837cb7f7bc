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
	conn  http.ResponseController
	limit time.Duration
	until time.Time
}

// begin begins the pace of one answer. The deadline of an earlier answer on the
// same connection is no longer one.
func (p *pace) begin(w http.ResponseWriter, limit time.Duration) {
	p.conn, p.limit = *http.NewResponseController(w), limit
	p.conn.SetWriteDeadline(time.Time{}) //nolint:errcheck // a test's recorder has none
}

// extend gives the client the whole limit again, also for what is written within an
// eighth of it from now, and a little more, so that most calls need to do nothing.
func (p *pace) extend() {
	now := time.Now()
	if p.until.Sub(now) >= p.limit+p.limit/perLimit {
		return
	}
	p.until = now.Add(p.limit + 2*p.limit/perLimit)
	p.conn.SetWriteDeadline(p.until) //nolint:errcheck // see above
}

// refuse bounds how long the rest of a body is waited for that nobody wants.
func (p *pace) refuse() {
	p.conn.SetReadDeadline(time.Now().Add(p.limit)) //nolint:errcheck // see above
}

// patientBody is a client's body that gives up on one that is not sent on. Behind
// the body the connection is read only to notice its end: no deadline holds then.
type patientBody struct {
	io.ReadCloser
	conn  http.ResponseController
	limit time.Duration
}

func (p *Proxy) patient(w http.ResponseWriter, body io.ReadCloser) *patientBody {
	return &patientBody{body, *http.NewResponseController(w), p.cfg.ClientTimeout}
}

func (b *patientBody) Read(into []byte) (int, error) {
	b.conn.SetReadDeadline(time.Now().Add(b.limit)) //nolint:errcheck // a test's recorder has none
	n, err := b.ReadCloser.Read(into)
	if errors.Is(err, io.EOF) {
		b.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // likewise
	}
	return n, err //nolint:wrapcheck // io.EOF must stay bare
}

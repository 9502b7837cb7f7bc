package proxy

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errSilent is why a stream was ended that brought nothing for too long.
var errSilent = errors.New("the upstream sent nothing for too long")

// watchdog reads an answer and ends it if no byte comes for too long. Its zero value
// reads nothing.
type watchdog struct {
	io.ReadCloser
	last  atomic.Int64 // when a byte came, in nanoseconds since start
	start time.Time
	end   func()       // makes Read return
	limit atomic.Int64 // of the silence, in nanoseconds
	timer *time.Timer
	bit   atomic.Bool // it ended the answer
	done  atomic.Bool // nobody waits for it any more
}

// watch returns a watchdog of body. Stop ends it.
func watch(body io.ReadCloser, limit time.Duration, end func()) *watchdog {
	d := new(watchdog)
	d.begin(body, limit, end)
	return d
}

// begin begins to watch body.
func (d *watchdog) begin(body io.ReadCloser, limit time.Duration, end func()) {
	d.ReadCloser, d.end, d.start = body, end, time.Now()
	d.limit.Store(int64(limit))
	d.timer = time.AfterFunc(limit, d.look)
}

// look ends a silent answer, or comes back when it can have been silent for long
// enough.
func (d *watchdog) look() {
	if d.done.Load() {
		return
	}
	left := time.Duration(d.last.Load()+d.limit.Load()) - time.Since(d.start)
	if left > 0 {
		d.timer.Reset(left)
		return
	}
	d.bit.Store(true)
	d.end()
}

func (d *watchdog) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.last.Store(int64(time.Since(d.start)))
	return n, err //nolint:wrapcheck // io.EOF must stay bare
}

// stop ends the watch.
func (d *watchdog) stop() {
	d.done.Store(true)
	d.timer.Stop()
}

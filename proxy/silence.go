package proxy

import (
	"errors"
	"io"
	"sync/atomic"
	"time"
)

// errSilent is why a stream was ended that brought nothing for too long.
var errSilent = errors.New("the upstream sent nothing for too long")

// perLimit is how often within a time limit it is looked whether it is over. It is
// over an eighth of it late, or two, so that no clock is read for each frame.
const perLimit = 8

// watchdog reads an answer and ends it if no byte comes for too long. Its zero value
// reads nothing.
type watchdog struct {
	io.ReadCloser
	reads  atomic.Int64
	pulses atomic.Int64 // of the timer
	limit  atomic.Int64 // of the silence, in nanoseconds
	every  time.Duration
	end    func() // makes Read return
	timer  *time.Timer
	bit    atomic.Bool // it ended the answer
	done   atomic.Bool // nobody waits for it any more

	// Of pulse alone: the reads at the last one, and when there were others.
	seen  int64
	since time.Time
}

// watch returns a watchdog of body. Stop ends it.
func watch(body io.ReadCloser, limit time.Duration, end func()) *watchdog {
	d := new(watchdog)
	d.begin(body, limit, limit/perLimit, end)
	return d
}

// begin begins to watch body, with a look at least each so often.
func (d *watchdog) begin(body io.ReadCloser, limit, every time.Duration, end func()) {
	d.ReadCloser, d.end, d.since = body, end, time.Now()
	d.every = max(min(every, limit/perLimit), time.Millisecond)
	d.limit.Store(int64(limit))
	d.timer = time.AfterFunc(time.Hour, d.pulse)
	d.timer.Reset(d.every) // now that pulse can find it
}

// pulse ends a silent answer, or comes back.
func (d *watchdog) pulse() {
	if d.done.Load() {
		return
	}
	now := time.Now()
	if n := d.reads.Load(); n != d.seen {
		d.seen, d.since = n, now
	}
	if now.Sub(d.since) >= time.Duration(d.limit.Load()) {
		d.bit.Store(true)
		d.end()
		return
	}
	d.pulses.Add(1)
	d.timer.Reset(d.every)
}

func (d *watchdog) Read(p []byte) (int, error) {
	n, err := d.ReadCloser.Read(p)
	d.reads.Add(1)
	return n, err //nolint:wrapcheck // io.EOF must stay bare
}

// stop ends the watch.
func (d *watchdog) stop() {
	d.done.Store(true)
	d.timer.Stop()
}

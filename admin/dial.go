package admin

import (
	"context"
	"log/slog"
	"time"
)

// How long the upstreams may take to be reached, and for how long what came of
// that holds. Whoever reaches the listener may ask.
const (
	dialTimeout = 5 * time.Second
	dialHolds   = time.Second
)

// dialer reports whether the upstreams can be reached.
type dialer struct {
	dial func(context.Context) error
	log  *slog.Logger

	turn   chan struct{} // who has put something in may use all below
	at     time.Time
	failed bool
}

func newDialer(dial func(context.Context) error, log *slog.Logger) *dialer {
	return &dialer{dial: dial, log: log, turn: make(chan struct{}, 1)}
}

// reached reports whether the upstreams can be reached, or could a moment ago.
func (d *dialer) reached(ctx context.Context) bool {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return false // to nobody
	}
	if !d.at.IsZero() && time.Since(d.at) < dialHolds {
		return !d.failed
	}
	// Others wait for this answer, so it does not end with the one who asked first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dialTimeout)
	defer cancel()
	err := d.dial(ctx)
	switch {
	case err != nil && !d.failed:
		d.log.Warn("an upstream cannot be reached", "error", err)
	case err == nil && d.failed:
		d.log.Info("the upstreams can be reached again")
	}
	d.at, d.failed = time.Now(), err != nil
	return !d.failed
}

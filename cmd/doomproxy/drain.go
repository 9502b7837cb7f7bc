package main

import (
	"context"
	"log/slog"
	"time"
)

// shutdownSettings say how serve ends.
type shutdownSettings struct {
	// delay is how long requests are still taken in after the first signal, while
	// whoever sends them learns from /readyz that he should not.
	delay time.Duration
	// grace is how long a running request may go on after that.
	grace time.Duration
}

// shutdownGrace is the default grace. Container platforms kill after the same
// 30 s by default.
const shutdownGrace = 30 * time.Second

// drain ends a server in order once ctx has ended. What fails meanwhile ends
// the delay.
func (a *app) drain(ctx context.Context, srv *server, s shutdownSettings, failed <-chan error, log *slog.Logger) (err error) {
	ctx = context.WithoutCancel(ctx)
	log.Info("shutting down", "delay", s.delay, "grace", s.grace, "running", srv.running.size())
	delay, cancel := a.timeout(ctx, s.delay)
	defer cancel()
	select {
	case <-delay.Done():
	case err = <-failed:
	}
	grace, cancel := a.timeout(ctx, s.grace)
	defer cancel()
	srv.stop(grace)
	return err
}

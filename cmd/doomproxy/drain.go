package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/doomproxy/doomproxy/config"
)

// shutdownGrace is the grace of what has no setting for it. Container platforms
// kill after the same 30 s by default.
const shutdownGrace = 30 * time.Second

// drain ends a server in order once ctx has ended. What fails meanwhile ends
// the delay.
func (a *app) drain(ctx context.Context, srv *server, s config.Shutdown, failed <-chan error, log *slog.Logger) (err error) {
	ctx = context.WithoutCancel(ctx)
	log.Info("shutting down", "delay", s.Delay, "grace", s.Grace, "running", srv.running.size())
	delay, cancel := a.timeout(ctx, s.Delay)
	defer cancel()
	select {
	case <-delay.Done():
	case err = <-failed:
	}
	grace, cancel := a.timeout(ctx, s.Grace)
	defer cancel()
	srv.stop(grace)
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/doomproxy/doomproxy/config"
)

// watch takes in changes of the configuration until ctx ends: when its files have
// changed, and when the terminal hangs up, which is how services are told to.
// read is what the files were like when they were read.
func (s *service) watch(ctx context.Context, read []os.FileInfo) {
	ticks, stop := s.app.ticks(s.app.every)
	defer stop()
	hangups, stop := s.app.hangups()
	defer stop()
	w := &lookout{files: s.sources.Files(), read: s.change, tell: s.reloaded, tried: read, seen: read}
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
			w.look()
		case <-hangups:
			if s.interactive && !s.app.terminal() {
				s.log.Info("the terminal is gone")
				s.end()
				return
			}
			w.reload(true)
		}
	}
}

// reloaded tells what became of a change.
func (s *service) reloaded(err error) {
	if err == nil {
		s.metrics.ConfigReloads.WithLabelValues("success").Inc()
		s.metrics.ConfigLastReloadSuccessful.Set(1)
		return
	}
	s.metrics.ConfigReloads.WithLabelValues("failure").Inc()
	s.metrics.ConfigLastReloadSuccessful.Set(0)
	s.log.Error("the changed configuration cannot be used, the one before stays in use", "error", err)
}

// lookout looks whether files have changed.
type lookout struct {
	files []string
	read  func() error    // reads them
	tell  func(err error) // is told what came of that, if it is news

	tried  []os.FileInfo // when they were read last
	seen   []os.FileInfo // at the last look
	failed string        // what was wrong when they were read last
}

// look reads the files if they have changed. They have to be the same in two looks
// first, for an editor may still be writing. While they cannot be used it tries
// each time: that may have had another cause than what they hold.
func (w *lookout) look() {
	now := states(w.files)
	steady := slices.EqualFunc(now, w.seen, same)
	w.seen = now
	if changed := !slices.EqualFunc(now, w.tried, same); steady && (changed || w.failed != "") {
		w.reload(changed)
	}
}

// reload reads the files. What comes of it is news if they have changed, and
// otherwise if it is not what came of it before.
func (w *lookout) reload(changed bool) {
	w.tried = states(w.files) // as they are before they are read, so that no change is missed
	w.seen = w.tried
	failed, err := "", w.read()
	if err != nil {
		failed = err.Error()
		if !slices.EqualFunc(states(w.files), w.tried, same) {
			return // they changed while they were read, and are read again
		}
	}
	if changed || failed != w.failed {
		w.tell(err)
	}
	w.failed = failed
}

// errFileGone is the error of a configuration file that was in use.
var errFileGone = errors.New("the configuration file is gone")

// change reads the configuration and puts it in use.
func (s *service) change() error {
	l, err := checked(s.sources)
	if err != nil {
		return err
	}
	before := s.current.Load()
	if l.File == "" && before.File != "" {
		return fmt.Errorf("%w: %s", errFileGone, before.File)
	}
	needRestart := l.KeepUntilRestart(&before.Config)
	opened, err := s.app.open(&l.Config, s.log)
	if err != nil {
		return err
	}
	g, err := s.generation(l, opened)
	if err != nil {
		return err
	}
	for _, n := range l.Notes {
		n(s.log)
	}
	if len(needRestart) > 0 {
		s.log.Warn("changed settings have no effect before the next start", "settings", needRestart)
	}
	for guard, mode := range modes(&l.Config) {
		if modes(&before.Config)[guard] != mode {
			s.state.SetMode(guard, "") // what an operator chose meanwhile was for the one before
		}
	}
	s.use(g)
	s.log.Info("the configuration was read again", "file", l.File, "changed", config.Changed(&before.Config, &l.Config))
	return nil
}

// newTicks returns what ticks every d.
func newTicks(d time.Duration) (<-chan time.Time, func()) {
	t := time.NewTicker(d)
	return t.C, t.Stop
}

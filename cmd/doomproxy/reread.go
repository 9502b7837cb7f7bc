package main

import (
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// rereadInterval is how long a changed file may go unnoticed.
const rereadInterval = 2 * time.Second

// reread is a value that was read from files, and is read again when they
// change. It is safe for concurrent use.
type reread[T any] struct {
	setting string // names it in the log
	files   []string
	load    func() (T, error)
	every   time.Duration // between two looks at the files
	log     *slog.Logger

	value  atomic.Pointer[T]
	mu     sync.Mutex // guards all below
	looked time.Time
	seen   []os.FileInfo // at the last look
	loaded []os.FileInfo // of what value was made from
}

// badChange is logged of changed files that cannot be used.
const badChange = "a changed file cannot be used, what it held before stays in use"

// open reads the value for the first time.
func (r *reread[T]) open() error {
	r.looked = time.Now()
	return r.read()
}

// get returns the value. What changed files hold takes its place only if it can
// be used. If it can't, that is logged once for the change.
func (r *reread[T]) get() T {
	if r.mu.TryLock() { // or somebody else looks right now, and nobody waits for that
		r.look()
		r.mu.Unlock()
	}
	return *r.value.Load()
}

// look reads the files if they have changed and it is time for it.
func (r *reread[T]) look() {
	if time.Since(r.looked) < r.every {
		return
	}
	r.looked = time.Now()
	before := r.seen
	if found := states(r.files); slices.EqualFunc(found, r.loaded, same) {
		r.seen = found
		return
	}
	if err := r.read(); err == nil {
		r.log.Info("a changed file was read", "setting", r.setting)
	} else if !slices.EqualFunc(r.seen, before, same) {
		r.log.Warn(badChange, "setting", r.setting, "error", err)
	}
}

// read reads the files. It is tried again after an error, for that may have had
// another cause than what they hold.
func (r *reread[T]) read() error {
	r.seen = states(r.files) // as they were before, so that no change is missed
	v, err := r.load()
	if err != nil {
		return err
	}
	r.loaded = r.seen
	r.value.Store(&v)
	return nil
}

// states returns what tells whether a file was changed, nil for one that is not
// there.
func states(files []string) []os.FileInfo {
	list := make([]os.FileInfo, len(files))
	for i, name := range files {
		if info, err := os.Stat(name); err == nil {
			list[i] = info
		}
	}
	return list
}

func same(a, b os.FileInfo) bool {
	if a == nil || b == nil {
		return a == b
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

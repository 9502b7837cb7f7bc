package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Capture says where discarded attempts are kept, as event streams in files: what
// models wrote for users, in plain text.
type Capture struct {
	// Dir is the directory; empty means that nothing is kept. It must exist.
	Dir string
	// MaxBytes bounds all files in it together, the oldest go first; zero means
	// DefaultCaptureMaxBytes.
	MaxBytes int64
}

// DefaultCaptureMaxBytes is room for some thousand loops.
const DefaultCaptureMaxBytes = 100 << 20

// maxKept bounds what is kept of one attempt, in bytes. A loop of that length
// has shown what it is.
const maxKept = 4 << 20

// keptTime and keptSuffix make the name of a file, which sorts by time.
const (
	keptTime   = "20060102T150405.000Z"
	keptSuffix = ".sse"
)

// kept is the beginning of an attempt, which is kept if it is discarded.
type kept struct {
	raw    []byte
	full   bool // a frame had no room, so that none behind it is kept either
	memory *allowance
}

// add takes in a frame, if there is room for it.
func (k *kept) add(frame []byte) {
	k.full = k.full || len(k.raw)+len(frame) > maxKept || !k.memory.take(len(frame))
	if !k.full {
		k.raw = append(k.raw, frame...)
	}
}

// release gives back its memory; of nil that is none.
func (k *kept) release() {
	if k == nil {
		return
	}
	k.memory.give(len(k.raw))
	k.raw = nil
}

// keeper writes files into a Capture's directory. The zero value is ready for use.
type keeper struct{ mu sync.Mutex } // one file at a time

// keep writes an attempt's stream into a file of its own.
func (p *Proxy) keep(id string, attempt int, raw []byte) {
	if len(raw) == 0 {
		return
	}
	name := fmt.Sprintf("%s-%s-%d%s", time.Now().UTC().Format(keptTime), id, attempt, keptSuffix)
	if err := p.state.keeper.write(&p.cfg.Capture, name, raw); err != nil {
		p.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "capture", slog.String("error", err.Error()))
	}
}

// write writes a file once there is room for it.
func (k *keeper) write(c *Capture, name string, raw []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	limit := orDefault(c.MaxBytes, DefaultCaptureMaxBytes)
	if int64(len(raw)) > limit {
		raw = raw[:limit]
	}
	if err := makeRoom(c.Dir, limit-int64(len(raw))); err != nil {
		return fmt.Errorf("make room in capture.dir: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, name), raw, 0o600); err != nil { // #nosec G703 -- the operator's folder, and a name made of a time and a random id
		return fmt.Errorf("write to capture.dir: %w", err)
	}
	return nil
}

// makeRoom removes the oldest files that keep wrote until the rest has limit
// bytes at most. Other files are not touched, and not counted.
func makeRoom(dir string, limit int64) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err //nolint:wrapcheck // by the caller
	}
	var sizes []int64
	var names []string // in order of their time, by their names
	var total int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !isKept(e.Name()) {
			continue
		}
		names, sizes = append(names, e.Name()), append(sizes, info.Size())
		total += info.Size()
	}
	for i, name := range names {
		if total <= limit {
			return nil
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) { // #nosec G703 -- names that were read from that folder
			return err //nolint:wrapcheck // by the caller
		}
		total -= sizes[i]
	}
	return nil
}

// isKept reports whether a file's name is one of keep's.
func isKept(name string) bool {
	at, rest, _ := strings.Cut(name, "-")
	_, err := time.Parse(keptTime, at)
	return err == nil && strings.HasSuffix(rest, keptSuffix)
}

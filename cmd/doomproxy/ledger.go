package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/config"
	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/metrics"
)

// The stores a ledger can be kept in.
const (
	storeMemory = "memory"
	storeFile   = "file"
	storeRedis  = "redis"
)

// openLedger opens the ledger of a proxy that listens on l, and returns the kind
// of its store. A file that cannot be used is no reason not to serve: memory
// takes its place. But two proxies on one file are a mistake to mend.
func (a *app) openLedger(c *config.Config, l net.Listener, log *slog.Logger, onError func(error)) (ledger.Store, string, error) {
	opt := ledger.Options{TTL: c.Ledger.TTL, MaxEntries: c.Ledger.MaxEntries, OnError: onError}
	switch c.Ledger.Store {
	case storeRedis:
		store, err := ledger.OpenRedis(string(c.Ledger.RedisURL), opt)
		if err != nil {
			return nil, "", fmt.Errorf("ledger.redis_url: %w", err)
		}
		return store, storeRedis, nil
	case storeFile:
		path := c.Ledger.Path
		if path == "" {
			path = a.ledgerPath(c.Listen, l)
		}
		if path == "" {
			break
		}
		store, err := ledger.OpenFile(path, opt)
		if errors.Is(err, ledger.ErrLocked) {
			return nil, "", fmt.Errorf("%w: end that process, or give this one its own DOOMPROXY_LEDGER_PATH", err)
		}
		if err == nil {
			return store, storeFile, nil
		}
		log.Warn("the ledger is kept in memory only, and ends with this process", "error", err)
	}
	return ledger.NewMemory(opt), storeMemory, nil
}

// ledgerPath returns the default path of the ledger's file: one for each port,
// since one process has a file to itself. It is empty where there is no place for
// it, and for a port that is another one each time.
func (a *app) ledgerPath(listen string, l net.Listener) string {
	dir := a.stateDirectory()
	if _, port, _ := net.SplitHostPort(listen); port == "0" || dir == "" {
		return ""
	}
	return filepath.Join(dir, "ledger-"+strconv.Itoa(l.Addr().(*net.TCPAddr).Port)+".db")
}

// stateDirectory returns where state is kept for the user, "" if nobody says.
func (a *app) stateDirectory() string {
	if dir := a.getenv("STATE_DIRECTORY"); dir != "" { // as systemd sets it
		dir, _, _ = strings.Cut(dir, ":")
		return dir
	}
	if dir := a.getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "doomproxy")
	}
	home := a.getenv("HOME")
	switch {
	case runtime.GOOS == "windows":
		if dir := a.getenv("LocalAppData"); dir != "" {
			return filepath.Join(dir, "doomproxy")
		}
	case home == "":
	case runtime.GOOS == "darwin":
		return filepath.Join(home, "Library", "Application Support", "doomproxy")
	default:
		return filepath.Join(home, ".local", "state", "doomproxy")
	}
	return ""
}

// getenv returns the last value that the environment has for name.
func (a *app) getenv(name string) string {
	value := ""
	for _, entry := range a.env {
		if n, v, _ := strings.Cut(entry, "="); n == name {
			value = v
		}
	}
	return value
}

// ledgerInterval is how often the ledger's entries are counted: not often, for
// in Redis that walks over all keys.
const ledgerInterval = time.Minute

// countLedger keeps the number of the ledger's entries until ctx ends.
func countLedger(ctx context.Context, store ledger.Store, m *metrics.Metrics) {
	ticker := time.NewTicker(ledgerInterval)
	defer ticker.Stop()
	for {
		if n, err := store.Len(ctx); err == nil {
			m.LedgerEntries.Set(float64(n))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

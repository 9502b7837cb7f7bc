package admin_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doomproxy/doomproxy/admin"
)

// ready asks for /readyz without a socket, so that time may be synctest's.
func ready(ctx context.Context, h http.Handler, query string) (status int, body string) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz"+query, nil))
	return rec.Code, rec.Body.String()
}

func TestReadyUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var failure error
		dialed, draining := 0, false
		h := (&admin.Server{
			Ready:    func() bool { return !draining },
			Upstream: func(context.Context) error { dialed++; return failure },
			Logger:   slog.New(slog.NewTextHandler(&log, nil)),
		}).Handler()
		want := func(query string, status int, body string, dials int) {
			t.Helper()
			if got, text := ready(t.Context(), h, query); got != status || text != body || dialed != dials {
				t.Errorf("%q: got %d %q after %d dials, want %d %q after %d", query, got, text, dialed, status, body, dials)
			}
		}
		const yes, no, away = "ready\n", "not ready\n", "not ready: an upstream cannot be reached\n"
		want("", 200, yes, 0)
		want("?upstream=0", 200, yes, 0)
		want("?upstream=1", 200, yes, 1)
		failure = errors.New("dial tcp 10.1.2.3:443: refused")
		want("?upstream=1", 200, yes, 1) // as a moment ago
		time.Sleep(2 * time.Second)
		want("?upstream=1", 503, away, 2)
		want("", 200, yes, 2)
		time.Sleep(2 * time.Second)
		want("?upstream=1", 503, away, 3)
		failure = nil
		time.Sleep(2 * time.Second)
		want("?upstream=1", 200, yes, 4)
		draining = true
		time.Sleep(2 * time.Second)
		want("?upstream=1", 503, no, 4)
		if n := strings.Count(log.String(), "cannot be reached"); n != 1 {
			t.Errorf("it was logged %d times that an upstream is away, want once:\n%s", n, &log)
		}
		if !strings.Contains(log.String(), "10.1.2.3") || !strings.Contains(log.String(), "again") {
			t.Errorf("got the log %q, want why, and that it is over", &log)
		}
	})
}

// However many ask, one dials, and not for ever. One that leaves takes the
// answer from nobody.
func TestReadyUpstreamOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dialed := 0 // written by one at a time
		h := (&admin.Server{Upstream: func(ctx context.Context) error {
			dialed++
			<-ctx.Done()
			if took, ok := ctx.Deadline(); !ok || time.Until(took) > 0 {
				return nil // it ended with the one who asked
			}
			return ctx.Err()
		}}).Handler()
		var wg sync.WaitGroup
		first, leave := context.WithCancel(t.Context())
		start := time.Now()
		wg.Go(func() { ready(first, h, "?upstream=1") })
		synctest.Wait()
		leave()
		for range 20 {
			wg.Go(func() {
				if got, _ := ready(t.Context(), h, "?upstream=1"); got != http.StatusServiceUnavailable {
					t.Errorf("status %d, want 503", got)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); dialed != 1 || took > 10*time.Second {
			t.Errorf("%d dials in %v, want one of some seconds", dialed, took)
		}
	})
}

func TestReadyWithoutProbe(t *testing.T) {
	if got, body := ready(t.Context(), (&admin.Server{}).Handler(), "?upstream=1"); got != http.StatusOK {
		t.Errorf("got %d %q, want 200", got, body)
	}
}

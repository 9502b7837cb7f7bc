package proxy

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestBackoffs(t *testing.T) {
	for kind, want := range map[Backoff][]time.Duration{
		BackoffFixed:  {500, 500, 500, 500, 500, 500},
		BackoffLinear: {500, 1000, 1500, 2000, 2500, 3000},
		"":            {500, 1000, 2000, 4000, 8000, 8000},
	} {
		r := Retry{Backoff: kind}.withDefaults()
		b := r.newBackOff()
		for i, want := range want {
			want *= time.Millisecond
			jitter := time.Duration(0)
			if r.Backoff == BackoffExponential {
				jitter = want / 2
			}
			if got := b.NextBackOff(); got < want-jitter || got > want+jitter+time.Nanosecond {
				t.Errorf("%s, wait %d: got %v, want %v and %v of jitter", r.Backoff, i, got, want, jitter)
			}
		}
	}
}

func TestLinearBackoffIsBounded(t *testing.T) {
	r := Retry{Backoff: BackoffLinear}.withDefaults()
	b := r.newBackOff()
	for range 40 {
		if got := b.NextBackOff(); got > 8*time.Second {
			t.Fatalf("got a wait of %v, want 8 s at most", got)
		}
	}
}

func TestAllowance(t *testing.T) {
	var a allowance
	a.limit.Store(10)
	if !a.take(10) || a.take(1) {
		t.Error("want all of the memory, and no more")
	}
	a.give(10)
	if used := a.used.Load(); used != 0 {
		t.Errorf("got %d bytes in use", used)
	}
}

// What is kept of an attempt has no hole.
func TestKeptIsABeginning(t *testing.T) {
	var memory allowance
	memory.limit.Store(2 * maxKept)
	k := kept{memory: &memory}
	for _, n := range []int{maxKept - 10, 100, 5} {
		k.add(make([]byte, n))
	}
	if len(k.raw) != maxKept-10 || memory.used.Load() != maxKept-10 {
		t.Errorf("kept %d bytes and took %d of the memory, want the first frame", len(k.raw), memory.used.Load())
	}
	k.release()
	if used := memory.used.Load(); used != 0 {
		t.Errorf("got %d bytes in use", used)
	}
}

func TestWatchdog(t *testing.T) {
	ended := make(chan time.Time, 1)
	body, w := io.Pipe()
	defer w.Close() //nolint:errcheck // a pipe's end
	start := time.Now()
	d := watch(body, 100*time.Millisecond, func() { ended <- time.Now() })
	go func() { w.Write([]byte("x")) }() //nolint:errcheck // a pipe's end
	if _, err := d.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if took := (<-ended).Sub(start); took < 100*time.Millisecond || took > 190*time.Millisecond {
		t.Errorf("ended after %v, want 100 ms of silence", took)
	}
	d = watch(body, 30*time.Millisecond, func() { ended <- time.Now() })
	d.stop()
	d.pulse() // as a timer does that fired just then
	select {
	case <-ended:
		t.Error("it bit though it was stopped")
	case <-time.After(60 * time.Millisecond):
	}
}

func TestLessonsOfLongNames(t *testing.T) {
	var l lessons
	l.remember(strings.Repeat("m", 300))
	l.remember("m")
	if len(l.until) != 1 || !l.known("m") {
		t.Errorf("got %d lessons, want that of the short name", len(l.until))
	}
}

func TestRetryAfterHeader(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"4294967295":                    4294967295 * time.Second,
		"99999999999":                   0,
		"-1":                            0,
		"soon":                          0,
		"Fri, 02 Jan 2026 03:04:15 GMT": 10 * time.Second,
		"Fri, 02 Jan 2026 03:04:00 GMT": 0,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: got %v, want %v", header, got, want)
		}
	}
}

func TestRetryBudget(t *testing.T) {
	var b retryBudget
	now := time.Unix(1_800_000_000, 0)
	spend := func(n int) (granted int) {
		for range n {
			if b.spend(now) {
				granted++
			}
		}
		return granted
	}
	if got := spend(100); got != 10 {
		t.Errorf("without requests: got %d retries, want 10", got)
	}
	for i := range 60 { // a request each second, as long as the window is
		now = now.Add(time.Second)
		b.request(now)
		if i < 49 && spend(1) != 0 {
			t.Errorf("after %d s: got a retry, want the ten to count for a minute", i+1)
		}
	}
	if got := spend(100); got != 12 {
		t.Errorf("got %d retries for 60 requests in a minute, want 12", got)
	}
	now = now.Add(time.Hour)
	if got := spend(100); got != 10 {
		t.Errorf("an hour later: got %d, want 10", got)
	}
}

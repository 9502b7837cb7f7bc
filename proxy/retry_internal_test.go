package proxy

import (
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

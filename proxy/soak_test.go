package proxy_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
	"github.com/tidwall/gjson"
)

var (
	soakTime    = flag.Duration("soak", time.Second, "how long TestSoak runs")
	soakStreams = flag.Int("soak.streams", 500, "how many streams it runs at a time")
)

// soakScenario is the n-th answer of the upstream: one in ten loops, one in ten
// fails in one of the ways there are.
func soakScenario(n int, seed uint64) simulate.Scenario {
	random := rand.New(rand.NewPCG(seed, uint64(n)))
	sc := simulate.Scenario{
		Seed:           seed,
		ReasoningItems: 1 + random.IntN(2),
		Reasoning:      []string{simulate.ReasoningSummary, simulate.ReasoningRaw, simulate.ReasoningNone}[random.IntN(3)],
		LineEnd:        []string{"\n", "\r\n"}[random.IntN(2)],
		Message:        fmt.Sprintf("answer %d", n),
		Delay:          time.Duration(random.IntN(4)) * time.Millisecond,
	}
	if random.IntN(3) == 0 {
		sc.Calls = []simulate.Call{{Name: "f"}}
	}
	switch random.IntN(10) {
	case 0:
		sc.Reasoning = simulate.ReasoningSummary
		sc.Loop = &simulate.Loop{After: random.IntN(5), Every: 2, TerminalOnly: random.IntN(4) == 0, Then: simulate.ThenFinish}
	case 1:
		if sc.Reasoning == simulate.ReasoningNone {
			sc.Reasoning = simulate.ReasoningRaw
		}
		switch random.IntN(6) {
		case 0:
			return status([]int{429, 500, 503, 529}[random.IntN(4)])
		case 1:
			sc.End = simulate.EndRefuse
		case 2:
			sc.Limit, sc.End = 1+random.IntN(12), simulate.EndAbort
		case 3:
			sc.Limit = 1 + random.IntN(12)
		case 4:
			sc.Failure = &simulate.Failure{After: random.IntN(8)}
		case 5:
			sc.NoMessage, sc.Calls = true, nil
		}
	}
	return sc
}

// TestSoak runs many streams at a time, with loops, faults and clients that leave.
// What each client got is compared with what the upstream sent for it.
func TestSoak(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	sim := &simulate.Server{Script: func(n int, _ *simulate.Request) simulate.Scenario { return soakScenario(n, seed) }}
	// Requests are found by the client's name in them, not in the server's list.
	var attempts sync.Map
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { sim.ServeHTTP(w, r) }))
	t.Cleanup(up.Close)
	script := sim.Script
	sim.Script = func(n int, req *simulate.Request) simulate.Scenario {
		name := gjson.GetBytes(req.Body, "metadata.name").Str
		list, _ := attempts.Load(name)
		all, _ := list.([]*simulate.Request)
		attempts.Store(name, append(slices.Clone(all), req))
		return script(n, req)
	}
	r := newRigFor(t, up.URL, func(c *proxy.Config) { retries(c); c.Retry.FirstWait = 10 * time.Millisecond })

	var served, complete, failed, left, wrong atomic.Int64
	ctx, stop := context.WithTimeout(t.Context(), *soakTime)
	defer stop()
	var wg sync.WaitGroup
	for c := range *soakStreams {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(1_000_000+c)))
			for turn := 0; ctx.Err() == nil && wrong.Load() < 10; turn++ {
				name := fmt.Sprintf("client %d, turn %d", c, turn)
				body := fmt.Sprintf(`{"stream":true,"metadata":{"name":%q},"input":[{"role":"user","content":"hi"}]}`, name)
				served.Add(1)
				request, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				resp, err := r.post(request, body, "x-doomproxy-delivery", []string{"live", "live", "hold"}[random.IntN(3)])
				if err != nil {
					cancel()
					wrong.Add(1)
					t.Errorf("%s: %v", name, err)
					return
				}
				var from io.Reader = resp.Body
				leaves := random.IntN(10) == 0
				if leaves {
					from = io.LimitReader(from, int64(random.IntN(8000)))
				}
				raw, err := io.ReadAll(from)
				hung := request.Err() != nil
				cancel()
				resp.Body.Close()
				list, _ := attempts.LoadAndDelete(name)
				all, _ := list.([]*simulate.Request)
				switch {
				case leaves:
					left.Add(1)
					continue
				case err != nil, resp.StatusCode != http.StatusOK, strings.Contains(string(raw), "event: response.failed"):
					failed.Add(1)
				default:
					complete.Add(1)
				}
				if hung {
					wrong.Add(1)
					t.Errorf("%s: no end of:\n%s", name, raw)
				}
				if err := judge(t, head{resp.StatusCode, resp.Header}, string(raw), err, all); err != nil {
					wrong.Add(1)
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	wg.Wait()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	t.Logf("%d requests: %d whole answers, %d unmistakable errors, %d clients left, %d wrong; %v upstream attempts; %d MiB of heap",
		served.Load(), complete.Load(), failed.Load(), left.Load(), wrong.Load(), r.metric("doomproxy_attempts_total"), mem.HeapSys>>20)
	r.settled(int(served.Load()))
	if complete.Load() < 2*failed.Load() {
		t.Errorf("got %d whole answers and %d errors, want most to be whole", complete.Load(), failed.Load())
	}
	for _, phase := range []string{"waiting", "thinking", "held", "visible", "backoff"} {
		r.wantMetric(0, "doomproxy_requests_in_flight", "phase", phase)
	}
}

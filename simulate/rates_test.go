package simulate

import (
	"math"
	"reflect"
	"sync"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	const n = 10_000
	tests := []struct {
		name       string
		rates      Rates
		loop, fail float64 // shares
	}{
		{"none", Rates{}, 0, 0},
		{"some", Rates{Loop: 0.2, Fail: 0.1, Seed: 1}, 0.2, 0.1},
		{"all loop", Rates{Loop: 1}, 1, 0},
		{"failing comes first", Rates{Loop: 1, Fail: 1}, 0, 1},
		{"nonsense", Rates{Loop: math.NaN(), Fail: -1, Delay: -1}, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := tt.rates.Script()
			loops, fails := 0, map[[2]any]int{}
			for ordinal := range n {
				sc := script(ordinal, nil)
				if err := sc.Validate(); err != nil {
					t.Fatal(err)
				}
				failed := sc.Status != 0 || sc.End != ""
				if sc.Loop != nil {
					loops++
				}
				if failed {
					fails[[2]any{sc.Status, sc.End}]++
				}
				if sc.Loop != nil && failed {
					t.Fatalf("ordinal %d both loops and fails", ordinal)
				}
			}
			failed := 0
			for kind, count := range fails {
				failed += count
				if share := float64(count) / n; math.Abs(share-tt.fail/5) > 0.01 {
					t.Errorf("share of %v = %v, want about %v", kind, share, tt.fail/5)
				}
			}
			if tt.fail > 0 && len(fails) != 5 {
				t.Errorf("ways to fail: %v, want 5", fails)
			}
			if got := float64(loops) / n; math.Abs(got-tt.loop) > 0.02 {
				t.Errorf("share of loops = %v, want about %v", got, tt.loop)
			}
			if got := float64(failed) / n; math.Abs(got-tt.fail) > 0.02 {
				t.Errorf("share of failures = %v, want about %v", got, tt.fail)
			}
		})
	}
}

func TestRatesReproducible(t *testing.T) {
	const n = 200
	r := Rates{Loop: 0.5, Fail: 0.2, Delay: time.Second, Seed: 9}
	want := make([]Scenario, n)
	script := r.Script()
	for i := range n {
		want[i] = script(i, nil)
		if want[i].Delay != time.Second {
			t.Fatalf("delay %d = %v, want 1s", i, want[i].Delay)
		}
	}
	// In another order, all at once.
	script = r.Script()
	var wg sync.WaitGroup
	for i := n - 1; i >= 0; i-- {
		wg.Go(func() {
			if got := script(i, nil); !reflect.DeepEqual(got, want[i]) {
				t.Errorf("scenario %d = %+v, want %+v", i, got, want[i])
			}
		})
	}
	wg.Wait()

	r.Seed++
	script, differ := r.Script(), 0
	for i := range n {
		if (script(i, nil).Loop == nil) != (want[i].Loop == nil) {
			differ++
		}
	}
	if differ < n/4 {
		t.Errorf("another seed changes %d of %d, want about half", differ, n)
	}
}

func TestRatesLoopEnds(t *testing.T) {
	sc := Rates{Loop: 1}.Script()(0, nil)
	d := last(t, sc.Stream(0, nil))
	if d.Get("type").Str != "response.incomplete" || d.Get("response.doom_loop_check.triggers.#").Int() != 6 {
		t.Errorf("a loop ends with %s, want response.incomplete with 6 triggers", d.Raw)
	}
}

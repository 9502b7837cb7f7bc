package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
)

const day = 24 * time.Hour

// rig is a store under test and what a test does to it from outside.
type rig struct {
	ledger.Store
	clock *clock
	// reopen closes the store and opens it again. It is nil if nothing outlives it.
	reopen func() ledger.Store
	// age makes all entries older, where they do not go by the clock.
	age func(time.Duration)
	// unbounded says that MaxEntries does not bound the store.
	unbounded bool
}

// advance lets d go by.
func (r *rig) advance(t *testing.T, d time.Duration) {
	t.Helper()
	// What Get renews is behind it in the queue of a File.
	if err := r.Delete(t.Context(), []ledger.Key{item(-1)}); err != nil {
		t.Fatal(err)
	}
	r.clock.advance(d)
	if r.age != nil {
		r.age(d)
	}
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock {
	return &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// options has a clock, and a hook that fails the test.
func options(t testing.TB, c *clock) ledger.Options {
	return ledger.Options{Now: c.Now, OnError: func(err error) { t.Errorf("OnError: got %v, want no call", err) }}
}

func item(n int) ledger.Key { return ledger.ItemID(fmt.Sprintf("rs_%016d", n)) }

func items(from, to int) (keys []ledger.Key) {
	for n := from; n < to; n++ {
		keys = append(keys, item(n))
	}
	return keys
}

// marks returns entries without values.
func marks(keys ...ledger.Key) map[ledger.Key]string {
	entries := make(map[ledger.Key]string)
	for _, k := range keys {
		entries[k] = ""
	}
	return entries
}

func set(t testing.TB, s ledger.Store, entries map[ledger.Key]string) {
	t.Helper()
	if err := s.Set(t.Context(), entries); err != nil {
		t.Fatalf("Set: %v", err)
	}
}

func wantFound(t testing.TB, s ledger.Store, keys []ledger.Key, want map[ledger.Key]string) {
	t.Helper()
	got, err := s.Get(t.Context(), keys)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %d entries %.300v, want %d %.300v", len(got), got, len(want), want)
	}
}

func wantLen(t testing.TB, s ledger.Store, want int) {
	t.Helper()
	if got, err := s.Len(t.Context()); got != want || err != nil {
		t.Errorf("Len: got %d, %v, want %d", got, err, want)
	}
}

func TestMemory(t *testing.T) {
	testStore(t, func(t *testing.T, opt ledger.Options, c *clock) *rig {
		return &rig{Store: ledger.NewMemory(opt), clock: c}
	})
}

func TestFile(t *testing.T) {
	testStore(t, func(t *testing.T, opt ledger.Options, c *clock) *rig {
		path := filepath.Join(t.TempDir(), "ledger.db")
		r := &rig{Store: openFile(t, path, opt), clock: c}
		r.reopen = func() ledger.Store {
			closeStore(t, r.Store)
			return openFile(t, path, opt)
		}
		return r
	})
}

func openFile(t testing.TB, path string, opt ledger.Options) *ledger.File {
	t.Helper()
	f, err := ledger.OpenFile(path, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, f) })
	return f
}

func closeStore(t testing.TB, s ledger.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// testStore holds what all stores have in common.
func testStore(t *testing.T, open func(*testing.T, ledger.Options, *clock) *rig) {
	for _, tc := range []struct {
		name string
		opt  ledger.Options
		run  func(*testing.T, *rig)
	}{
		{"empty", ledger.Options{}, testEmpty},
		{"set and get", ledger.Options{}, testSetAndGet},
		{"zero key", ledger.Options{}, testZeroKey},
		{"same text, another kind", ledger.Options{}, testKinds},
		{"replace", ledger.Options{}, testReplace},
		{"delete", ledger.Options{}, testDelete},
		{"too long", ledger.Options{}, testTooLong},
		{"the caller's map", ledger.Options{}, testCallersMap},
		{"large batches", ledger.Options{}, testLargeBatches},
		{"default TTL", ledger.Options{}, func(t *testing.T, r *rig) { testExpiry(t, r, 30*day) }},
		{"TTL", ledger.Options{TTL: time.Hour}, func(t *testing.T, r *rig) { testExpiry(t, r, time.Hour) }},
		{"renewal", ledger.Options{}, testRenewal},
		{"set renews", ledger.Options{}, testSetRenews},
		{"oldest out", ledger.Options{MaxEntries: 100}, testOldestOut},
		{"batch above the bound", ledger.Options{MaxEntries: 100}, testBatchAboveBound},
		{"ended context", ledger.Options{}, testEndedContext},
		{"concurrent calls", ledger.Options{}, testConcurrentCalls},
		{"close", ledger.Options{}, testClose},
		{"close among calls", ledger.Options{}, testCloseAmongCalls},
		{"open again", ledger.Options{}, testOpenAgain},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			opt := options(t, c)
			opt.TTL, opt.MaxEntries = tc.opt.TTL, tc.opt.MaxEntries
			r := open(t, opt, c)
			t.Cleanup(func() { closeStore(t, r) })
			tc.run(t, r)
		})
	}
}

func testEmpty(t *testing.T, r *rig) {
	wantFound(t, r, items(0, 3), nil)
	wantFound(t, r, nil, nil)
	wantLen(t, r, 0)
	set(t, r, nil)
	if err := r.Delete(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if err := r.Delete(t.Context(), items(0, 3)); err != nil {
		t.Error(err)
	}
	wantLen(t, r, 0)
}

func testSetAndGet(t *testing.T, r *rig) {
	entries := map[ledger.Key]string{
		item(1):                "",
		ledger.Sealed("gAAAA"): "",
		ledger.Text(words):     "",
		ledger.Alias("resp_a"): "resp_b",
		ledger.Alias("resp_x"): "\x00\xff\n " + strings.Repeat("y", ledger.MaxValueBytes-4),
	}
	set(t, r, entries)
	keys := items(0, 3)
	for k := range entries {
		keys = append(keys, k, k)
	}
	wantFound(t, r, keys, entries)
	wantFound(t, r, items(1, 2), marks(item(1)))
	wantLen(t, r, len(entries))
}

func testZeroKey(t *testing.T, r *rig) {
	set(t, r, map[ledger.Key]string{{}: "x"})
	set(t, r, map[ledger.Key]string{{}: "x", item(1): ""})
	wantFound(t, r, []ledger.Key{{}}, nil)
	wantFound(t, r, []ledger.Key{{}, item(1), {}}, marks(item(1)))
	if err := r.Delete(t.Context(), []ledger.Key{{}}); err != nil {
		t.Error(err)
	}
	wantLen(t, r, 1)
}

func testKinds(t *testing.T, r *rig) {
	for i, kind := range []func(string) ledger.Key{ledger.ItemID, ledger.Sealed, ledger.Text, ledger.Alias} {
		text := strings.Repeat("x", 64)
		wantFound(t, r, []ledger.Key{kind(text)}, nil)
		set(t, r, marks(kind(text)))
		wantFound(t, r, []ledger.Key{kind(text)}, marks(kind(text)))
		wantLen(t, r, i+1)
	}
}

func testReplace(t *testing.T, r *rig) {
	k := ledger.Alias("resp_a")
	for _, v := range []string{"resp_b", "resp_longer", "", "resp_c"} {
		set(t, r, map[ledger.Key]string{k: v})
		wantFound(t, r, []ledger.Key{k}, map[ledger.Key]string{k: v})
		wantLen(t, r, 1)
	}
}

func testDelete(t *testing.T, r *rig) {
	set(t, r, marks(items(0, 10)...))
	if err := r.Delete(t.Context(), items(3, 20)); err != nil {
		t.Fatal(err)
	}
	wantFound(t, r, items(0, 20), marks(items(0, 3)...))
	wantLen(t, r, 3)
	set(t, r, marks(item(5)))
	wantFound(t, r, items(3, 20), marks(item(5)))
}

func testTooLong(t *testing.T, r *rig) {
	err := r.Set(t.Context(), map[ledger.Key]string{
		item(1):                "",
		ledger.Alias("resp_a"): strings.Repeat("x", ledger.MaxValueBytes+1),
		ledger.Alias("resp_b"): "resp_c",
	})
	if !errors.Is(err, ledger.ErrTooLong) {
		t.Errorf("got %v, want %v", err, ledger.ErrTooLong)
	}
	wantFound(t, r, []ledger.Key{item(1), ledger.Alias("resp_a"), ledger.Alias("resp_b")},
		map[ledger.Key]string{item(1): "", ledger.Alias("resp_b"): "resp_c"})
}

func testCallersMap(t *testing.T, r *rig) {
	entries := map[ledger.Key]string{item(1): "a"}
	set(t, r, entries)
	entries[item(1)], entries[item(2)] = "b", "c"
	got, err := r.Get(t.Context(), items(0, 3))
	if err != nil {
		t.Fatal(err)
	}
	got[item(0)] = "d"
	wantFound(t, r, items(0, 3), map[ledger.Key]string{item(1): "a"})
}

func testLargeBatches(t *testing.T, r *rig) {
	const n = 3000
	set(t, r, marks(items(0, n)...))
	wantLen(t, r, n)
	wantFound(t, r, items(0, 2*n), marks(items(0, n)...))
	if err := r.Delete(t.Context(), items(1, 2*n)); err != nil {
		t.Fatal(err)
	}
	wantLen(t, r, 1)
}

func testExpiry(t *testing.T, r *rig, ttl time.Duration) {
	set(t, r, marks(item(1), item(2)))
	r.advance(t, ttl-time.Minute)
	set(t, r, marks(item(3)))
	wantLen(t, r, 3)
	r.advance(t, 30*time.Second)
	wantFound(t, r, []ledger.Key{item(1), item(3)}, marks(item(1), item(3)))
	r.advance(t, time.Minute)
	wantFound(t, r, items(0, 4), marks(item(1), item(3)))
	wantLen(t, r, 2)
	r.advance(t, ttl)
	wantFound(t, r, items(0, 4), nil)
	wantLen(t, r, 0)
	set(t, r, marks(item(2))) // nothing is in the way of a key that was there before
	wantFound(t, r, items(0, 4), marks(item(2)))
	wantLen(t, r, 1)
}

func testRenewal(t *testing.T, r *rig) {
	set(t, r, map[ledger.Key]string{item(1): "a", item(2): "b"})
	for range 5 {
		r.advance(t, 20*day)
		wantFound(t, r, items(1, 2), map[ledger.Key]string{item(1): "a"})
	}
	wantFound(t, r, items(0, 3), map[ledger.Key]string{item(1): "a"})
	r.advance(t, 31*day)
	wantFound(t, r, items(0, 3), nil)
}

func testSetRenews(t *testing.T, r *rig) {
	set(t, r, marks(item(1), item(2)))
	r.advance(t, 20*day)
	set(t, r, marks(item(1)))
	r.advance(t, 20*day)
	wantFound(t, r, items(0, 3), marks(item(1)))
	wantLen(t, r, 1)
}

func testOldestOut(t *testing.T, r *rig) {
	if r.unbounded {
		t.Skip("bounded by the TTL, and by the server's own maxmemory")
	}
	for n := range 10 {
		set(t, r, marks(items(10*n, 10*n+10)...))
		r.advance(t, 2*day)
	}
	wantLen(t, r, 100)
	wantFound(t, r, items(3, 6), marks(items(3, 6)...)) // renewed
	set(t, r, marks(item(7)))
	r.advance(t, time.Minute)
	set(t, r, marks(items(100, 106)...))
	wantLen(t, r, 100)
	want := marks(items(3, 6)...)
	maps.Copy(want, marks(item(7)))
	maps.Copy(want, marks(items(10, 106)...))
	got, err := r.Get(t.Context(), items(0, 106))
	if err != nil {
		t.Fatal(err)
	}
	// Which six of the seven oldest had to go is left to the store.
	for n := range 10 {
		if _, kept := want[item(n)]; !kept {
			delete(got, item(n))
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %d younger and renewed entries, want %d", len(got), len(want))
	}
}

func testBatchAboveBound(t *testing.T, r *rig) {
	if r.unbounded {
		t.Skip("bounded by the TTL, and by the server's own maxmemory")
	}
	set(t, r, marks(items(0, 50)...))
	r.advance(t, day)
	set(t, r, marks(items(1000, 1250)...))
	wantLen(t, r, 100)
	wantFound(t, r, items(0, 50), nil)
}

func testEndedContext(t *testing.T, r *rig) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	set(t, r, marks(item(1)))
	if err := r.Set(ended, marks(item(2))); !errors.Is(err, context.Canceled) {
		t.Errorf("Set: got %v, want %v", err, context.Canceled)
	}
	if err := r.Delete(ended, items(0, 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("Delete: got %v, want %v", err, context.Canceled)
	}
	if _, err := r.Get(ended, items(0, 3)); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: got %v, want %v", err, context.Canceled)
	}
	if _, err := r.Len(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("Len: got %v, want %v", err, context.Canceled)
	}
	wantFound(t, r, items(0, 3), marks(item(1)))
}

func testConcurrentCalls(t *testing.T, r *rig) {
	const callers, rounds = 8, 20
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for round := range rounds {
				own := 1000*caller + 10*round
				set(t, r, marks(items(own, own+10)...))
				wantFound(t, r, items(own, own+10), marks(items(own, own+10)...))
				if err := r.Delete(t.Context(), items(own, own+9)); err != nil {
					t.Errorf("Delete: %v", err)
				}
				set(t, r, marks(item(-2))) // the same one by all
				wantFound(t, r, append(items(own, own+10), item(-2)), marks(item(own+9), item(-2)))
				if _, err := r.Len(t.Context()); err != nil {
					t.Errorf("Len: %v", err)
				}
			}
		})
	}
	wg.Wait()
	wantLen(t, r, callers*rounds+1)
}

func testClose(t *testing.T, r *rig) {
	set(t, r, marks(item(1)))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { closeStore(t, r) })
	}
	wg.Wait()
	closeStore(t, r)
	wantClosed(t, r)
}

func wantClosed(t *testing.T, s ledger.Store) {
	t.Helper()
	if err := s.Set(t.Context(), marks(item(1))); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Set: got %v, want %v", err, ledger.ErrClosed)
	}
	if err := s.Delete(t.Context(), items(0, 3)); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Delete: got %v, want %v", err, ledger.ErrClosed)
	}
	if _, err := s.Get(t.Context(), items(0, 3)); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Get: got %v, want %v", err, ledger.ErrClosed)
	}
	if _, err := s.Len(t.Context()); !errors.Is(err, ledger.ErrClosed) {
		t.Errorf("Len: got %v, want %v", err, ledger.ErrClosed)
	}
}

// Close waits for no call and no call for Close: each does what it should, or
// says that the store is closed.
func testCloseAmongCalls(t *testing.T, r *rig) {
	var wg, begun sync.WaitGroup
	for caller := range 8 {
		begun.Add(1)
		wg.Go(func() {
			var err error
			for round := 0; err == nil; round++ {
				if err = r.Set(t.Context(), marks(item(1000*caller+round))); err == nil {
					_, err = r.Get(t.Context(), items(0, 40))
				}
				if round == 0 {
					begun.Done()
				}
			}
			if !errors.Is(err, ledger.ErrClosed) {
				t.Errorf("got %v, want %v", err, ledger.ErrClosed)
			}
		})
	}
	begun.Wait()
	closeStore(t, r)
	wg.Wait()
	wantClosed(t, r)
}

func testOpenAgain(t *testing.T, r *rig) {
	if r.reopen == nil {
		t.Skip("nothing outlives it")
	}
	entries := map[ledger.Key]string{item(1): "", item(2): "", ledger.Alias("resp_a"): "resp_b"}
	set(t, r, entries)
	for range 3 {
		r.Store = r.reopen()
		r.advance(t, 20*day)
		wantLen(t, r, 3)
		// Renews them, which the Close that comes next must not lose.
		wantFound(t, r, []ledger.Key{item(1), item(2), ledger.Alias("resp_a")}, entries)
	}
	r.advance(t, 31*day)
	r.Store = r.reopen()
	wantLen(t, r, 0)
}

package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/doomproxy/doomproxy/ledger"
)

func openRedis(t testing.TB, url string, opt ledger.Options) *ledger.Redis {
	t.Helper()
	r, err := ledger.OpenRedis(url, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, r) })
	return r
}

// age makes all entries of a server older by d, as time would.
func age(t *testing.T, c *redis.Client, d time.Duration) {
	t.Helper()
	ctx := t.Context()
	keys, err := c.Keys(ctx, "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		left, err := c.PTTL(ctx, k).Result()
		if err != nil || left <= 0 {
			t.Fatalf("%s: got %v, %v, want a time to live", k, left, err)
		}
		if err := c.PExpire(ctx, k, left-d).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// patient is for tests that are not about how long a server takes: the machine
// may be busy with others.
const patient = 10 * time.Second

func TestRedis(t *testing.T) {
	s := newServer(t, "--databases", "100")
	testStore(t, func(t *testing.T, opt ledger.Options, c *clock) *rig {
		opt.RedisTimeout = patient
		db := s.database()
		r := &rig{Store: openRedis(t, s.url(db), opt), clock: c, unbounded: true}
		r.age = func(d time.Duration) { age(t, s.client(db), d) }
		r.reopen = func() ledger.Store {
			closeStore(t, r.Store)
			return openRedis(t, s.url(db), opt)
		}
		return r
	})
}

// turns is a Store whose calls go to one of several stores after the other: what
// one has done all must see.
type turns struct {
	stores []ledger.Store
	n      atomic.Int64
}

func (s *turns) next() ledger.Store {
	return s.stores[int(s.n.Add(1))%len(s.stores)]
}

func (s *turns) Get(ctx context.Context, keys []ledger.Key) (map[ledger.Key]string, error) {
	return s.next().Get(ctx, keys)
}

func (s *turns) Set(ctx context.Context, entries map[ledger.Key]string) error {
	return s.next().Set(ctx, entries)
}

func (s *turns) Delete(ctx context.Context, keys []ledger.Key) error {
	return s.next().Delete(ctx, keys)
}

func (s *turns) Len(ctx context.Context) (int, error) { return s.next().Len(ctx) }

func (s *turns) Close() error {
	var err error
	for _, each := range s.stores {
		err = errors.Join(err, each.Close())
	}
	return err
}

func TestRedisSeveralClients(t *testing.T) {
	s := newServer(t, "--databases", "100")
	testStore(t, func(t *testing.T, opt ledger.Options, c *clock) *rig {
		opt.RedisTimeout = patient
		db := s.database()
		var stores []ledger.Store
		for range 3 {
			stores = append(stores, openRedis(t, s.url(db), opt))
		}
		return &rig{
			Store: &turns{stores: stores}, clock: c, unbounded: true,
			age: func(d time.Duration) { age(t, s.client(db), d) },
		}
	})
}

// Without a server it is a Memory, and OnError is told of each call.
func TestRedisNeverThere(t *testing.T) {
	testStore(t, func(t *testing.T, opt ledger.Options, c *clock) *rig {
		opt.OnError = func(err error) { wantAway(t, err) }
		return &rig{Store: openRedis(t, fmt.Sprintf("redis://127.0.0.1:%d", freePort(t)), opt), clock: c}
	})
}

func wantAway(t testing.TB, err error) {
	t.Helper()
	if !errors.Is(err, ledger.ErrAway) {
		t.Errorf("OnError: got %v, want %v", err, ledger.ErrAway)
	}
}

// replica is a proxy's client of a server that comes and goes.
type replica struct {
	*ledger.Redis
	away atomic.Int64 // calls of OnError
}

func newReplica(t *testing.T, url string) *replica {
	t.Helper()
	return newHastyReplica(t, url, patient)
}

func newHastyReplica(t *testing.T, url string, timeout time.Duration) *replica {
	t.Helper()
	r := &replica{}
	r.Redis = openRedis(t, url, ledger.Options{RedisTimeout: timeout, OnError: func(err error) {
		wantAway(t, err)
		r.away.Add(1)
	}})
	return r
}

func (r *replica) wantCounted(t *testing.T, want bool) {
	t.Helper()
	if got := r.away.Swap(0); (got > 0) != want {
		t.Errorf("OnError: got %d calls, want some %v", got, want)
	}
}

// back waits until r asks the server again.
func (r *replica) back(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(5 * time.Millisecond) {
		r.away.Store(0)
		if _, err := r.Len(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r.away.Load() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("got no use of the server in 10s, want it")
		}
	}
}

func TestRedisAwayAndBack(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--appendonly", "yes", "--appendfsync", "always")
	a, b := newReplica(t, s.url(0)), newReplica(t, s.url(0))
	all := append(items(0, 10), ledger.Alias("resp_a"))
	set(t, a, marks(items(0, 4)...))
	wantFound(t, b, all, marks(items(0, 4)...))
	a.wantCounted(t, false)
	b.wantCounted(t, false)

	s.stop()
	wantFound(t, b, all, marks(items(0, 4)...)) // it found them before
	set(t, a, map[ledger.Key]string{item(5): "", ledger.Alias("resp_a"): "resp_b"})
	set(t, b, marks(item(6)))
	if err := a.Delete(t.Context(), items(1, 2)); err != nil {
		t.Fatal(err)
	}
	// Changed twice while it is away: the last counts.
	set(t, a, marks(item(7), item(8)))
	if err := a.Delete(t.Context(), items(8, 9)); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), items(9, 10)); err != nil {
		t.Fatal(err)
	}
	set(t, a, marks(item(9)))
	wantA := map[ledger.Key]string{ledger.Alias("resp_a"): "resp_b"}
	maps.Copy(wantA, marks(item(0), item(2), item(3), item(5), item(7), item(9)))
	wantFound(t, a, all, wantA)
	wantLen(t, a, len(wantA))
	a.wantCounted(t, true)
	b.wantCounted(t, true)

	s.restart()
	a.back(t)
	b.back(t)
	maps.Copy(wantA, marks(item(6)))
	for _, r := range []*replica{a, b} {
		wantFound(t, r, all, wantA)
		wantLen(t, r, len(wantA))
	}
	set(t, b, marks(item(1)))
	wantFound(t, a, items(1, 2), marks(item(1)))
	a.wantCounted(t, false)
	b.wantCounted(t, false)
}

// A server that was restarted between two calls is not away.
func TestRedisRestartUnnoticed(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--appendonly", "yes", "--appendfsync", "always")
	r := newReplica(t, s.url(0))
	for n := range 3 {
		set(t, r, marks(item(n)))
		s.stop()
		s.restart()
	}
	wantFound(t, r, items(0, 5), marks(items(0, 3)...))
	r.wantCounted(t, false)
}

// A server that was not there at the start is used from when it is.
func TestRedisLate(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.stop()
	r := newReplica(t, s.url(0))
	r.wantCounted(t, true)
	const n = 1200 // more than are sent at once
	set(t, r, marks(items(0, n)...))
	r.wantCounted(t, true)
	s.restart()
	r.back(t)
	other := newReplica(t, s.url(0))
	wantFound(t, other, items(0, n), marks(items(0, n)...))
	wantLen(t, r, n)
	other.wantCounted(t, false)
}

// A server that takes connections and says nothing costs the first call the
// time-out, the others nothing.
func TestRedisSilent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	way := newRelay(t, s)
	const timeout = 100 * time.Millisecond
	r := newHastyReplica(t, way.url(), timeout)
	set(t, r, marks(item(1)))
	r.back(t)

	way.does.Store(drop)
	began := time.Now()
	set(t, r, marks(item(2)))
	if took := time.Since(began); took < timeout || took > 9*timeout {
		t.Errorf("the first call: got %v, want about %v", took, timeout)
	}
	r.wantCounted(t, true)
	began = time.Now()
	for range 1000 {
		wantFound(t, r, items(0, 4), marks(item(1), item(2)))
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("1000 more calls: got %v, want no wait", took)
	}
	if got := r.away.Swap(0); got != 1000 {
		t.Errorf("OnError: got %d calls, want 1000", got)
	}

	way.does.Store(forward)
	r.back(t)
	wantFound(t, newReplica(t, s.url(0)), items(0, 4), marks(item(1), item(2)))
}

// A connection that has gone stale, which shows when it is used, is no reason to
// do without the server.
func TestRedisStaleConnection(t *testing.T) {
	t.Parallel()
	way := newRelay(t, newServer(t))
	r := newReplica(t, way.url())
	for n := range 5 {
		set(t, r, marks(item(n)))
		way.does.Store(cutOnce)
		wantFound(t, r, items(0, 10), marks(items(0, n+1)...))
	}
	r.wantCounted(t, false)
}

// relay is a way to a server on which things happen.
type relay struct {
	listener net.Listener
	does     atomic.Int64 // with what a client sends

	wg    sync.WaitGroup
	mu    sync.Mutex // guards conns
	conns []net.Conn
}

const (
	forward = iota
	drop
	cutOnce // end the connection, then forward
)

func newRelay(t *testing.T, s *server) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	way := &relay{listener: l}
	t.Cleanup(way.end)
	way.wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", s.addr())
			if err != nil {
				client.Close()
				continue
			}
			way.mu.Lock()
			way.conns = append(way.conns, client, server)
			way.mu.Unlock()
			way.wg.Go(func() { way.requests(server, client) })
			way.wg.Go(func() {
				defer client.Close()
				io.Copy(client, server) //nolint:errcheck // until one of them ends
			})
		}
	})
	return way
}

func (way *relay) url() string { return "redis://" + way.listener.Addr().String() }

func (way *relay) requests(server, client net.Conn) {
	defer client.Close()
	defer server.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil || way.does.CompareAndSwap(cutOnce, forward) {
			return
		}
		if way.does.Load() == forward {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
	}
}

func (way *relay) end() {
	way.listener.Close()
	way.mu.Lock()
	for _, c := range way.conns {
		c.Close()
	}
	way.mu.Unlock()
	way.wg.Wait()
}

// A server that answers, but does not do what it is told, is as good as none.
func TestRedisRefuses(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	raw := s.client(0)
	r := newReplica(t, s.url(0))
	set(t, r, marks(item(1)))
	if err := raw.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	set(t, r, marks(item(2)))
	wantFound(t, r, items(0, 4), marks(item(1), item(2)))
	r.wantCounted(t, true)
	s.await(raw, "set", "rejected_calls", 2) // once more in the background
	if err := raw.ConfigSet(t.Context(), "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	r.back(t)
	wantFound(t, newReplica(t, s.url(0)), items(0, 4), marks(item(1), item(2)))
}

// What is changed while an earlier change is on its way, which then fails, is
// what counts.
func TestRedisChangedWhileSent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	raw := s.client(0)
	if err := raw.Do(t.Context(), "client", "pause", 60_000, "write").Err(); err != nil {
		t.Fatal(err)
	}
	r := newHastyReplica(t, s.url(0), 200*time.Millisecond)
	if err := raw.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	set(t, r, marks(item(1), item(2)))
	s.await(raw, "ping", "calls", 1) // the two are sent next
	if err := r.Delete(t.Context(), items(1, 2)); err != nil {
		t.Fatal(err)
	}
	s.await(raw, "ping", "calls", 2) // they were not
	if err := raw.Do(t.Context(), "client", "unpause").Err(); err != nil {
		t.Fatal(err)
	}
	r.back(t)
	wantFound(t, r, items(0, 4), marks(item(2)))
	wantFound(t, newReplica(t, s.url(0)), items(0, 4), marks(item(2)))
}

// What is kept for a server that stays away is bounded.
func TestRedisAwayIsBounded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.stop()
	c := newClock()
	r := &replica{}
	r.Redis = openRedis(t, s.url(0), ledger.Options{
		Now: c.Now, MaxEntries: 100, RedisTimeout: patient, OnError: func(error) { r.away.Add(1) },
	})
	for n := 100; n < 400; n += 50 {
		set(t, r, marks(items(n, n+50)...))
		if err := r.Delete(t.Context(), items(n+25, n+50)); err != nil {
			t.Fatal(err)
		}
	}
	s.restart()
	r.back(t)
	wantFound(t, newReplica(t, s.url(0)), items(0, 500), marks(append(items(300, 325), items(350, 375)...)...))
}

// What expires while the server is away does not reach it any more.
func TestRedisAwayExpires(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.stop()
	c := newClock()
	r := &replica{}
	r.Redis = openRedis(t, s.url(0), ledger.Options{
		Now: c.Now, RedisTimeout: patient, OnError: func(error) { r.away.Add(1) },
	})
	set(t, r, marks(item(1)))
	c.advance(20 * day)
	set(t, r, marks(item(2)))
	c.advance(20 * day)
	s.restart()
	r.back(t)
	wantFound(t, r, items(0, 4), marks(item(2)))
	raw := s.client(0)
	keys, err := raw.Keys(t.Context(), "*").Result()
	if len(keys) != 1 || err != nil {
		t.Errorf("got %q, %v, want one key", keys, err)
	}
	age(t, raw, 0) // it has a time to live
}

// What is in Redis is named for what it is, and expires.
func TestRedisLayout(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	raw := s.client(0)
	if err := raw.Set(t.Context(), "another:key", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r := newReplica(t, s.url(0))
	set(t, r, map[ledger.Key]string{ledger.ItemID("rs_0123456789abc"): "", ledger.Alias("resp_a"): "resp_b"})
	const name = "doomproxy:item:IKqvglrrW670qSO0emAfbkE-WswiTsTLxO6h_cOROBE"
	if left, err := raw.TTL(t.Context(), name).Result(); err != nil || left < 29*day || left > 30*day {
		t.Errorf("%s: got %v, %v, want 30 days to live", name, left, err)
	}
	wantLen(t, r, 2)
	if n, err := raw.DBSize(t.Context()).Result(); n != 3 || err != nil {
		t.Errorf("got %d keys, %v, want 3", n, err)
	}
}

func TestRedisURLDatabase(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := newReplica(t, s.url(3))
	set(t, r, marks(item(1)))
	wantFound(t, newReplica(t, s.url(0)), items(1, 2), nil)
	wantFound(t, newReplica(t, "redis://"+s.addr()+"?db=3"), items(1, 2), marks(item(1)))
}

// Whatever is wrong, the password shows in no error.
func TestRedisPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2hunter2"
	for _, url := range []string{
		"", "redis", "http://u:" + secret + "@h", "redis://u:" + secret + "@h:port", "redis://:" + secret + "/x@h:1",
		"redis://u:" + secret + "@h/x", "redis://u:" + secret + "@h/1?" + secret + "=1", "redis://u:" + secret + "%zz@h", secret,
	} {
		_, err := ledger.OpenRedis(url, ledger.Options{})
		if err == nil {
			t.Errorf("%s: got no error, want one", url)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got the password in %q", url, err)
		}
	}
	needServer(t)
	for name, args := range map[string][]string{
		"wrong":             {"--requirepass", "another"},
		"none":              nil,
		"unknown to server": {"--rename-command", "AUTH", "", "--rename-command", "HELLO", ""},
	} {
		var told atomic.Int64
		s := newServer(t, args...)
		r := openRedis(t, "redis://:"+secret+"@"+s.addr(), ledger.Options{RedisTimeout: patient, OnError: func(err error) {
			told.Add(1)
			for err := err; err != nil; err = errors.Unwrap(err) {
				if strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
					t.Errorf("%s: got the password in %q", name, err)
				}
			}
		}})
		set(t, r, marks(item(1)))
		if got := told.Load() > 0; got != (name != "none") {
			t.Errorf("%s: got an error %v, want %v", name, got, name != "none")
		}
	}
	s := newServer(t, "--requirepass", secret)
	r := newReplica(t, "redis://:"+secret+"@"+s.addr())
	set(t, r, marks(item(1)))
	r.wantCounted(t, false)
}

// A call that has begun is not lost with the client that it is for.
func TestRedisSetOutlivesItsContext(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	r := newReplica(t, s.url(0))
	ctx := &endsWhenAsked{Context: t.Context(), left: 1}
	if err := r.Set(ctx, marks(item(1))); err != nil {
		t.Fatal(err)
	}
	wantFound(t, newReplica(t, s.url(0)), items(0, 3), marks(item(1)))
	r.wantCounted(t, false)
}

// endsWhenAsked has ended from the second time on that somebody asks.
type endsWhenAsked struct {
	context.Context
	left int
}

func (c *endsWhenAsked) Err() error {
	if c.left--; c.left >= 0 {
		return nil
	}
	return context.Canceled
}

func (c *endsWhenAsked) Done() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}

package ledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// redisPrefix begins each of the ledger's keys in Redis.
	redisPrefix = "doomproxy:"

	// stepTimeout bounds each step of the work in the background, a TLS handshake
	// over a long way included, unless RedisTimeout is longer.
	stepTimeout = time.Second

	// While Redis is away it is tried after firstRetry, then ever more rarely, up to
	// every lastRetry.
	firstRetry = 50 * time.Millisecond
	lastRetry  = time.Second

	// sendBatch bounds the changes sent at once when Redis is back.
	sendBatch = 500
)

// Redis is a Store that several proxies share.
//
// If Redis is away, or takes longer than RedisTimeout, the proxy's own memory
// answers: it holds what this proxy set, and what it found, since it was started.
// From then on no call waits for Redis, until it has answered in the background
// and has been sent what was changed meanwhile. Such calls succeed; OnError is
// told of each, with an ErrAway.
//
// A call that has begun does not end with its ctx: it takes no longer than
// RedisTimeout, and what it is to change must not be lost with the client that
// left.
//
// MaxEntries bounds that memory. In Redis it is the TTL that bounds the ledger,
// or maxmemory with one of the volatile policies; volatile-ttl removes the
// oldest entries first. What Redis loses, for want of persistence, is lost.
type Redis struct {
	opt    Options
	client *redis.Client
	secret string        // the password, which no error may show
	step   time.Duration // the time-out of work in the background
	known  *Memory

	cancel  context.CancelFunc // ends what goes on in the background
	stopped chan struct{}
	lost    chan struct{} // gets a value when away is set
	close   func() error

	mu     sync.Mutex // guards all below
	away   error      // why Redis is not asked; nil while it is
	unsent table      // changes that Redis may not have; empty while it is asked
	closed bool
}

// OpenRedis returns a Store for the server that url names:
// redis://user:password@host:port/database, rediss:// with TLS, or
// unix://user:password@/path?db=database. It waits a second for the server, or
// RedisTimeout if that is longer, but does not need it. Its only error is about
// the url, and does not repeat it.
func OpenRedis(url string, opt Options) (*Redis, error) {
	client, err := redis.ParseURL(url)
	if err != nil {
		// What ParseURL says may be a part of the password.
		return nil, errors.New("ledger: the URL of Redis is not one: want redis://, rediss:// or unix://")
	}
	opt = opt.withDefaults()
	r := &Redis{
		opt:     opt,
		secret:  client.Password,
		step:    max(stepTimeout, opt.RedisTimeout),
		known:   NewMemory(opt),
		stopped: make(chan struct{}),
		lost:    make(chan struct{}, 1),
		unsent:  newTable(opt.MaxEntries),
	}
	// Every command may be sent twice: once more, for a connection that had gone
	// stale. All else is up to restore.
	client.MaxRetries = 1
	client.DialerRetries = 1
	client.DialTimeout = r.step
	client.ReadTimeout = r.step
	client.ContextTimeoutEnabled = true
	client.PipelinePoolSize = -1
	client.DisableIdentity = true
	client.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	// The library would print each failed connection, for all to whom OnError is
	// told of it. It has no logger of a client's own.
	redis.SetLogger(&logging.VoidLogger{})
	r.client = redis.NewClient(client)
	r.close = sync.OnceValue(r.end)

	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	if err := r.ping(ctx); err != nil {
		r.lose(err, nil) //nolint:errcheck // r is not closed yet
	}
	go r.reconnect(ctx)
	return r, nil
}

// Get is described by [Store].
func (r *Redis) Get(ctx context.Context, keys []Key) (map[Key]string, error) {
	up, err := r.begin(ctx, nil)
	if err != nil {
		return nil, err
	}
	if up {
		found, err := r.fetch(ctx, keys)
		if len(found) > 0 {
			r.known.Set(ctx, found) //nolint:errcheck // for when Redis is away
		}
		if err == nil {
			return found, nil
		}
		if err := r.lose(err, nil); err != nil {
			return nil, err
		}
	}
	return r.known.Get(ctx, keys) // what was found but not renewed too
}

// Set is described by [Store].
func (r *Redis) Set(ctx context.Context, entries map[Key]string) error {
	changes, tooLong := r.opt.settings(entries)
	if err := r.change(ctx, changes); err != nil {
		return err
	}
	return tooLong
}

// Delete is described by [Store].
func (r *Redis) Delete(ctx context.Context, keys []Key) error {
	return r.change(ctx, deletions(keys))
}

// Len walks through all keys in the database: for a number that is shown now and
// then, and about right.
func (r *Redis) Len(ctx context.Context) (int, error) {
	up, err := r.begin(ctx, nil)
	if err != nil {
		return 0, err
	}
	if !up {
		return r.known.Len(ctx)
	}
	n := 0
	for cursor := uint64(0); ; {
		names, next, err := r.client.Scan(ctx, cursor, redisPrefix+"*", 1000).Result()
		if err != nil {
			return 0, fmt.Errorf("ledger: %w", r.redact(err))
		}
		n += len(names)
		if cursor = next; cursor == 0 {
			return n, nil
		}
	}
}

// Close lets go of the connections. What Redis was away for is lost.
func (r *Redis) Close() error { return r.close() }

func (r *Redis) end() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	err := r.client.Close() // first: reconnect may wait for an answer
	<-r.stopped
	r.known.Close() //nolint:errcheck // never fails
	if err != nil {
		return fmt.Errorf("ledger: %w", r.redact(err))
	}
	return nil
}

// change makes changes here and in Redis.
func (r *Redis) change(ctx context.Context, changes []change) error {
	up, err := r.begin(ctx, changes)
	if err != nil {
		return err
	}
	if up && len(changes) > 0 {
		budget, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.RedisTimeout)
		defer cancel()
		if err := r.send(budget, changes); err != nil {
			return r.lose(err, changes)
		}
	}
	return nil
}

// begin begins a call: it makes changes in memory, and reports whether Redis is
// to be asked. If not, it has kept them for later and told OnError.
func (r *Redis) begin(ctx context.Context, changes []change) (up bool, err error) {
	r.mu.Lock()
	away := r.away
	if err := r.known.apply(ctx, changes); err != nil {
		r.mu.Unlock()
		return false, err
	}
	if away != nil {
		r.keep(changes)
	}
	r.mu.Unlock()
	if away != nil {
		r.opt.OnError(fmt.Errorf("%w: %w", ErrAway, away))
	}
	return away == nil, nil
}

// lose notes that Redis did not answer, and keeps the changes it may not have.
func (r *Redis) lose(cause error, changes []change) error {
	cause = r.redact(cause)
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	if r.away == nil {
		r.away = cause
		r.lost <- struct{}{}
	}
	r.keep(changes)
	r.mu.Unlock()
	r.opt.OnError(fmt.Errorf("%w: %w", ErrAway, cause))
	return nil
}

// keep keeps changes for Redis; mu is held.
func (r *Redis) keep(changes []change) {
	for _, c := range changes {
		r.unsent.put(c)
	}
}

// reconnect waits for Redis, whenever it is away, until ctx ends.
func (r *Redis) reconnect(ctx context.Context) {
	defer close(r.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.lost:
		}
		for delay := firstRetry; !r.restore(ctx); delay = min(2*delay, lastRetry) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(delay):
			}
		}
	}
}

// restore sends Redis what it has missed, and reports whether it is asked again.
func (r *Redis) restore(ctx context.Context) bool {
	err := r.ping(ctx)
	for err == nil {
		changes := r.next()
		if changes == nil {
			return true
		}
		budget, cancel := context.WithTimeout(ctx, r.step)
		err = r.send(budget, changes)
		cancel()
		if err != nil {
			r.putBack(changes)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = r.redact(err)
	return false
}

// next takes the oldest changes that are to be sent. If there are none it
// returns nil, and Redis is asked again.
func (r *Redis) next() []change {
	r.mu.Lock()
	defer r.mu.Unlock()
	changes := r.unsent.take(sendBatch)
	if len(changes) == 0 {
		r.away = nil
		return nil
	}
	return changes
}

// putBack puts back what next returned, unless it was changed once more.
func (r *Redis) putBack(changes []change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		if _, ok := r.unsent.entries[c.key]; !ok {
			r.unsent.put(c)
		}
	}
}

func (r *Redis) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.step)
	defer cancel()
	return r.client.Ping(ctx).Err()
}

// fetch returns what Redis has of keys, and renews it.
func (r *Redis) fetch(ctx context.Context, keys []Key) (map[Key]string, error) {
	names := make([]string, 0, len(keys))
	asked := make([]Key, 0, len(keys))
	for _, k := range keys {
		if !k.IsZero() {
			names = append(names, redisPrefix+k.String())
			asked = append(asked, k)
		}
	}
	found := make(map[Key]string)
	if len(names) == 0 {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opt.RedisTimeout)
	defer cancel()
	values, err := r.client.MGet(ctx, names...).Result()
	if err != nil {
		return nil, err
	}
	renewals := r.client.Pipeline()
	for i, v := range values {
		if v, ok := v.(string); ok {
			found[asked[i]] = v
			renewals.PExpire(ctx, names[i], r.opt.TTL)
		}
	}
	if len(found) > 0 {
		_, err = renewals.Exec(ctx)
	}
	return found, err
}

// send makes changes in Redis.
func (r *Redis) send(ctx context.Context, changes []change) error {
	now := r.opt.Now()
	p := r.client.Pipeline()
	for _, c := range changes {
		name := redisPrefix + c.key.String()
		if left := c.expires.Sub(now); c.op == opSet && left > 0 {
			p.Set(ctx, name, c.value, left)
		} else {
			p.Del(ctx, name)
		}
	}
	_, err := p.Exec(ctx)
	return err
}

// redact returns err without the password: some servers repeat, in what they
// say of a command they do not know, what came with it.
func (r *Redis) redact(err error) error {
	if r.secret == "" || !strings.Contains(err.Error(), r.secret) {
		return err
	}
	return errors.New(strings.ReplaceAll(err.Error(), r.secret, "[password]"))
}

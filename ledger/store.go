package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Bounds and defaults.
const (
	DefaultTTL        = 30 * 24 * time.Hour
	DefaultMaxEntries = 200_000

	// DefaultRedisTimeout is the longest that the end of a response may wait for the
	// ledger.
	DefaultRedisTimeout = 100 * time.Millisecond

	// MaxValueBytes bounds a value. Response ids have about 50 bytes.
	MaxValueBytes = 256
)

var (
	// ErrClosed is returned by all methods after Close.
	ErrClosed = errors.New("ledger: closed")
	// ErrTooLong is returned by Set for values above MaxValueBytes.
	ErrTooLong = errors.New("ledger: value too long")
	// ErrLocked is returned by OpenFile for a file that another process, or
	// another File, has open.
	ErrLocked = errors.New("ledger: file in use by another process")
	// ErrCorrupt is returned for a file that is no ledger or a damaged one. It is
	// left as it is: whoever is told decides whether to remove it.
	ErrCorrupt = errors.New("ledger: file is damaged or holds something else")
	// ErrAway is what Redis tells OnError of a call that memory alone answered.
	ErrAway = errors.New("ledger: Redis does not answer, memory only")
)

// Store keeps entries, each for a time. All methods are safe for concurrent
// use. With a ctx that has already ended they return its error and do nothing.
type Store interface {
	// Get returns the entries that are there, and starts their time again.
	Get(ctx context.Context, keys []Key) (map[Key]string, error)

	// Set adds entries or replaces them. When it returns nil they are durable, as
	// far as the store is. Values above MaxValueBytes are left out and named by an
	// ErrTooLong, but all others are kept. After any other error, also that of
	// ctx, they may be there or not.
	Set(ctx context.Context, entries map[Key]string) error

	// Delete removes the entries that are there.
	Delete(ctx context.Context, keys []Key) error

	// Len returns the number of entries that have not expired.
	Len(ctx context.Context) (int, error)

	// Close ends the store once what was handed to it is written. Calling it again
	// changes nothing.
	Close() error
}

// Options are those of all stores. The zero value is ready to use.
type Options struct {
	// TTL is how long an entry is kept after it was set or found; zero means
	// DefaultTTL.
	TTL time.Duration
	// MaxEntries bounds the number of entries: those that would expire first make
	// room for new ones. Zero means DefaultMaxEntries.
	MaxEntries int
	// RedisTimeout is how long a call waits for Redis before memory answers; zero
	// means DefaultRedisTimeout. Only a Redis uses it.
	RedisTimeout time.Duration
	// Now is the clock; nil means time.Now. It may be called concurrently.
	Now func() time.Time
	// OnError is told of what no caller is: a renewal that could not be written, or
	// a call that Redis did not answer. It may be called concurrently, at the
	// caller's rate, and must be quick. Nil means nobody is told.
	OnError func(error)
}

func (o Options) withDefaults() Options {
	if o.TTL <= 0 {
		o.TTL = DefaultTTL
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	if o.RedisTimeout <= 0 {
		o.RedisTimeout = DefaultRedisTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	return o
}

// change is one step of a Set or a Delete.
type change struct {
	key     Key
	op      op
	value   string    // of opSet
	expires time.Time // of opSet and opRenew
}

type op uint8

const (
	opSet op = iota + 1
	opDelete
	opRenew // if the entry is there
)

// settings returns the changes that Set makes, and an error for the entries
// that are left out.
func (o Options) settings(entries map[Key]string) (changes []change, err error) {
	expires := o.Now().Add(o.TTL)
	changes = make([]change, 0, len(entries))
	for k, v := range entries {
		switch {
		case k.IsZero():
		case len(v) > MaxValueBytes:
			err = fmt.Errorf("%w: %d bytes for %v, at most %d", ErrTooLong, len(v), k, MaxValueBytes)
		default:
			changes = append(changes, change{key: k, op: opSet, value: v, expires: expires})
		}
	}
	return changes, err
}

// deletions returns the changes that Delete makes.
func deletions(keys []Key) []change {
	changes := make([]change, 0, len(keys))
	for _, k := range keys {
		if !k.IsZero() {
			changes = append(changes, change{key: k, op: opDelete})
		}
	}
	return changes
}

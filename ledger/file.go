package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

const (
	// lockTimeout is how long OpenFile waits for another process to end, such as
	// the one that a restart replaces.
	lockTimeout = time.Second

	// renewals is how often within its TTL an entry is written again because it
	// was found: daily, with the default TTL, however busy a session is.
	renewals = 30

	// queued and grouped bound the calls that wait for the disk, and those that
	// share one write.
	queued  = 1024
	grouped = 256
)

// File is a Store in a file that one process at a time has open. It survives
// that the process is killed, at any moment.
//
// Calls that change it share their writes to the disk and wait for no longer
// than their ctx; a change that was not waited for is still written. An entry
// that is found within a thirtieth of the TTL after its last renewal is not
// renewed again, so Get never waits for the disk to write.
type File struct {
	opt  Options
	path string
	db   *bolt.DB
	raw  *os.File // db's own

	queue   chan write
	filled  atomic.Bool   // there may be entries
	closing chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has ended
	close   func() error
	broken  error // the writer's: why nothing is written any more
}

// write is what one call wants written.
type write struct {
	changes []change
	done    chan error // nil if nobody waits
}

// The buckets. entries: key → expiry and value; its sequence number is the
// number of entries. expiry: expiry and key → nothing. An expiry is 8 bytes,
// milliseconds since 1970, big-endian, so that the first is the oldest.
var (
	entriesBucket = []byte("ledger-v1-entries")
	expiryBucket  = []byte("ledger-v1-expiry")
)

const (
	keyBytes    = 1 + sha256.Size
	expiryBytes = 8
)

// OpenFile opens the ledger at path, or makes it, with the folders it is to be
// in. It returns ErrLocked, after a second, and ErrCorrupt, both with the path;
// else the error of the file system.
//
// A file of 200,000 entries takes about 50 MB, and never shrinks.
func OpenFile(path string, opt Options) (*File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	f := &File{
		opt:     opt.withDefaults(),
		path:    path,
		queue:   make(chan write, queued),
		closing: make(chan struct{}),
		stopped: make(chan struct{}),
	}
	f.close = sync.OnceValue(f.end)
	if err := f.guard(f.open); err != nil {
		f.abandon()
		return nil, err
	}
	go f.write()
	return f, nil
}

// open opens the database and reads all of it once, so that damage shows now.
func (f *File) open() error {
	db, err := bolt.Open(f.path, 0o600, &bolt.Options{
		Timeout:      lockTimeout,
		FreelistType: bolt.FreelistMapType,
		NoStatistics: true,
		OpenFile: func(name string, flag int, mode os.FileMode) (file *os.File, err error) {
			f.raw, err = os.OpenFile(name, flag, mode) // #nosec G304 -- the operator names the file
			return f.raw, err
		},
	})
	if err != nil {
		return f.openError(err)
	}
	f.db = db
	if err := db.View(f.verify); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, f.path, err)
	}
	if err := f.update(nil); err != nil {
		return err
	}
	return db.View(func(tx *bolt.Tx) error {
		f.filled.Store(tx.Bucket(entriesBucket).Sequence() > 0)
		return nil
	})
}

// abandon closes what open has opened. If bbolt's Open gave up in a panic the
// file stays mapped, and with that locked, until the process ends.
func (f *File) abandon() {
	switch {
	case f.db != nil:
		f.db.Close() //nolint:errcheck // what was wrong before is what counts
	case f.raw != nil:
		f.raw.Close() //nolint:errcheck // as above
	}
}

// openError says what an error of bbolt's Open means.
func (f *File) openError(err error) error {
	if errors.Is(err, bolterrors.ErrTimeout) {
		return fmt.Errorf("%w: %s", ErrLocked, f.path)
	}
	_, ofPath := errors.AsType[*fs.PathError](err)
	_, ofSystem := errors.AsType[syscall.Errno](err)
	if ofPath || ofSystem {
		return fmt.Errorf("ledger: %s: %w", f.path, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrCorrupt, f.path, err)
}

// verify returns what is wrong with the file.
func (f *File) verify(tx *bolt.Tx) error {
	if info, err := f.raw.Stat(); err != nil {
		return err
	} else if info.Size() < tx.Size() {
		return fmt.Errorf("%d of %d bytes", info.Size(), tx.Size())
	}
	entries, expiry := tx.Bucket(entriesBucket), tx.Bucket(expiryBucket)
	if entries == nil && expiry == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return fmt.Errorf("bucket %q", name)
		}
		return nil
	}
	if entries == nil || expiry == nil {
		return errors.New("a bucket is missing")
	}
	left := entries.Sequence()
	err := entries.ForEach(func(k, v []byte) error {
		left--
		if len(k) != keyBytes || len(v) < expiryBytes || len(v) > expiryBytes+MaxValueBytes {
			return errors.New("not an entry")
		}
		return nil
	})
	rows := entries.Sequence()
	err = errors.Join(err, expiry.ForEach(func(k, _ []byte) error {
		rows--
		if len(k) != expiryBytes+keyBytes {
			return errors.New("not an expiry")
		}
		return nil
	}))
	if err == nil && (left != 0 || rows != 0) {
		err = errors.New("entries are missing")
	}
	return err
}

// guard runs fn, which reads a mapped file: that a page is not what it should be
// shows as a panic or, if the file was cut short, as a fault.
func (f *File) guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %s: %v", ErrCorrupt, f.path, p)
		}
	}()
	return fn()
}

// Get is described by [Store].
func (f *File) Get(ctx context.Context, keys []Key) (map[Key]string, error) {
	now := f.opt.Now()
	renewed := now.Add(f.opt.TTL)
	found := make(map[Key]string)
	var due []change
	err := f.view(ctx, func(tx *bolt.Tx) error {
		entries := tx.Bucket(entriesBucket)
		for _, k := range keys {
			expires, value, ok := decode(entries.Get(encodeKey(k)))
			if !ok || !now.Before(expires) {
				continue
			}
			found[k] = value
			if renewed.Sub(expires) >= f.opt.TTL/renewals {
				due = append(due, change{key: k, op: opRenew, expires: renewed})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(due) > 0 {
		select {
		case f.queue <- write{changes: due}:
		default: // the next match tries again
		}
	}
	return found, nil
}

// Empty reports whether there was no entry when the file was opened, and none was
// set since.
func (f *File) Empty() bool { return !f.filled.Load() }

// Set is described by [Store].
func (f *File) Set(ctx context.Context, entries map[Key]string) error {
	f.filled.Store(true)
	changes, tooLong := f.opt.settings(entries)
	if err := f.change(ctx, changes); err != nil {
		return err
	}
	return tooLong
}

// Delete is described by [Store]. It costs no write if nothing is there.
func (f *File) Delete(ctx context.Context, keys []Key) error {
	return f.change(ctx, deletions(keys))
}

// Len is described by [Store].
func (f *File) Len(ctx context.Context) (int, error) {
	now := f.opt.Now()
	n := 0
	err := f.view(ctx, func(tx *bolt.Tx) error {
		n = int(tx.Bucket(entriesBucket).Sequence()) // #nosec G115 -- a count of entries, as verify has checked
		c := tx.Bucket(expiryBucket).Cursor()
		for row, _ := c.First(); row != nil && !now.Before(decodeExpiry(row)); row, _ = c.Next() {
			n--
		}
		return nil
	})
	return n, err
}

// Close writes what is still to be written and lets go of the file.
func (f *File) Close() error { return f.close() }

func (f *File) end() error {
	close(f.closing)
	<-f.stopped
	if err := f.db.Close(); err != nil {
		return fmt.Errorf("ledger: %s: %w", f.path, err)
	}
	return nil
}

// view reads.
func (f *File) view(ctx context.Context, fn func(*bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := f.guard(func() error { return f.db.View(fn) })
	if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}

// change hands changes to the writer and waits until they are written.
func (f *File) change(ctx context.Context, changes []change) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(changes) == 0 {
		return nil
	}
	done := make(chan error, 1)
	select {
	case f.queue <- write{changes, done}:
	case <-f.closing:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-f.stopped:
	}
	select {
	case err := <-done:
		return err
	default:
		return ErrClosed // queued behind the writer's last look
	}
}

// write is the only writer, so that what waits for the disk shares the next
// write to it.
func (f *File) write() {
	defer close(f.stopped)
	for {
		select {
		case w := <-f.queue:
			f.commit(w)
			continue
		case <-f.closing:
		}
		for {
			select {
			case w := <-f.queue:
				f.commit(w)
			default:
				return
			}
		}
	}
}

// commit writes first and what else waits.
func (f *File) commit(first write) {
	group := []write{first}
	changes := first.changes
	for more := true; more && len(group) < grouped; {
		select {
		case w := <-f.queue:
			group = append(group, w)
			changes = append(changes, w.changes...)
		default:
			more = false
		}
	}
	err := f.broken
	if err == nil {
		err = f.guard(func() error { return f.update(changes) })
		if errors.Is(err, ErrCorrupt) {
			f.broken = err
		}
	}
	for _, w := range group {
		if w.done != nil {
			w.done <- err
		} else if err != nil {
			f.opt.OnError(err)
		}
	}
}

// update makes changes, and sweeps. If that comes to nothing, nothing is written.
func (f *File) update(changes []change) error {
	tx, err := f.db.Begin(true)
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", f.path, err)
	}
	// Without bbolt's Update, whose way back from a panic reads the file, and
	// then would never let go of its lock.
	defer tx.Rollback() //nolint:errcheck // fails after a Commit
	changed, err := f.prepare(tx, changes)
	if err == nil && changed {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("ledger: %s: %w", f.path, err)
	}
	return nil
}

func (f *File) prepare(tx *bolt.Tx, changes []change) (changed bool, err error) {
	isNew := tx.Bucket(entriesBucket) == nil
	entries, err := tx.CreateBucketIfNotExists(entriesBucket)
	if err != nil {
		return false, err
	}
	expiry, err := tx.CreateBucketIfNotExists(expiryBucket)
	if err != nil {
		return false, err
	}
	l := leaves{entries: entries, expiry: expiry, count: entries.Sequence()}
	for _, c := range changes {
		if err := l.apply(c); err != nil {
			return false, err
		}
	}
	if err := l.sweep(f.opt.Now(), uint64(f.opt.MaxEntries)); err != nil { // #nosec G115 -- positive, see Options
		return false, err
	}
	return l.changed || isNew, entries.SetSequence(l.count)
}

// leaves are the buckets within a transaction that writes.
type leaves struct {
	entries, expiry *bolt.Bucket
	count           uint64
	changed         bool
}

func (l *leaves) apply(c change) error {
	k := encodeKey(c.key)
	expires, value, ok := decode(l.entries.Get(k))
	if !ok && c.op != opSet || ok && c.op == opRenew && !expires.Before(c.expires) {
		return nil
	}
	if ok {
		if err := l.remove(expires, k); err != nil {
			return err
		}
	}
	if c.op == opDelete {
		return nil
	}
	if c.op == opSet {
		value = c.value
	}
	l.changed = true
	l.count++
	stamp := encodeExpiry(c.expires)
	if err := l.expiry.Put(slices.Concat(stamp, k), nil); err != nil {
		return err
	}
	return l.entries.Put(k, slices.Concat(stamp, []byte(value)))
}

func (l *leaves) remove(expires time.Time, k []byte) error {
	l.changed = true
	l.count--
	if err := l.expiry.Delete(slices.Concat(encodeExpiry(expires), k)); err != nil {
		return err
	}
	return l.entries.Delete(k)
}

// sweep removes what has expired, and the oldest of what is too much.
func (l *leaves) sweep(now time.Time, most uint64) error {
	var rows [][]byte // bbolt's cursors do not survive a deletion
	left := l.count
	c := l.expiry.Cursor()
	for row, _ := c.First(); row != nil; row, _ = c.Next() {
		if now.Before(decodeExpiry(row)) && left <= most {
			break
		}
		rows = append(rows, row)
		left--
	}
	for _, row := range rows {
		if err := l.remove(decodeExpiry(row), row[expiryBytes:]); err != nil {
			return err
		}
	}
	return nil
}

func encodeKey(k Key) []byte {
	return append([]byte{byte(k.kind)}, k.sum[:]...)
}

func encodeExpiry(t time.Time) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(t.UnixMilli()))
}

func decodeExpiry(b []byte) time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b))) // #nosec G115 -- the same bits as in encodeExpiry
}

// decode returns the parts of an entry, if b is one.
func decode(b []byte) (expires time.Time, value string, ok bool) {
	if len(b) < expiryBytes {
		return time.Time{}, "", false
	}
	return decodeExpiry(b), string(b[expiryBytes:]), true
}

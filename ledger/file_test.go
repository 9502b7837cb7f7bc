package ledger_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/doomproxy/doomproxy/ledger"
)

// batchSize is the number of entries in each batch that a child writes.
const batchSize = 10

// child is what another process does with the file named behind the task: hold
// it, or write batches until it is killed. It prints a line for each that is
// written.
func child(task string) {
	task, path, _ := strings.Cut(task, " ")
	f, err := ledger.OpenFile(path, ledger.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	first, writers := 0, 1
	if task != "hold" {
		writers = 4
		if first, err = strconv.Atoi(task); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	fmt.Println("ready")
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := first + w; task != "hold"; n += writers {
				entries := marks(items(batchSize*n, batchSize*n+batchSize)...)
				if err := f.Set(context.Background(), entries); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				fmt.Println(n)
			}
		})
	}
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // until the parent ends
	os.Exit(0)
}

// start runs child in another process and returns its output behind "ready".
func start(t *testing.T, task, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childTask+"="+task+" "+path)
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		cmd.Wait()         //nolint:errcheck // killed
	})
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("child: got %q, want ready", lines.Text())
	}
	return cmd, lines
}

// A process that is killed amid writes loses none that it was told is written,
// and leaves no part of one.
func TestFileSurvivesKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	written := map[int]bool{}
	next := 0
	for round := range 6 {
		cmd, lines := start(t, strconv.Itoa(next), path)
		for range 20 + 7*round {
			if !lines.Scan() {
				t.Fatal("child: got the end of its output, want more")
			}
			wrote(t, written, lines.Text())
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // what it printed before it died
			wrote(t, written, lines.Text())
		}
		for n := range written {
			next = max(next, n+8) // behind those that may be written but were not printed
		}

		f := openFile(t, path, ledger.Options{})
		total := 0
		for n := range next {
			got, err := f.Get(t.Context(), items(batchSize*n, batchSize*n+batchSize))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != batchSize && (written[n] || len(got) != 0) {
				t.Errorf("round %d: got %d entries of batch %d, want %d", round, len(got), n, batchSize)
			}
			total += len(got)
		}
		wantLen(t, f, total)
		closeStore(t, f)
	}
}

func wrote(t *testing.T, written map[int]bool, line string) {
	t.Helper()
	n, err := strconv.Atoi(line)
	if err != nil {
		t.Fatalf("child: got %q, want a number", line)
	}
	written[n] = true
}

func TestOpenFileLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	cmd, _ := start(t, "hold", path)
	began := time.Now()
	_, err := ledger.OpenFile(path, ledger.Options{})
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("got an answer after %v, want it after about 1s", took)
	}
	if !errors.Is(err, ledger.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want %v and %s", err, ledger.ErrLocked, path)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// The lock goes with the process, which takes no longer than OpenFile waits.
	openFile(t, path, ledger.Options{})
}

// A restart that overlaps with the old process waits for it.
func TestOpenFileWaitsForTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	old := openFile(t, path, ledger.Options{})
	set(t, old, marks(item(1)))
	opened := make(chan error, 1)
	go func() {
		f, err := ledger.OpenFile(path, ledger.Options{})
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	closeStore(t, old)
	if err := <-opened; err != nil {
		t.Errorf("got %v, want no error", err)
	}
}

func TestOpenFileModes(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	path := filepath.Join(t.TempDir(), "state", "doomproxy", "ledger.db")
	openFile(t, path, ledger.Options{})
	for name, want := range map[string]fs.FileMode{
		path: 0o600, filepath.Dir(path): 0o700, filepath.Dir(filepath.Dir(path)): 0o700,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %o, want %o", name, got, want)
		}
	}
}

func TestOpenFileImpossible(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, nil)
	for name, path := range map[string]string{"a folder": dir, "in a file": filepath.Join(file, "ledger.db")} {
		_, err := ledger.OpenFile(path, ledger.Options{})
		if _, ok := errors.AsType[*fs.PathError](err); !ok {
			t.Errorf("%s: got %v, want an fs.PathError", name, err)
		}
	}
}

// fill makes a ledger of many pages and returns its path.
func fill(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	f := openFile(t, path, ledger.Options{})
	set(t, f, marks(items(0, 1000)...))
	set(t, f, marks(items(1000, 1500)...)) // so that some pages are free
	closeStore(t, f)
	return path
}

// A file that is no ledger, or a damaged one, is said to be so, and left alone.
func TestOpenFileCorrupt(t *testing.T) {
	t.Parallel()
	page := os.Getpagesize()
	sound := contents(t, fill(t))
	junk := bytes.Repeat([]byte("doom"), 1<<20)
	for name, damage := range map[string]func(t *testing.T, path string, b []byte) []byte{
		"text":          func(*testing.T, string, []byte) []byte { return []byte("resp_1\n") },
		"junk":          func(_ *testing.T, _ string, b []byte) []byte { return junk[:len(b)] },
		"zeros":         func(_ *testing.T, _ string, b []byte) []byte { return make([]byte, len(b)) },
		"cut in a head": func(_ *testing.T, _ string, b []byte) []byte { return b[:page+100] },
		"cut to a head": func(_ *testing.T, _ string, b []byte) []byte { return b[:2*page] },
		"cut in half":   func(_ *testing.T, _ string, b []byte) []byte { return b[:len(b)/2] },
		"cut by a byte": func(t *testing.T, path string, b []byte) []byte {
			var used int64
			edit(t, path, func(tx *bolt.Tx) error { used = tx.Size(); return errors.New("as it was") })
			return b[:used-1]
		},
		"heads only":     func(_ *testing.T, _ string, b []byte) []byte { copy(b[2*page:], junk); return b },
		"heads, zeros":   func(_ *testing.T, _ string, b []byte) []byte { clear(b[2*page:]); return b },
		"pages":          func(_ *testing.T, _ string, b []byte) []byte { return spoilLeaves(b, page) },
		"other database": otherDatabase,
		"bucket missing": func(t *testing.T, path string, _ []byte) []byte {
			return edit(t, path, func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("ledger-v1-expiry")) })
		},
		"entry missing": func(t *testing.T, path string, _ []byte) []byte {
			return edit(t, path, func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte("ledger-v1-entries"))
				k, _ := b.Cursor().First()
				return b.Delete(k)
			})
		},
		"other entry": func(t *testing.T, path string, _ []byte) []byte {
			return edit(t, path, func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte("ledger-v1-entries"))
				k, _ := tx.Bucket([]byte("ledger-v1-expiry")).Cursor().First()
				return errors.Join(b.Delete(k[8:]), b.Put([]byte("k"), []byte("v")))
			})
		},
		"other expiry": func(t *testing.T, path string, _ []byte) []byte {
			return edit(t, path, func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte("ledger-v1-expiry"))
				k, _ := b.Cursor().First()
				return errors.Join(b.Delete(k), b.Put([]byte("k"), nil))
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "ledger.db")
			write(t, path, sound)
			b := damage(t, path, bytes.Clone(sound))
			write(t, path, b)
			_, err := ledger.OpenFile(path, ledger.Options{})
			if !errors.Is(err, ledger.ErrCorrupt) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v and %s", err, ledger.ErrCorrupt, path)
			}
			if left := contents(t, path); !bytes.Equal(left, b) {
				t.Errorf("got another file of %d bytes, want it left alone", len(left))
			}
		})
	}
}

// spoilLeaves gives the entries in all pages that hold some impossible places.
func spoilLeaves(b []byte, page int) []byte {
	const flags, leaf, elements = 8, 2, 16
	for at := 2 * page; at < len(b); at += page {
		if b[at+flags] == leaf {
			copy(b[at+elements:], bytes.Repeat([]byte("\xff"), 16))
		}
	}
	return b
}

func otherDatabase(t *testing.T, path string, _ []byte) []byte {
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	return edit(t, path, func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("accounts"))
		return err
	})
}

// edit changes a file with other means and returns what it holds then.
func edit(t *testing.T, path string, fn func(*bolt.Tx) error) []byte {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(fn); err != nil {
		t.Log(err) // and nothing is changed
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return contents(t, path)
}

// What was not opened does not stay locked.
func TestOpenFileCorruptUnlocks(t *testing.T) {
	t.Parallel()
	path := fill(t)
	otherDatabase(t, path, nil)
	for range 2 {
		if _, err := ledger.OpenFile(path, ledger.Options{}); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("got %v, want %v", err, ledger.ErrCorrupt)
		}
	}
}

// A file that is damaged while it is open costs the ledger, not the process.
func TestFileDamagedWhileOpen(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file can't be cut short")
	}
	path := fill(t)
	sound := contents(t, path)
	f := openFile(t, path, ledger.Options{})
	if err := os.Truncate(path, 2*int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.Get(t.Context(), items(0, 10)); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("Get: got %v, want %v", err, ledger.ErrCorrupt)
		}
		if err := f.Set(t.Context(), marks(item(1))); !errors.Is(err, ledger.ErrCorrupt) {
			t.Errorf("Set: got %v, want %v", err, ledger.ErrCorrupt)
		}
	}
	// What was about to be written is of no use any more, even if the file is.
	write(t, path, sound)
	wantFound(t, f, items(0, 10), marks(items(0, 10)...))
	if err := f.Set(t.Context(), marks(item(1))); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("Set: got %v, want %v", err, ledger.ErrCorrupt)
	}
	closeStore(t, f)
	wantClosed(t, f)
	write(t, path, sound[:len(sound)/2])
	if _, err := ledger.OpenFile(path, ledger.Options{}); !errors.Is(err, ledger.ErrCorrupt) {
		t.Errorf("OpenFile: got %v, want %v", err, ledger.ErrCorrupt)
	}
}

// A lower bound, or a long time off, is made up for when the file is opened.
func TestOpenFileSweeps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	c := newClock()
	opt := options(t, c)
	f := openFile(t, path, opt)
	set(t, f, marks(items(0, 2000)...))
	c.advance(day)
	set(t, f, marks(items(2000, 4000)...))
	closeStore(t, f)

	opt.MaxEntries = 3000
	f = openFile(t, path, opt)
	wantLen(t, f, 3000)
	wantFound(t, f, items(2000, 4000), marks(items(2000, 4000)...))
	closeStore(t, f)

	c.advance(29*day + time.Minute)
	f = openFile(t, path, opt)
	wantLen(t, f, 2000)
	c.advance(2 * day)
	wantLen(t, f, 0) // 2000 that no write has swept yet
	set(t, f, marks(item(1)))
	wantLen(t, f, 1)
	set(t, f, marks(item(2)))
	wantLen(t, f, 2)
	closeStore(t, f)
	edit(t, path, func(tx *bolt.Tx) error {
		for _, name := range []string{"ledger-v1-entries", "ledger-v1-expiry"} {
			if got := tx.Bucket([]byte(name)).Stats().KeyN; got != 2 {
				t.Errorf("%s: got %d rows, want 2", name, got)
			}
		}
		return nil
	})
}

// A busy session costs a write a day, not one for each request.
func TestFileRenewsRarely(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	c := newClock()
	f := openFile(t, path, options(t, c))
	set(t, f, marks(item(1)))
	for range 4 {
		before := contents(t, path)
		c.advance(7 * time.Hour)
		wantFound(t, f, items(1, 2), marks(item(1)))
		if err := f.Delete(t.Context(), items(2, 3)); err != nil { // behind a renewal, and nothing to write
			t.Fatal(err)
		}
		if got, want := !bytes.Equal(contents(t, path), before), c.Now().Sub(newClock().Now()) == 28*time.Hour; got != want {
			t.Errorf("after %v: got a write %v, want %v", c.Now().Sub(newClock().Now()), got, want)
		}
	}
}

// What Get is to renew is written before Close returns.
func TestFileCloseWritesRenewals(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	c := newClock()
	f := openFile(t, path, options(t, c))
	const n = 500
	set(t, f, marks(items(0, n)...))
	c.advance(20 * day)
	for k := range n {
		wantFound(t, f, items(k, k+1), marks(item(k)))
	}
	closeStore(t, f)
	c.advance(20 * day)
	wantLen(t, openFile(t, path, options(t, c)), n)
}

// A renewal that comes behind a Delete does not bring the entry back.
func TestFileRenewalRevivesNothing(t *testing.T) {
	t.Parallel()
	c := newClock()
	f := openFile(t, filepath.Join(t.TempDir(), "ledger.db"), options(t, c))
	const n = 100
	set(t, f, marks(items(0, n)...))
	c.advance(20 * day)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, err := f.Get(t.Context(), items(0, n)); err != nil {
				t.Errorf("Get: %v", err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for k := range n {
		if err := f.Delete(t.Context(), items(k, k+1)); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wg.Wait()
	set(t, f, marks(item(n))) // behind all renewals
	wantLen(t, f, 1)
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The file of a ledger that is full, and goes on, does not grow for ever.
func TestFileIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	c := newClock()
	opt := options(t, c)
	opt.MaxEntries = 500
	f := openFile(t, path, opt)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	n, full := 0, int64(0)
	for round := range 8 {
		for range 5 {
			set(t, f, marks(items(n, n+100)...))
			c.advance(time.Minute)
			n += 100
		}
		if round == 2 {
			full = size()
		}
	}
	if got := size(); got > full+full/2 {
		t.Errorf("got %d bytes after %d entries, want about the %d there were of a full one", got, n, full)
	}
	wantLen(t, f, 500)
}

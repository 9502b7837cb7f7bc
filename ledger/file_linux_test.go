package ledger_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/doomproxy/doomproxy/ledger"
)

func TestOpenFileReadOnlyFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func(mode fs.FileMode) (err error) {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if os.Geteuid() == 0 {
				// Root may write anywhere: this thread, which ends with the
				// goroutine, is nobody's.
				runtime.LockOSThread()
				if err = syscall.Setfsuid(65534); err != nil {
					return
				}
			}
			var f *ledger.File
			if f, err = ledger.OpenFile(filepath.Join(dir, "ledger.db"), ledger.Options{}); err == nil {
				err = f.Close()
			}
		}()
		<-done
		return err
	}
	for parent := dir; parent != os.TempDir() && os.Geteuid() == 0; parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) }) //nolint:errcheck // RemoveAll will tell
	if err := open(0o555); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v, want %v", err, fs.ErrPermission)
	}
	if err := open(0o777); err != nil {
		t.Errorf("a folder that may be written to: got %v, want no error", err)
	}
}

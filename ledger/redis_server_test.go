package ledger_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// server is a redis-server of a test's own.
type server struct {
	t    testing.TB
	args []string
	port int
	cmd  *exec.Cmd
	used atomic.Int64 // databases
}

// newServer starts a server with more arguments than it needs.
func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	needServer(t)
	s := &server{t: t, args: append([]string{"--save", "", "--dir", t.TempDir()}, args...)}
	t.Cleanup(s.stop)
	for range 5 {
		// Somebody else may take the port before the server does.
		s.port = freePort(t)
		if s.start() {
			return s
		}
	}
	t.Fatal("redis-server did not start, five times")
	return nil
}

func needServer(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	}
	const hint = "redis-server is not on the PATH (Debian: apt-get install redis-server)"
	if os.Getenv("DOOMPROXY_TEST_REDIS") == "require" {
		t.Fatal(hint)
	}
	t.Skip(hint)
}

func freePort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// start reports whether the server came up.
func (s *server) start() bool {
	s.t.Helper()
	args := append([]string{"--bind", "127.0.0.1", "--port", fmt.Sprint(s.port)}, s.args...)
	s.cmd = exec.Command("redis-server", args...)
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var said []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			go io.Copy(io.Discard, out) //nolint:errcheck // so that it never waits for a reader
			return true
		}
		said = append(said, lines.Text())
	}
	s.t.Logf("redis-server ended:\n%s", strings.Join(said, "\n"))
	s.stop()
	return false
}

// restart starts it again where it was.
func (s *server) restart() {
	s.t.Helper()
	if !s.start() {
		s.t.Fatal("redis-server did not start again")
	}
}

// stop kills the server.
func (s *server) stop() {
	if s.cmd != nil {
		s.cmd.Process.Kill() //nolint:errcheck // it may have ended
		s.cmd.Wait()         //nolint:errcheck // killed
		s.cmd = nil
	}
}

// database returns the number of one that nobody else has.
func (s *server) database() int { return int(s.used.Add(1)) }

func (s *server) addr() string            { return fmt.Sprintf("127.0.0.1:%d", s.port) }
func (s *server) url(database int) string { return fmt.Sprintf("redis://%s/%d", s.addr(), database) }

// client returns a client that does what no store would.
func (s *server) client(database int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.addr(), DB: database})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// await waits until the server has counted so much of a command.
func (s *server) await(c *redis.Client, command, counter string, least int) {
	s.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(time.Millisecond) {
		stats, err := c.Info(s.t.Context(), "commandstats").Result()
		if err != nil {
			s.t.Fatal(err)
		}
		_, stats, _ = strings.Cut(stats, "cmdstat_"+command+":")
		_, stats, _ = strings.Cut(stats, counter+"=")
		n := 0
		fmt.Sscan(stats, &n) //nolint:errcheck // 0 before it was called
		if n >= least {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: got %s=%d in 10s, want %d", command, counter, n, least)
		}
	}
}

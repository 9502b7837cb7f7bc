package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// bench is a run.
type bench struct {
	options
	self     string // this program
	dir      string // of files that a run needs
	upstream string // its port
	log      io.Writer
	nextID   int64

	mu      sync.Mutex // guards started
	started []*exec.Cmd

	skipped map[string]string // targets that are not measured, and why
	values  map[string]map[string][]float64
}

func newBench(o *options, log io.Writer) (*bench, error) {
	b := &bench{options: *o, log: log, skipped: map[string]string{}, values: map[string]map[string][]float64{}}
	var err error
	if b.self, err = os.Executable(); err != nil {
		return nil, err
	}
	if b.dir, err = os.MkdirTemp("", "doomproxy-bench-"); err != nil {
		return nil, err
	}
	if o.wants(nameOff, targetNames()) || o.wants(nameOn, targetNames()) {
		build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(b.dir, "doomproxy"), "github.com/doomproxy/doomproxy/cmd/doomproxy") // #nosec G204 -- names of ours
		if out, err := build.CombinedOutput(); err != nil {
			b.close()
			return nil, fmt.Errorf("build doomproxy: %w\n%s", err, out)
		}
	}
	if limit := openFiles(); limit < 2*b.streams[len(b.streams)-1]+1000 {
		// What a target needs for both of its sides, and some more.
		b.streams[len(b.streams)-1] = (limit - 1000) / 2
		fmt.Fprintf(log, "only %d files may be open at a time, so that %d streams are the most\n", limit, b.streams[len(b.streams)-1])
	}
	if b.procs == 1 {
		pin(os.Getpid(), 1)
	}
	b.upstream, _, err = b.start(target{"upstream", role("upstream")}, 1)
	if err != nil {
		b.close()
		return nil, fmt.Errorf("the upstream: %w", err)
	}
	return b, nil
}

// command prepares a process of a run. It ends with b.
func (b *bench) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...) // #nosec G204 -- programs of a run
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(b.procs))
	return cmd
}

// start runs a target on a processor and returns its port and process.
func (b *bench) start(t target, cpu int) (port string, cmd *exec.Cmd, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	_, port, _ = net.SplitHostPort(l.Addr().String())
	l.Close()
	if cmd, err = t.command(b, port, b.upstream); err != nil {
		return "", nil, err
	}
	if b.procs == 1 {
		cmd = pinned(cmd, cpu)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	b.mu.Lock()
	b.started = append(b.started, cmd)
	b.mu.Unlock()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
			return port, cmd, nil
		}
		if time.Since(start) > 10*time.Second {
			return "", nil, fmt.Errorf("%s does not listen after 10 s: %s", t.name, said.String())
		}
	}
}

// end ends a process and its children.
func (b *bench) end(cmd *exec.Cmd) {
	cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it may have ended
	timer := time.AfterFunc(5*time.Second, func() { cmd.Process.Kill() })
	defer timer.Stop()
	cmd.Wait() //nolint:errcheck // it was interrupted
}

// close ends all that was started.
func (b *bench) close() {
	b.mu.Lock()
	started := b.started
	b.started = nil
	b.mu.Unlock()
	for _, cmd := range started {
		if cmd.ProcessState == nil {
			b.end(cmd)
		}
	}
	os.RemoveAll(b.dir) //nolint:errcheck // it is a temporary one
}

// probe is a target that runs.
type probe struct {
	*bench
	target
	port string
	pid  int // 0 for none
}

// cpu runs work and returns what the target's CPU did for it.
func (p *probe) cpu(work func() error) (time.Duration, error) {
	if p.pid == 0 {
		return 0, work()
	}
	before, err := cpuTime(p.pid)
	if err != nil {
		return 0, errors.Join(err, work())
	}
	if err := work(); err != nil {
		return 0, err
	}
	after, err := cpuTime(p.pid)
	return after - before, err
}

// add takes down a value of a measurement.
func (p *probe) add(measure string, value float64) {
	if p.values[measure] == nil {
		p.values[measure] = map[string][]float64{}
	}
	p.values[measure][p.name] = append(p.values[measure][p.name], value)
}

// id returns the first of n numbers of streams that no other stream has.
func (p *probe) id(n int) int64 {
	p.nextID += int64(n)
	return p.nextID - int64(n)
}

// measure runs all rounds.
func (b *bench) measure() error {
	for round := range b.rounds {
		for i := range targets {
			// Each round begins with another target, so that none is always first.
			t := targets[(i+round)%len(targets)]
			if !b.wants(t.name, targetNames()) || b.skipped[t.name] != "" {
				continue
			}
			if err := b.visit(t, round); err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, t.name, err)
			}
		}
	}
	return nil
}

// visit measures one target once. A target begins anew each time, so that memory
// of one measurement does not count in the next.
func (b *bench) visit(t target, round int) error {
	fmt.Fprintf(b.log, "round %d of %d: %s\n", round+1, b.rounds, t.name)
	for _, m := range measures {
		if !b.wants(m.name, measureNames()) || m.once && round > 0 || !m.fits(t.name) {
			continue
		}
		p := &probe{bench: b, target: t, port: b.upstream}
		if t.command != nil {
			port, cmd, err := b.start(t, 0)
			if err != nil {
				b.skipped[t.name] = err.Error()
				return nil
			}
			p.port, p.pid = port, cmd.Process.Pid
			err = m.run(p)
			b.end(cmd)
			if err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			continue
		}
		if err := m.run(p); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

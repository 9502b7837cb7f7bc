package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// bench is a run.
type bench struct {
	options
	self     string   // this program
	dir      string   // of files that a run needs
	upstream *process // it serves all targets
	pinned   bool     // the target runs on cpuTarget and all else on cpuRest
	log      *log.Logger
	lastID   int64 // of a stream
	results  *results
}

// The processors that are used if each process has one.
const (
	cpuTarget = 0
	cpuRest   = 1
)

func newBench(ctx context.Context, o *options, log *log.Logger) (b *bench, err error) {
	b = &bench{options: *o, log: log}
	defer func() {
		if err != nil {
			b.close()
		}
	}()
	if b.self, err = os.Executable(); err != nil {
		return b, err
	}
	if b.dir, err = os.MkdirTemp("", "doomproxy-bench-"); err != nil {
		return b, err
	}
	b.limitStreams()
	b.pinned = o.procs == 1 && canPin(ctx, cpuTarget) && canPin(ctx, cpuRest)
	b.results = newResults(o, b.pinned)
	if o.procs == 1 && !b.pinned {
		b.log.Print("processes cannot be pinned to processors here, and disturb each other")
	}
	if b.wants(nameOff, targetNames()) || b.wants(nameOn, targetNames()) {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", b.doomproxy(), "github.com/doomproxy/doomproxy/cmd/doomproxy") // #nosec G204 -- a folder of ours
		if out, err := build.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build doomproxy: %w\n%s", err, out)
		}
	}
	if b.pinned {
		if err := pin(ctx, os.Getpid(), cpuRest); err != nil {
			return b, fmt.Errorf("pin this process to processor %d: %w", cpuRest, err)
		}
		runtime.GOMAXPROCS(1)
	}
	b.upstream, err = b.start(ctx, target{name: "upstream", command: role(roleUpstream)}, cpuRest)
	return b, err
}

// limitStreams lets no more streams be opened than the system allows: a target has
// two connections for each, and the rest is for itself.
func (b *bench) limitStreams() {
	const others = 500
	most := b.mostStreams()
	limit := openFiles(2*most + others)
	if limit >= 2*most+others {
		return
	}
	most = max((limit-others)/2, 10)
	b.log.Printf("%d files may be open at a time, so that %d streams are the most that are opened; ulimit -n raises it", limit, most)
	for i, n := range b.streams {
		b.streams[i] = min(n, most)
	}
}

// start runs a target on a processor.
func (b *bench) start(ctx context.Context, t target, cpu int) (*process, error) {
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	to := ""
	if b.upstream != nil {
		to = b.upstream.port
	}
	c, err := t.command(b, port, to)
	if err != nil {
		return nil, err
	}
	if b.pinned {
		c.path, c.args = pinned(cpu, c.path, c.args)
	}
	ctx, cancel := context.WithCancel(ctx)
	cmd := exec.CommandContext(ctx, c.path, c.args...) // #nosec G204 -- programs of a run
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "DOOMPROXY_") { // settings of whoever runs this
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, "GOMAXPROCS="+strconv.Itoa(b.procs)), c.env...)
	return launch(ctx, cmd, cancel, port)
}

// close ends all that was started.
func (b *bench) close() {
	if b.upstream != nil {
		b.upstream.end()
	}
	if b.dir != "" {
		_ = os.RemoveAll(b.dir) // #nosec G703 -- made above
	}
}

// measure runs all rounds. In each, a measurement is made of one target after the
// other, so that what else the machine does in the meantime is much the same for all.
// What fails with a program that is not ours is noted, and left out.
func (b *bench) measure(ctx context.Context) error {
	for round := range b.rounds {
		b.log.Printf("round %d of %d", round+1, b.rounds)
		for _, m := range b.measures() {
			if !b.wants(m.name, measureNames()) || m.most > 0 && round >= m.most {
				continue
			}
			for i := range targets {
				// Another target is the first each time.
				t := targets[(i+round)%len(targets)]
				if !b.wants(t.name, targetNames()) || b.results.Skipped[t.name] != "" || m.only != "" && !strings.HasPrefix(t.name, m.only) {
					continue
				}
				err := b.visit(ctx, m, t)
				if err != nil && t.foreign && ctx.Err() == nil {
					b.results.Notes[m.name+" of "+t.name+" failed"] = err.Error()
					b.log.Printf("round %d, %s of %s: %v", round+1, m.name, t.name, err)
					continue
				}
				if err != nil {
					return fmt.Errorf("round %d, %s of %s: %w", round+1, m.name, t.name, err)
				}
			}
		}
	}
	return nil
}

// visit measures something of a target once. The target begins anew each time, so
// that memory of one measurement does not count in the next.
func (b *bench) visit(ctx context.Context, m measurement, t target) error {
	p := &probe{bench: b, name: t.name, process: &process{port: b.upstream.port}}
	if t.command != nil {
		var err error
		p.process, err = b.start(ctx, t, cpuTarget)
		if errors.Is(err, errNotInstalled) {
			b.results.Skipped[t.name] = err.Error()
			return nil
		}
		if err != nil {
			return err
		}
		defer p.end()
	}
	return m.run(ctx, p)
}

// probe is a target that runs.
type probe struct {
	*bench
	*process
	name string
}

// add takes down a value of a measurement.
func (p *probe) add(row string, value float64) { p.results.add(row, p.name, value) }

// addCPU takes down CPU time, if there is a process and a system that tells.
func (p *probe) addCPU(row string, used time.Duration, unit time.Duration, n int) {
	if p.pid != 0 && used > 0 && n > 0 {
		p.add(row, float64(used)/float64(unit)/float64(n))
	}
}

// cpu is what the target has used so far; 0 if that cannot be told.
func (p *probe) cpu() (time.Duration, error) {
	if p.pid == 0 {
		return 0, nil
	}
	used, err := cpuTime(p.pid)
	if errors.Is(err, errors.ErrUnsupported) {
		p.results.Notes["CPU"] = err.Error()
		return 0, nil
	}
	return used, err
}

// ids returns the first of n numbers of streams that no other stream has.
func (b *bench) ids(n int) int64 {
	b.lastID += int64(n)
	return b.lastID - int64(n)
}

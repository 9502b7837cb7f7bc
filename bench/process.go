package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"time"
)

// startLimit is how long a program may take until it listens, and stopLimit until it
// has ended after it was asked to.
const (
	startLimit = 10 * time.Second
	stopLimit  = 5 * time.Second
)

// process is a program of a run that listens.
type process struct {
	port   string
	pid    int // 0 for none
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	said   bytes.Buffer  // its standard error; may be read once done is closed
}

// launch runs a program until end is called or ctx ends, and waits until it listens.
func launch(ctx context.Context, cmd *exec.Cmd, cancel context.CancelFunc, port string) (*process, error) {
	p := &process{port: port, cancel: cancel, done: make(chan struct{})}
	cmd.Stderr = &p.said
	cmd.WaitDelay = stopLimit
	cmd.Cancel = func() error {
		if err := cmd.Process.Signal(os.Interrupt); err != nil {
			return cmd.Process.Kill() // a system without signals
		}
		return nil
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	p.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait() // it is interrupted
		close(p.done)
	}()
	var d net.Dialer
	for start := time.Now(); time.Since(start) < startLimit; {
		if c, err := d.DialContext(ctx, "tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return p, nil
		}
		select {
		case <-p.done:
			cancel()
			return nil, fmt.Errorf("%s has ended before it listened: %s", cmd.Path, strings.TrimSpace(p.said.String()))
		case <-time.After(5 * time.Millisecond):
		}
	}
	p.end()
	return nil, fmt.Errorf("%s does not listen after %v: %s", cmd.Path, startLimit, strings.TrimSpace(p.said.String()))
}

// end ends it.
func (p *process) end() {
	p.cancel()
	<-p.done
}

// freePort returns a port that nothing listens at.
func freePort(ctx context.Context) (string, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

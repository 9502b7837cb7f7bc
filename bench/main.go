// Command bench measures doomproxy beside other proxies, in one run: a minimal
// httputil.ReverseProxy, a copy of TCP streams as the floor, and nginx and haproxy
// where they are installed. Each target is a process of its own, so that its
// CPU time and memory are those that the system accounts to it.
//
//	make bench-proxy                 a whole run, some ten minutes
//	go run ./bench -rounds 1 -quick  a look whether it works
//
// docs/performance.md says how to read what it prints.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

// options are what the flags say.
type options struct {
	rounds  int
	each    time.Duration // of one measurement
	procs   int           // processors for a target
	streams []int         // that are open at a time when memory is measured
	only    string        // target, or measurement
	json    string        // file
}

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == roleArg {
		return play(args[1:])
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	b, err := newBench(o, stderr)
	if err != nil {
		return err
	}
	defer b.close()
	go func() {
		<-stop
		b.close()
		os.Exit(1)
	}()
	if err := b.measure(); err != nil {
		return err
	}
	return b.report(stdout)
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{streams: []int{1000, 10000}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 10, "how often each target is measured, in turn")
	flags.DurationVar(&o.each, "each", 1500*time.Millisecond, "how long one measurement takes")
	flags.IntVar(&o.procs, "procs", 1, "processors for a target: 1 pins it to the first one, more pin nothing")
	flags.StringVar(&o.only, "only", "", "targets and measurements that are wanted, with commas between")
	flags.StringVar(&o.json, "json", "", "write the numbers to this file, too")
	quick := flags.Bool("quick", false, "short measurements, and no 10,000 streams")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		o.each, o.streams = 300*time.Millisecond, []int{100}
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.rounds < 1:
		return nil, fmt.Errorf("-rounds: %d is not allowed, want 1 or more", o.rounds)
	case o.each < 100*time.Millisecond:
		return nil, fmt.Errorf("-each: %v is not allowed, want 100ms or more", o.each)
	case o.procs < 1:
		return nil, fmt.Errorf("-procs: %d is not allowed, want 1 or more", o.procs)
	}
	for name := range strings.SplitSeq(o.only, ",") {
		if name != "" && !known(name) {
			return nil, fmt.Errorf("-only: there is no %q, want some of %s", name, strings.Join(append(targetNames(), measureNames()...), ","))
		}
	}
	return o, nil
}

// wants reports whether a name was asked for, among those of its kind.
func (o *options) wants(name string, kind []string) bool {
	asked, any := false, false
	for n := range strings.SplitSeq(o.only, ",") {
		for _, k := range kind {
			if n == k {
				any = true
				asked = asked || n == name
			}
		}
	}
	return asked || !any
}

func known(name string) bool {
	for _, n := range append(targetNames(), measureNames()...) {
		if n == name {
			return true
		}
	}
	return false
}

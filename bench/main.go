// Command bench measures doomproxy beside other proxies, in one run: a minimal
// httputil.ReverseProxy, a copy of TCP streams as the floor, and nginx and haproxy
// where they are installed. Each target is a process of its own, so that its
// CPU time and memory are those that the system accounts to it.
//
//	make bench-proxy         a whole run, some twenty minutes
//	go run ./bench -quick    a look whether it works
//
// docs/performance.md says how to read what it prints.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are what the flags say.
type options struct {
	rounds  int
	each    time.Duration // of one measurement
	procs   int           // processors for a target
	streams []int         // that are open at a time when memory is measured
	only    []string      // names of targets and measurements; none: all
	json    string        // file
	quick   bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.New(os.Stderr, "bench: ", 0).Print(err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 0 && args[0] == roleArg {
		return play(ctx, args[1:])
	}
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	b, err := newBench(ctx, o, log.New(stderr, "", 0))
	if err != nil {
		return err
	}
	defer b.close()
	// What was measured until something failed is worth seeing.
	err = b.measure(ctx)
	_, printErr := io.WriteString(stdout, b.results.report())
	if o.json != "" {
		printErr = errors.Join(printErr, b.results.write(o.json))
	}
	return errors.Join(err, printErr)
}

func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{streams: []int{1000, 10000}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.rounds, "rounds", 10, "how often each target is measured, in turn")
	flags.DurationVar(&o.each, "each", 1500*time.Millisecond, "how long one measurement takes")
	flags.IntVar(&o.procs, "procs", 1, "GOMAXPROCS of a target; 1 pins it to one processor and all else to another, more pin nothing")
	only := flags.String("only", "", "targets and measurements that are wanted, with commas between, of "+strings.Join(append(targetNames(), measureNames()...), ","))
	flags.StringVar(&o.json, "json", "", "write all values to this file, too")
	flags.BoolVar(&o.quick, "quick", false, "a smoke run: one round of short measurements, and no 10,000 streams")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if o.quick {
		given := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["rounds"] {
			o.rounds = 1
		}
		if !given["each"] {
			o.each = 300 * time.Millisecond
		}
		o.streams = o.streams[:1]
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
	known := append(targetNames(), measureNames()...)
	for name := range strings.SplitSeq(*only, ",") {
		if name == "" {
			continue
		}
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("-only: there is no %q, want some of %s", name, strings.Join(known, ","))
		}
		o.only = append(o.only, name)
	}
	return o, nil
}

// wants reports whether a name is asked for. If none of its kind is, all are.
func (o *options) wants(name string, kind []string) bool {
	some := false
	for _, n := range o.only {
		if n == name {
			return true
		}
		some = some || slices.Contains(kind, n)
	}
	return !some
}

// mostStreams is the most that are open at a time.
func (o *options) mostStreams() int { return slices.Max(o.streams) }

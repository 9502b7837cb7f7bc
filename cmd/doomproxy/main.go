// Command doomproxy is a streaming proxy for Responses-style APIs that ends doom
// loops: it cuts an answer that has begun to repeat itself and goes on with a
// fresh one, inside the same response.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailure = 1
	exitUsage   = 2
)

func main() {
	// net/http's client writes there what an upstream sent unasked.
	log.SetOutput(io.Discard)
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals // the one who sends a second does not want to wait
		os.Exit(exitFailure)
	}()
	os.Exit(report(os.Stderr, run(ctx, os.Args[1:], os.Stdout, os.Stderr, os.Environ())))
}

// run executes one command line. It ends early, and in order, with ctx.
func run(ctx context.Context, args []string, stdout, stderr io.Writer, env []string) error {
	a := &app{
		stdout: stdout, stderr: stderr, env: env, plan: defaultPlan(),
		timeout: context.WithTimeout, every: rereadInterval, ticks: newTicks, hangups: newHangups,
		terminal: inTerminal, systemFile: "/etc/doomproxy/config.yaml",
	}
	return a.run(ctx, args)
}

// newHangups returns what tells of the signal SIGHUP, where the system has it.
func newHangups() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	return c, func() { signal.Stop(c) }
}

// inTerminal reports whether the process has to do with a terminal.
func inTerminal() bool {
	return slices.ContainsFunc([]*os.File{os.Stdin, os.Stdout, os.Stderr}, func(f *os.File) bool {
		return isatty.IsTerminal(f.Fd())
	})
}

// report tells of an error and returns the exit code that goes with it.
func report(w io.Writer, err error) int {
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exitError](err)
	if ok && exit.err == nil {
		return exit.code
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "doomproxy: %s\n", strings.TrimSuffix(line, "\n"))
	}
	if ok {
		return exit.code
	}
	if usage, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(w, "'%s --help' tells how it is used.\n", usage.command)
		return exitUsage
	}
	return exitFailure
}

// exitError is an error with an exit code of its own. One without a cause is not
// told: the output has said it all.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return "exit code " + strconv.Itoa(e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is an error in what the user asked for.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// app is what the commands have in common.
type app struct {
	stdin          io.Reader // nil is the process's own
	stdout, stderr io.Writer
	env            []string // as os.Environ gives it
	plan           plan     // what the demo plays

	// timeout is context.WithTimeout, but in tests; it bounds the steps of a
	// shutdown.
	timeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)
	every   time.Duration // between two looks at files that may have changed
	// ticks returns what tells when to look at the configuration's files, hangups
	// what tells of SIGHUP, and terminal whether there is one.
	ticks    func(time.Duration) (<-chan time.Time, func())
	hangups  func() (<-chan os.Signal, func())
	terminal func() bool
	// systemFile is the configuration file that is looked for last.
	systemFile string
}

func (a *app) run(ctx context.Context, args []string) error {
	root := &cobra.Command{
		Use:   "doomproxy",
		Short: "A streaming proxy that ends doom loops",
		Long: `doomproxy stands between an agent and a Responses-style inference API. When the
API reports that an answer has begun to repeat itself, doomproxy cuts it off and
asks again, and the agent's stream goes on with the new answer.`,
		Example: `  doomproxy demo                                  see a loop and its recovery
  doomproxy serve --upstream https://api.x.ai/v1  run it in front of an API
  doomproxy scan captures/*.sse                   where are loops in these streams?
  doomproxy check-config doomproxy.yaml           is this configuration valid?
  source <(doomproxy completion bash)             complete commands and flags with Tab`,
		Version:       newBuild().String(),
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceUsage:  true,
		SilenceErrors: true,

		SuggestionsMinimumDistance: 2,
	}
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{cmd.CommandPath(), err}
	})
	root.AddCommand(
		a.serveCommand(), a.demoCommand(), a.simulateCommand(), a.scanCommand(),
		a.checkConfigCommand(), a.healthcheckCommand(), a.versionCommand(),
	)
	root.SetArgs(args)
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	describeCompletion(root) // which keeps the output that is set
	return root.ExecuteContext(ctx)
}

// describeCompletion adds cobra's command that prints completions for shells.
func describeCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Short = "Print what makes a shell complete commands and flags"
			cmd.Example = `  source <(doomproxy completion bash)     in this shell, and in ~/.bashrc for all
  source <(doomproxy completion zsh)      likewise, with ~/.zshrc
  doomproxy completion fish | source      likewise, with ~/.config/fish/config.fish`
		}
	}
}

// knownCommand refuses what is no command, and names the one that may be meant.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return &usageError{cmd.CommandPath(), err}
}

// noArguments refuses arguments that are no flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return &usageError{cmd.CommandPath(), fmt.Errorf("unexpected argument %q", args[0])}
}

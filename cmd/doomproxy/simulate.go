package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/doomproxy/doomproxy/simulate"
	"github.com/spf13/cobra"
)

func (a *app) simulateCommand() *cobra.Command {
	var address, script string
	var control bool
	var rates simulate.Rates
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Run the simulated upstream alone",
		Long: `Runs a stand-in for a Responses-style API, for trials and for load. It answers
POST …/responses with generated text, whatever it is asked. By chance, or by a
script, an answer falls into a loop and reports it, or fails.

A script is a JSON list of scenarios, one for each request, the last one for all
that follow.

With --control another program can change the script while it runs (PUT
/simulate/script), and see what was sent (GET and DELETE /simulate/requests).`,
		Example: `  doomproxy simulate --loop-rate 0.5 --delay 20ms
  doomproxy serve --upstream http://127.0.0.1:3668/v1

  echo '[{"loop":{"after":3}},{"message":"Here it is."}]' > script.json
  doomproxy simulate --script script.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := simulated(script, rates, cmd.Flags().Changed)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			if !control {
				server.Keep = -1 // nobody asks what it was sent
				return a.simulate(cmd.Context(), address, server)
			}
			return a.simulate(cmd.Context(), address, &simulate.Control{Server: server})
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&address, "listen", "127.0.0.1:3668", "`ADDRESS` to listen on")
	flags.StringVar(&script, "script", "", "`FILE` with a script, in place of the following four")
	flags.Float64Var(&rates.Loop, "loop-rate", 0, "`SHARE` of requests that loop, 0 to 1")
	flags.Float64Var(&rates.Fail, "fail-rate", 0, "`SHARE` of requests that fail, 0 to 1")
	flags.DurationVar(&rates.Delay, "delay", 0, "`TIME` between two events of an answer")
	flags.Uint64Var(&rates.Seed, "seed", 0, "`N` that makes two runs differ")
	flags.BoolVar(&control, "control", false, "answer /simulate/script and /simulate/requests")
	return cmd
}

// simulated returns the upstream that the flags describe. changed reports
// whether a flag was given.
func simulated(script string, rates simulate.Rates, changed func(flag string) bool) (*simulate.Server, error) {
	server := &simulate.Server{Script: rates.Script()}
	switch {
	case !(rates.Loop >= 0 && rates.Loop <= 1):
		return nil, fmt.Errorf("--loop-rate: %v is not allowed, want a share from 0 to 1", rates.Loop)
	case !(rates.Fail >= 0 && rates.Fail <= 1):
		return nil, fmt.Errorf("--fail-rate: %v is not allowed, want a share from 0 to 1", rates.Fail)
	case rates.Delay < 0:
		return nil, fmt.Errorf("--delay: %v is not allowed, want 0 or more", rates.Delay)
	case !changed("script"):
		return server, nil
	}
	for _, flag := range []string{"loop-rate", "fail-rate", "delay", "seed"} {
		if changed(flag) {
			return nil, fmt.Errorf("--script and --%s exclude each other: a script says it all", flag)
		}
	}
	f, err := os.Open(script) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, fmt.Errorf("--script: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	server.Script, err = simulate.LoadScript(f)
	if err != nil {
		return nil, fmt.Errorf("--script: %s: %w", script, err)
	}
	return server, nil
}

// simulate runs the simulated upstream until ctx ends.
func (a *app) simulate(ctx context.Context, address string, server http.Handler) error {
	if address == "" {
		return errors.New("--listen: want HOST:PORT, such as 127.0.0.1:3668")
	}
	l, err := listen(ctx, "--listen", address)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	srv := start(l, newServer(server), slog.New(slog.NewTextHandler(a.stderr, nil)), failed)
	fmt.Fprintln(a.stdout, "doomproxy simulate: a stand-in for a Responses-style API")
	fmt.Fprintf(a.stdout, "  listening  %s\n", l.Addr())
	fmt.Fprintf(a.stdout, "  base URL   %s/v1\n", origin("http", l))
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	grace, cancel := a.timeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	srv.stop(grace)
	return err
}

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/doomproxy/doomproxy/admin"
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/simulate"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

// demoTime is the longest a demo may take.
const demoTime = 9 * time.Second

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show a loop and its recovery, all in this process",
		Long: `Runs a simulated upstream that loops, the proxy in front of it and a client, on
free ports of this machine, and tells what each of them sees. It needs no network
and no key, takes a few seconds, and fails if the recovery does not happen.`,
		Example: `  doomproxy demo
  doomproxy demo --keep   leave it running, to try it with your own agent`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), keep) },
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "go on running, for your own agent, until interrupted")
	return cmd
}

// plan is what a demo plays.
type plan struct {
	question string
	answers  []simulate.Scenario // of the upstream, one a request; later ones are healthy
	want     string              // the text that the client has to get
}

// delay is the time between two events, for people to read along.
const delay = 40 * time.Millisecond

// defaultPlan is an answer that loops and reports it, and then a good one.
func defaultPlan() plan {
	const answer = "The cache is pruned every Sunday at 23:00. Monday's first build starts cold, " +
		"takes 47 minutes, and the limit is 40. Prune after the build instead."
	looping := []string{
		"The builds fail on Mondays only, so the cause is weekly. ",
		"Something must happen between Sunday and Monday. ",
		"The log of Monday, 02:00, begins with an empty cache. ",
		"So the first build downloads everything, and that takes too long? ",
	}
	return plan{
		question: "Why do our nightly builds fail on Mondays?",
		want:     answer,
		answers: []simulate.Scenario{{
			Thinking: looping,
			Delay:    delay,
			Loop: &simulate.Loop{
				After: len(looping),
				// The first two only warn: too loose, and of a kind that never ends an
				// answer. The third does.
				Triggers: []string{"tail_repetition:128@thinking", "exact_repetition:72x2@thinking", "tail_repetition:32@thinking"},
				Deltas:   200,
				Then:     simulate.ThenFinish,
			},
		}, {
			Thinking: []string{
				"The empty cache is the lead: what empties it? ",
				"A job prunes it on Sunday at 23:00, and a cold build takes 47 minutes. ",
			},
			Message: answer,
			Delay:   delay,
		}},
	}
}

// script gives the plan's answers and then, for agents, loops with every other
// request. These loops come to an end even for who does not cut them.
func (p plan) script(ordinal int, _ *simulate.Request) simulate.Scenario {
	switch {
	case ordinal < len(p.answers):
		return p.answers[ordinal]
	case (ordinal-len(p.answers))%2 == 0:
		return simulate.Scenario{Delay: delay, Loop: &simulate.Loop{After: 3, Deltas: 160, Then: simulate.ThenIncomplete}}
	default:
		return simulate.Scenario{Delay: delay}
	}
}

// stage is all that a demo needs, running.
type stage struct {
	upstream, proxy, admin string // URLs
	policy                 recovery.Policy
	seen                   *watcher
}

// demo plays the plan and tells of it.
func (a *app) demo(ctx context.Context, keep bool) error {
	var level slog.LevelVar
	level.Set(slog.LevelWarn)
	log := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: &level}))
	st, stop, err := a.plan.stage(ctx, log)
	if err != nil {
		return err
	}
	defer stop()

	limited, cancel := context.WithTimeout(ctx, demoTime)
	defer cancel()
	acc := newAccount(a.stdout)
	missing := tell(limited, acc, a.plan, st)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	acc.verdict(missing)
	if len(missing) > 0 {
		return fmt.Errorf("the recovery did not happen: %s", missing[0])
	}
	if keep {
		level.Set(slog.LevelInfo)
		acc.invite(st)
		<-ctx.Done()
	}
	return nil
}

// stage starts the simulated upstream, the proxy and its admin listener.
func (p plan) stage(ctx context.Context, log *slog.Logger) (st *stage, stop func(), err error) {
	var listeners [3]net.Listener
	for i := range listeners {
		if listeners[i], err = listen(ctx, "demo", "127.0.0.1:0"); err != nil {
			return nil, nil, err
		}
		defer func() {
			if err != nil {
				listeners[i].Close()
			}
		}()
	}
	u, err := url.Parse(origin("http", listeners[0]) + "/v1")
	if err != nil {
		return nil, nil, err
	}
	st = &stage{
		upstream: u.String(), proxy: origin("http", listeners[1]) + "/v1", admin: origin("http", listeners[2]),
		policy: recovery.Policy{MaxRetries: recovery.DefaultMaxRetries}.Clamped(),
		seen:   newWatcher(p.script),
	}
	reg := prometheus.NewRegistry()
	transport := proxy.NewTransport()
	handler, err := proxy.New(proxy.Config{
		Upstream: u, Policy: st.policy, Transport: transport, Logger: log,
		Metrics: metrics.New(reg, newBuild().metrics()), AdminURL: st.admin,
	})
	if err != nil {
		return nil, nil, err
	}
	var servers []*server
	failed := make(chan error, len(listeners))
	for i, h := range []http.Handler{
		&simulate.Server{Script: st.seen.script, Keep: 100}, handler, (&admin.Server{Gatherer: reg}).Handler(),
	} {
		servers = append(servers, start(listeners[i], newServer(h), log, failed))
	}
	return st, func() {
		transport.CloseIdleConnections()
		for _, s := range servers {
			s.stopWithin(0)
		}
		st.seen.wait()
	}, nil
}

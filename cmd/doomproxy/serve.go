package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/doomproxy/doomproxy/admin"
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	var s settings
	table := s.table()
	cmd := &cobra.Command{
		Use:   "serve --upstream [NAME=]URL",
		Short: "Run the proxy in front of an API",
		Long: `Runs the proxy until it is interrupted. Give your agent the base URL that it
prints, in place of the API's; the agent's own key and model go through.

After the first interrupt running streams may end by themselves, for the time of
shutdown.grace (30 s). The second one ends all at once.` + environmentHelp(table),
		Example: `  doomproxy serve --upstream https://api.x.ai/v1
  doomproxy serve --upstream https://api.openai.com/v1 --mode observe --log-format json
  DOOMPROXY_UPSTREAM=https://openrouter.ai/api/v1 doomproxy serve --listen 127.0.0.1:8080`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := s.read(table, a.env)
			if err == nil {
				err = s.complete()
			}
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return a.serve(cmd.Context(), &s)
		},
	}
	register(cmd.Flags(), table)
	return cmd
}

// environmentHelp lists the environment variables.
func environmentHelp(table []*setting) string {
	var b strings.Builder
	b.WriteString("\n\nEach setting can be given in the environment. Flags win; NAME_FILE names a file\nthat holds the value.\n\n")
	for _, st := range table {
		what := "--" + st.flag
		if st.flag == "" {
			what = st.usage
		}
		fmt.Fprintf(&b, "  %-46s %s\n", st.variable(), what)
		if st.short != "" {
			fmt.Fprintf(&b, "  %-46s the same, for short\n", st.short)
		}
	}
	fmt.Fprintf(&b, "  %-46s turns the recovery off\n", switchVariable+"=false")
	return b.String()
}

// newLogger returns the logger that the settings ask for.
func newLogger(w io.Writer, s *settings) *slog.Logger {
	options := &slog.HandlerOptions{Level: s.logLevel}
	if s.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// serve runs the proxy until ctx ends.
func (a *app) serve(ctx context.Context, s *settings) error {
	log := newLogger(a.stderr, s)
	for _, n := range s.notes {
		n(log)
	}
	authorize, err := a.authorizer(s.tokens, log)
	if err != nil {
		return err
	}
	secure, err := a.secure(s.tls, log)
	if err != nil {
		return err
	}
	base := proxy.NewTransport()
	base.ResponseHeaderTimeout = s.responseHeaderTimeout
	transport, err := proxy.NewTLSTransport(base, s.upstreamTLS)
	if err != nil {
		return fmt.Errorf("upstreams.default: %w", err)
	}
	transport.OnError = func(err error) { log.Warn(badChange, "setting", "upstreams.default", "error", err) }
	agents, err := listen(ctx, "--listen", s.listen)
	if err != nil {
		return err
	}
	defer agents.Close()
	if self(s.proxy.Upstream, agents) {
		return fmt.Errorf("--upstream: %s is this proxy itself, want the API", upstreamText(s.proxy.Upstream))
	}
	var operators net.Listener
	if s.adminListen != "" {
		if operators, err = listen(ctx, "--admin-listen", s.adminListen); err != nil {
			return err
		}
		defer operators.Close()
	}
	if authorize == nil && !loopback(agents) {
		log.Warn("other machines may reach the proxy, and without auth.tokens whoever does can use it", "listen", agents.Addr().String())
	}

	reg := prometheus.NewRegistry()
	defer transport.CloseIdleConnections()
	cfg := s.proxy
	cfg.Transport, cfg.Logger, cfg.Metrics = transport, log, metrics.New(reg, newBuild().metrics())
	cfg.Authorize = authorize
	if operators != nil {
		cfg.AdminURL = origin("http", operators)
	}
	var p atomic.Pointer[proxy.Proxy]
	store, kind, err := a.openLedger(s, agents, log, func(err error) {
		if p := p.Load(); p != nil {
			p.LedgerFailed(err)
		}
	})
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // what could not be written was told before
	cfg.Ledger, cfg.LedgerName = store, kind
	handler, err := proxy.New(cfg)
	if err != nil {
		return err
	}
	p.Store(handler)
	counting := make(chan struct{})
	still, cancel := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	defer func() { cancel(); <-counting }()
	go func() {
		defer close(counting)
		countLedger(still, store, cfg.Metrics)
	}()

	var ready atomic.Bool
	failed := make(chan error, 2)
	if operators != nil {
		adm := &admin.Server{Gatherer: reg, Ready: ready.Load}
		// Stopped last: it tells that the proxy is not ready while that drains.
		defer start(operators, newServer(adm.Handler()), log, failed).stopWithin(time.Second)
	}
	front := newServer(handler)
	front.TLSConfig, front.MaxHeaderBytes, front.ReadHeaderTimeout = secure, s.header, s.headerTimeout
	srv := start(agents, front, log, failed)
	ready.Store(true)
	a.announce(s, agents, operators, kind)

	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	ready.Store(false)
	return errors.Join(err, a.drain(ctx, srv, s.shutdown, failed, log))
}

// announce prints where everything is.
func (a *app) announce(s *settings, agents, operators net.Listener, ledgerKind string) {
	adminText := "off"
	if operators != nil {
		adminText = origin("http", operators) + "  (/metrics, /healthz, /readyz)"
	}
	mode := string(s.proxy.Mode)
	switch s.proxy.Mode {
	case proxy.ModeObserve:
		mode += ": loops are counted, not cut"
	case proxy.ModeOff:
		mode += ": nothing is looked into"
	case proxy.ModeEnforce:
		mode += fmt.Sprintf(": a loop is cut, %d times a request at most", s.proxy.Policy.MaxRetries)
	}
	scheme, hint := "http", "give this one to your agent"
	if s.tls.cert != "" {
		scheme = "https"
	}
	if len(s.tokens) > 0 {
		hint += ", and a token to send in x-doomproxy-token"
	}
	b := newBuild()
	fmt.Fprintf(a.stdout, "doomproxy %s (%s)\n", b.version, b.commit)
	fmt.Fprintf(a.stdout, "  listening  %s\n", agents.Addr())
	fmt.Fprintf(a.stdout, "  base URL   %s/v1  (%s)\n", origin(scheme, agents), hint)
	fmt.Fprintf(a.stdout, "  admin      %s\n", adminText)
	fmt.Fprintf(a.stdout, "  upstream   %s\n", upstreamText(s.proxy.Upstream))
	fmt.Fprintf(a.stdout, "  mode       %s\n", mode)
	fmt.Fprintf(a.stdout, "  ledger     %s\n", ledgerKind)
}

// upstreamText is an upstream's URL without its query, which may be secret.
func upstreamText(u *url.URL) string {
	shown := *u
	shown.RawQuery, shown.ForceQuery = "", false
	return shown.String()
}

// self reports whether requests to u would come back to the listener l.
func self(u *url.URL, l net.Listener) bool {
	tcp, ok := l.Addr().(*net.TCPAddr)
	if !ok || u.Port() != strconv.Itoa(tcp.Port) || !tcp.IP.IsLoopback() && !tcp.IP.IsUnspecified() {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return strings.EqualFold(u.Hostname(), "localhost") || ip.IsLoopback() && (tcp.IP.IsUnspecified() || ip.Equal(tcp.IP))
}

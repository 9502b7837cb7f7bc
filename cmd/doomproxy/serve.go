package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/config"
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
)

func (a *app) serveCommand() *cobra.Command {
	var o *options
	cmd := &cobra.Command{
		Use:   "serve --upstream [NAME=]URL",
		Short: "Run the proxy in front of an API",
		Long: `Runs the proxy until it is interrupted. Give your agent the base URL that it
prints, in place of the API's; the agent's own key and model go through.

Several upstreams can be given. A request for /NAME/v1/… goes to the one of that
name, any other to the first.

After the first interrupt running streams may end by themselves, for the time of
shutdown.grace (30 s). The second one ends all at once. A changed configuration
file is taken in while it runs, and so it is at SIGHUP.
` + settingsHelp(),
		Example: `  doomproxy serve --upstream https://api.x.ai/v1
  doomproxy serve --upstream https://api.openai.com/v1 --mode observe --log-format json
  doomproxy serve --upstream https://api.x.ai/v1 --upstream openai=https://api.openai.com/v1
  DOOMPROXY_UPSTREAM=https://openrouter.ai/api/v1 doomproxy serve --listen 127.0.0.1:8080
  doomproxy serve --config doomproxy.yaml`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			src, err := a.sources(o)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			read := states(src.Files()) // before they are read, so that no change is missed
			l, err := checked(src)
			if err != nil {
				return &usageError{cmd.CommandPath(), err}
			}
			return a.serve(cmd.Context(), src, read, l)
		},
	}
	o = register(cmd)
	return cmd
}

// settingsHelp lists the settings and their environment variables.
func settingsHelp() string {
	var b strings.Builder
	b.WriteString("\nEach setting is a key of the configuration file and a variable of the\nenvironment. Flags win over variables, and these over the file; VARIABLE_FILE\nnames a file that holds the value. The file is the one that --config or\nDOOMPROXY_CONFIG names, else doomproxy/config.yaml in your configuration folder,\nelse /etc/doomproxy/config.yaml.\n\n")
	for _, f := range config.Fields() {
		what := f.Doc
		switch {
		case f.Flag != "":
			what = "--" + f.Flag
		case len(f.Words) > 0:
			what += allowed(f)
		case f.Default != "" && len(f.Default) < 12:
			what += " (" + f.Default + ")"
		}
		fmt.Fprintf(&b, "  %-46s %s\n", f.Variables[0], what)
		for _, v := range f.Variables[1:] {
			fmt.Fprintf(&b, "  %-46s the same, of the default one, for short\n", v)
		}
	}
	fmt.Fprintf(&b, "  %-46s turns the recovery off\n", "GROK_DOOM_LOOP_RECOVERY=false")
	return b.String()
}

// newLogger returns a logger of records with a format, and of some level at least.
func newLogger(w io.Writer, level slog.Leveler, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// logLevel is the level of a word that the configuration allows.
func logLevel(word string) (level slog.Level) {
	level.UnmarshalText([]byte(word)) //nolint:errcheck // it is one
	return level
}

// serve runs the proxy until ctx ends, with what was read from src when its files
// were as read says.
func (a *app) serve(ctx context.Context, src *config.Sources, read []os.FileInfo, l *config.Loaded) error {
	defer runtime.KeepAlive(a.tuneMemory())
	ctx, end := context.WithCancel(ctx)
	defer end()
	s := &service{app: a, sources: src, state: new(proxy.State), end: end, interactive: a.terminal()}
	s.level.Set(logLevel(l.Log.Level))
	s.log = newLogger(a.stderr, &s.level, l.Log.Format)
	for _, n := range l.Notes {
		n(s.log)
	}
	opened, err := a.open(&l.Config, s.log)
	if err != nil {
		return err
	}
	secure, err := a.secure(l.TLS, s.log)
	if err != nil {
		return err
	}
	if s.agents, err = listen(ctx, l.Source("listen", "--listen"), l.Listen); err != nil {
		return err
	}
	defer s.agents.Close()
	if l.AdminListen != "" {
		if s.operators, err = listen(ctx, l.Source("admin_listen", "--admin-listen"), l.AdminListen); err != nil {
			return err
		}
		defer s.operators.Close()
	}
	var stopTracing func()
	if s.tracer, stopTracing, err = a.startTracing(ctx, s.log); err != nil {
		return err
	}
	defer stopTracing()

	s.registry = prometheus.NewRegistry()
	s.metrics = metrics.New(s.registry, newBuild().metrics())
	store, kind, err := a.openLedger(&l.Config, s.agents, s.log, func(err error) {
		if g := s.current.Load(); g != nil {
			g.first.LedgerFailed(err)
		}
	})
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // what could not be written was told before
	s.ledger, s.ledgerKind = store, kind
	g, err := s.generation(l, opened)
	if err != nil {
		return err
	}
	s.use(g)
	defer func() { s.current.Load().close() }()

	still, cancel := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	counting, watching := make(chan struct{}), make(chan struct{})
	defer func() { cancel(); <-counting }()
	go func() {
		defer close(counting)
		countLedger(still, store, s.metrics)
	}()
	go func() {
		defer close(watching)
		s.watch(ctx, read)
	}()

	failed := make(chan error, 2)
	if s.operators != nil {
		// Stopped last: it tells that the proxy is not ready while that drains.
		defer start(s.operators, newServer(http.HandlerFunc(s.serveAdmin)), s.log, failed).stopWithin(time.Second)
	}
	front := newServer(http.HandlerFunc(s.serveAgent))
	front.TLSConfig, front.MaxHeaderBytes, front.ReadHeaderTimeout = secure, int(l.Limits.Header), l.Limits.HeaderTimeout
	srv := start(s.agents, front, s.log, failed)
	s.ready.Store(true)
	s.announce(l)

	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.ready.Store(false)
	end() // nothing changes from here on
	<-watching
	return errors.Join(err, a.drain(ctx, srv, s.current.Load().Shutdown, failed, s.log))
}

// announce prints where everything is.
func (s *service) announce(l *config.Loaded) {
	adminText := "off"
	if s.operators != nil {
		adminText = origin("http", s.operators) + "  (live page, /metrics, /healthz, /readyz)"
	}
	mode := l.Recovery.Mode
	switch proxy.Mode(mode) {
	case proxy.ModeObserve:
		mode += ": loops are counted, not cut"
	case proxy.ModeOff:
		mode += ": nothing is looked into"
	case proxy.ModeEnforce:
		mode += fmt.Sprintf(": a loop is cut, %d times a request at most", l.Recovery.MaxRetries)
	}
	scheme, hint := "http", "give this one to your agent"
	if l.TLS.Cert != "" {
		scheme = "https"
	}
	if len(l.Auth.Tokens) > 0 {
		hint += ", and a token to send in x-doomproxy-token"
	}
	b, w := newBuild(), s.app.stdout
	base := origin(scheme, s.agents)
	fmt.Fprintf(w, "doomproxy %s (%s)\n", b.version, b.commit)
	fmt.Fprintf(w, "  listening  %s\n", s.agents.Addr())
	fmt.Fprintf(w, "  base URL   %s/v1  (%s)\n", base, hint)
	fmt.Fprintf(w, "  admin      %s\n", adminText)
	for i, u := range s.current.Load().upstreams {
		what := "upstream   "
		if i > 0 {
			what = fmt.Sprintf("           %s/%s/v1 is for ", base, u.name)
		}
		fmt.Fprintf(w, "  %s%s\n", what, upstreamText(u.url))
	}
	if l.File != "" {
		fmt.Fprintf(w, "  settings   %s\n", l.File)
	}
	fmt.Fprintf(w, "  mode       %s\n", mode)
	fmt.Fprintf(w, "  ledger     %s\n", s.ledgerKind)
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

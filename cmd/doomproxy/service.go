package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/doomproxy/doomproxy/admin"
	"github.com/doomproxy/doomproxy/config"
	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
)

// service is the proxy of a process. What is in it outlives a change of the
// configuration; what is made from that is a generation.
type service struct {
	app         *app
	sources     *config.Sources
	log         *slog.Logger
	level       slog.LevelVar // of log
	state       *proxy.State
	registry    *prometheus.Registry
	metrics     *metrics.Metrics
	tracer      trace.Tracer
	ledger      ledger.Store
	ledgerKind  string
	agents      net.Listener
	operators   net.Listener // nil without an admin listener
	ready       atomic.Bool
	end         func() // ends the process, in order
	interactive bool   // it was started in a terminal

	current atomic.Pointer[generation]
}

// generation is what is made from one configuration. A request keeps the one that
// it began with.
type generation struct {
	*config.Loaded
	opened    *opened
	upstreams []upstream // the default one first
	first     *proxy.Proxy
	agent     http.Handler
	admin     http.Handler
}

type upstream struct {
	name string
	url  *url.URL
}

// opened is what the files hold that a configuration names.
type opened struct {
	authorize  func(token string) bool // nil if agents need no token
	transports map[string]*proxy.TLSTransport
}

// open reads the files that a configuration names.
func (a *app) open(c *config.Config, log *slog.Logger) (*opened, error) {
	authorize, err := a.authorizer(c.Auth.Tokens, log)
	if err != nil {
		return nil, err
	}
	o := &opened{authorize: authorize, transports: map[string]*proxy.TLSTransport{}}
	for name, u := range c.Upstreams {
		base := proxy.NewTransport()
		base.ResponseHeaderTimeout = c.Limits.ResponseHeaderTimeout
		t, err := proxy.NewTLSTransport(base, proxy.TLSFiles{CA: u.CAFile, ClientCert: u.ClientCert, ClientKey: u.ClientKey})
		if err != nil {
			return nil, fmt.Errorf("upstreams.%s: %w", name, err)
		}
		t.OnError = func(err error) { log.Warn(badChange, "setting", "upstreams."+name, "error", err) }
		o.transports[name] = t
	}
	return o, writable(c.Capture.Dir)
}

// writable tries to write to the directory of captures, if there is one.
func writable(dir string) error {
	if dir == "" {
		return nil
	}
	const want = "want a directory that is there and can be written to"
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("capture.dir: %w; %s", err, want)
	case !info.IsDir():
		return fmt.Errorf("capture.dir: %s is no directory; %s", dir, want)
	}
	f, err := os.CreateTemp(dir, ".doomproxy-")
	if err != nil {
		return fmt.Errorf("capture.dir: %w; %s", err, want)
	}
	f.Close() //nolint:errcheck // nothing was written
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("capture.dir: %w; %s", err, want)
	}
	return nil
}

// generation makes what serves with a configuration.
func (s *service) generation(l *config.Loaded, o *opened) (*generation, error) {
	list, err := proxyConfigs(&l.Config)
	if err != nil {
		return nil, err
	}
	for _, cfg := range list {
		if self(cfg.Upstream, s.agents) {
			return nil, fmt.Errorf("upstreams.%s.url: %s is this proxy itself, want the API", cfg.UpstreamName, upstreamText(cfg.Upstream))
		}
	}
	g := &generation{Loaded: l, opened: o}
	var proxies []*proxy.Proxy
	for _, cfg := range list {
		cfg.Authorize, cfg.Transport = o.authorize, o.transports[cfg.UpstreamName]
		cfg.State, cfg.Metrics, cfg.Logger, cfg.Tracer = s.state, s.metrics, s.log, s.tracer
		cfg.Ledger, cfg.LedgerName = s.ledger, s.ledgerKind
		if s.operators != nil {
			cfg.AdminURL = origin("http", s.operators)
		}
		p, err := proxy.New(cfg)
		if err != nil {
			return nil, fmt.Errorf("upstreams.%s: %w", cfg.UpstreamName, err)
		}
		proxies = append(proxies, p)
		g.upstreams = append(g.upstreams, upstream{cfg.UpstreamName, cfg.Upstream})
	}
	g.first = proxies[0]
	g.agent = proxy.NewMux(g.first, proxies[1:]...)
	if s.operators != nil {
		g.admin = s.adminServer(g).Handler()
	}
	return g, nil
}

// adminServer returns what operators see.
func (s *service) adminServer(g *generation) *admin.Server {
	hosts := g.Admin.Hosts
	if host, _, _ := net.SplitHostPort(g.AdminListen); host != "" {
		hosts = append(slices.Clip(hosts), host)
	}
	return &admin.Server{
		Gatherer: s.registry,
		Ready:    s.ready.Load,
		Upstream: g.dial,
		State:    s.state,
		Mode:     func(g proxy.Guard) proxy.Mode { return modes(&s.current.Load().Config)[g] },
		OnMode:   func(proxy.Guard, proxy.Mode) { s.metrics.ConfigReloads.WithLabelValues("mode").Inc() },
		Token:    string(g.Admin.Token),
		Exposed:  !loopback(s.operators),
		Hosts:    hosts,
		Logger:   s.log,
	}
}

// use lets requests that begin from now on be served by g.
func (s *service) use(g *generation) {
	s.level.Set(logLevel(g.Log.Level))
	before := s.current.Swap(g)
	if g.opened.authorize == nil && !loopback(s.agents) && (before == nil || before.opened.authorize != nil) {
		s.log.Warn("other machines may reach the proxy, and without auth.tokens whoever does can use it", "listen", s.agents.Addr().String())
	}
	if dir := g.Capture.Dir; dir != "" && (before == nil || before.Capture.Dir != dir) {
		s.log.Warn("what cut attempts sent is kept, as plain text that models wrote for users", "dir", dir)
	}
	if before != nil {
		before.close()
	}
}

func (s *service) serveAgent(w http.ResponseWriter, r *http.Request) {
	s.current.Load().agent.ServeHTTP(w, r)
}

func (s *service) serveAdmin(w http.ResponseWriter, r *http.Request) {
	s.current.Load().admin.ServeHTTP(w, r)
}

// close closes the connections that no request uses. Those in use are closed once
// they have been idle for a while.
func (g *generation) close() {
	for _, t := range g.opened.transports {
		t.CloseIdleConnections()
	}
}

// dial reports whether all upstreams can be reached, or the proxies on the way to
// them.
func (g *generation) dial(ctx context.Context) error {
	for _, u := range g.upstreams {
		via := u.url
		if p, err := http.ProxyFromEnvironment(&http.Request{URL: u.url}); err != nil {
			return fmt.Errorf("upstream %s: the proxy that the environment names is no URL", u.name)
		} else if p != nil {
			via = p
		}
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", authority(via))
		if err != nil {
			return fmt.Errorf("upstream %s: %w", u.name, err)
		}
		conn.Close() //nolint:errcheck // it was to be opened, no more
	}
	return nil
}

// authority is the host and port of a URL.
func authority(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case strings.HasPrefix(u.Scheme, "socks5"):
		port = "1080"
	default:
		port = "80"
	}
	return net.JoinHostPort(u.Hostname(), port)
}

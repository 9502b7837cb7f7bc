// Package admin serves what an operator and a monitoring system ask of a running
// proxy: metrics, health, and a live page from which requests are cancelled and
// the mode is switched. It belongs on a listener of its own, apart from the
// traffic.
package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/doomproxy/doomproxy/proxy"
)

// Server answers the admin endpoints. Its fields are read when Handler is called
// and must not change afterwards. Its functions are called concurrently.
type Server struct {
	// Gatherer is what /metrics shows. Nil: there is no /metrics.
	Gatherer prometheus.Gatherer

	// Ready reports whether the proxy takes new requests: it listens and is not
	// draining. Nil: always ready.
	Ready func() bool
	// Upstream dials the upstreams, for /readyz?upstream=1. Its error goes to
	// Logger, not to the asker, and holds no secret. It is called once at a time
	// and once a second at most, however often is asked. Nil: that question is
	// answered as /readyz is.
	Upstream func(ctx context.Context) error

	// State is what the live page shows and changes. Nil: there is no page and
	// nothing below /debug/.
	State *proxy.State
	// Mode returns the mode that a guard has in the configuration in use. It holds
	// while State has no other. Nil: proxy.ModeEnforce.
	Mode func(proxy.Guard) proxy.Mode
	// OnMode is told of each switch of a guard's mode, to count it; "" is a switch
	// back to the configured one. Nil: nobody is.
	OnMode func(proxy.Guard, proxy.Mode)

	// Token is needed for all but /metrics, /healthz and /readyz: as a bearer
	// token, or as the password of HTTP Basic with any user name, for which a
	// browser asks. Empty: it needs none.
	Token string
	// Exposed says that other machines reach the listener. Then without a Token
	// all but these three is refused.
	Exposed bool
	// Hosts are the names under which a browser may open the page, each "host" or
	// "host:port"; without a port it fits any. Loopback names and the address
	// that the connection was made to are always allowed. Any other Host header
	// is refused, but for these three: a foreign page could otherwise make its own
	// name mean this machine, and read all (DNS rebinding).
	Hosts []string

	// Logger is told of cancelled requests, of switches of the mode, and when the
	// upstreams can't be reached or can be again. Nil: nobody is.
	Logger *slog.Logger
}

// The paths that are open to monitoring systems, without a token and under any
// name. They change nothing and show no request.
const (
	pathMetrics = "/metrics"
	pathHealth  = "/healthz"
	pathReady   = "/readyz"
)

// Handler returns the routes:
//
//	/metrics          the Gatherer's metrics; as OpenMetrics for those who accept it
//	/healthz          200 "ok": the process is up
//	/readyz           200 "ready" or 503 "not ready"; with ?upstream=1 the upstreams
//	                  have to be reached, too
//	/                 the live page
//	/debug/requests   JSON: running requests, the last recoveries, the modes
//
// Each takes GET and HEAD; other methods get 405. Two take POST, from programs
// and from the page itself, but from no other origin's:
//
//	/debug/requests/{id}/cancel   drops a running request: 204, or 404
//	/debug/mode                   {"recovery":"enforce"}, "observe" or "off"; "" for
//	                              what is configured; also "detector" and
//	                              "stationarity", several at a time: 204
//
// Errors below /debug/ are JSON objects of the shape that the API's errors have.
func (s *Server) Handler() http.Handler {
	logger := s.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	r := chi.NewRouter()
	get := func(path string, h http.Handler) {
		r.Method(http.MethodGet, path, h)
		r.Method(http.MethodHead, path, h)
	}

	if s.Gatherer != nil {
		get(pathMetrics, promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	get(pathHealth, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		probe(w, http.StatusOK, "ok")
	}))
	upstreams := newDialer(s.Upstream, logger)
	get(pathReady, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case s.Ready != nil && !s.Ready():
			probe(w, http.StatusServiceUnavailable, "not ready")
		case s.Upstream != nil && req.URL.Query().Get("upstream") == "1" && !upstreams.reached(req.Context()):
			probe(w, http.StatusServiceUnavailable, "not ready: an upstream cannot be reached")
		default:
			probe(w, http.StatusOK, "ready")
		}
	}))
	if s.State != nil {
		for path, h := range page() {
			get(path, h)
		}
		d := &debug{state: s.State, mode: s.Mode, onMode: s.OnMode, log: logger}
		get("/debug/requests", http.HandlerFunc(d.requests))
		r.Post("/debug/requests/{id}/cancel", d.cancel)
		r.Post("/debug/mode", d.setMode)
	}

	r.NotFound(func(w http.ResponseWriter, req *http.Request) {
		refuse(w, req, http.StatusNotFound, "not_found", "there is nothing here")
	})
	// chi's own answer leaves Allow out for methods it has never heard of, and
	// gives them 405 for paths that do not exist.
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			if r.Match(chi.NewRouteContext(), method, req.URL.EscapedPath()) {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			r.NotFoundHandler()(w, req)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		refuse(w, req, http.StatusMethodNotAllowed, "method_not_allowed", "method not allowed, want "+strings.Join(allowed, " or "))
	})
	return s.guard(r)
}

// probe answers a health check.
func probe(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // an asker that has left needs no answer
}

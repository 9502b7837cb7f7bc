// Package admin serves what an operator and a monitoring system ask of a running
// proxy. It belongs on a listener of its own, apart from the traffic.
package admin

import (
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers the admin endpoints. Its fields are read when Handler is called
// and must not change afterwards.
type Server struct {
	// Gatherer is what /metrics shows. Nil: there is no /metrics.
	Gatherer prometheus.Gatherer

	// Ready reports whether the proxy takes new requests: it listens and is not
	// draining. It is called for every /readyz, concurrently. Nil: always ready.
	Ready func() bool
}

// Handler returns the routes:
//
//	/metrics  the Gatherer's metrics; as OpenMetrics for those who accept it
//	/healthz  200 "ok": the process is up
//	/readyz   200 "ready" or 503 "not ready"
//
// Each takes GET and HEAD; other methods get 405.
func (s *Server) Handler() http.Handler {
	r := chi.NewRouter()
	get := func(path string, h http.Handler) {
		r.Method(http.MethodGet, path, h)
		r.Method(http.MethodHead, path, h)
	}

	if s.Gatherer != nil {
		get("/metrics", promhttp.HandlerFor(s.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	}
	get("/healthz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		probe(w, http.StatusOK, "ok")
	}))
	get("/readyz", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if s.Ready != nil && !s.Ready() {
			probe(w, http.StatusServiceUnavailable, "not ready")
			return
		}
		probe(w, http.StatusOK, "ready")
	}))

	// chi's own answer leaves Allow out for methods it has never heard of, and
	// gives them 405 for paths that do not exist.
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			if r.Match(chi.NewRouteContext(), method, req.URL.Path) {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			http.NotFound(w, req)
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	})
	return r
}

// probe answers a health check. Nothing between the proxy and the one who asks
// may keep the answer.
func probe(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") // an asker that has left needs no answer
}

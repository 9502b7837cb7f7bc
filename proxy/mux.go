package proxy

import (
	"net/http"
	"net/url"
	"strings"
)

// Mux chooses between the proxies of several upstreams by the first segment of a
// request's path: /NAME/v1/responses goes to the upstream of that name, as
// /v1/responses. All that names none goes to the first one.
type Mux struct {
	first *Proxy
	named map[string]*Proxy
}

// NewMux returns a Mux for at least one proxy. Their upstreams' names are
// different.
func NewMux(first *Proxy, others ...*Proxy) *Mux {
	m := &Mux{first: first, named: map[string]*Proxy{first.cfg.UpstreamName: first}}
	for _, p := range others {
		m.named[p.cfg.UpstreamName] = p
	}
	return m
}

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, r := m.choose(r)
	p.ServeHTTP(w, r)
}

// choose returns the proxy for r, and r as that is to see it.
func (m *Mux) choose(r *http.Request) (*Proxy, *http.Request) {
	name, _, more := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	p, ok := m.named[name]
	if !ok || !more || !isOwnTarget(r) {
		return m.first, r
	}
	stripped := *r
	stripped.URL = new(url.URL)
	*stripped.URL = *r.URL
	stripped.URL.Path = strings.TrimPrefix(r.URL.Path, "/"+name)
	stripped.URL.RawPath = strings.TrimPrefix(r.URL.RawPath, "/"+name)
	return p, &stripped
}

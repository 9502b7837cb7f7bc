package proxy

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Request headers of the loop report contract.
const (
	headerLoopCheck       = "X-Grok-Doom-Loop-Check"
	headerExactRepetition = "X-Grok-Exact-Repetition-Check"
)

// target returns where a request for u goes: the upstream's scheme and host,
// u's path moved below the upstream's, and both queries, u's first.
//
// A path that begins with the upstream's own goes unchanged. In front of any
// other the upstream's path takes the place of a leading /v1.
func target(upstream, u *url.URL) *url.URL {
	base := strings.TrimRight(upstream.EscapedPath(), "/")
	path := u.EscapedPath()
	if base != "" && !below(path, base) {
		if below(path, "/v1") {
			path = strings.TrimPrefix(path, "/v1")
		}
		path = base + path
	}
	t := &url.URL{Scheme: upstream.Scheme, Host: upstream.Host, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
	t.RawPath = path
	var err error
	if t.Path, err = url.PathUnescape(path); err != nil {
		t.Path = path
	}
	for pair := range strings.SplitSeq(upstream.RawQuery, "&") {
		key, _, _ := strings.Cut(pair, "=")
		if pair == "" || u.Query().Has(key) {
			continue
		}
		if t.RawQuery != "" {
			t.RawQuery += "&"
		}
		t.RawQuery += pair
	}
	return t
}

// below reports whether path is base or lies below it.
func below(path, base string) bool {
	rest, ok := strings.CutPrefix(path, base)
	return ok && (rest == "" || rest[0] == '/')
}

// hopByHop are the headers that speak of one connection only (RFC 9110, 7.6.1,
// and those that older proxies send).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// perHop returns the names of the headers that are not to be sent on with h.
func perHop(h http.Header) []string {
	names := hopByHop
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			names = append(slices.Clip(names), http.CanonicalHeaderKey(strings.TrimSpace(name)))
		}
	}
	return names
}

// ownPrefix begins the names of the headers that are the proxy's own.
const ownPrefix = "X-Doomproxy-"

// removeOwn drops the headers that are meant for the proxy. None goes upstream.
func removeOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, ownPrefix) {
			delete(h, name)
		}
	}
}

// upstreamHeader returns the headers of an inspected attempt for a client
// request that came with h. encoded says that the body is still the client's
// own, encoding and all.
func (p *Proxy) upstreamHeader(h http.Header, encoded bool) http.Header {
	h = h.Clone()
	for _, name := range perHop(h) {
		delete(h, name)
	}
	removeOwn(h)
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		h.Del(name) // as httputil.ReverseProxy does
	}
	h.Del("Expect") // the body is here already
	h.Del("Content-Length")
	h["Accept-Encoding"] = identity
	if h["User-Agent"] == nil {
		h.Set("User-Agent", "") // or net/http sends its own
	}
	if !encoded {
		h.Del("Content-Encoding")
	}
	for name, values := range p.asks {
		if _, ok := h[name]; !ok { // the client asks for something itself
			h[name] = values
		}
	}
	return h
}

// identity is the value of a header. Nobody changes it.
var identity = []string{"identity"}

// removeDigests drops the headers that speak of a body that was changed.
func removeDigests(h http.Header) {
	for _, name := range []string{"Content-Md5", "Digest", "Content-Digest"} {
		h.Del(name)
	}
}

// signalHeaders returns the headers by which the upstream is asked to report loops,
// if it is.
func signalHeaders(cfg *Config) http.Header {
	host := strings.ToLower(cfg.Upstream.Hostname())
	knowsNone := host == "chatgpt.com" || strings.HasSuffix(host, ".openai.com") || strings.HasSuffix(host, ".azure.com")
	if cfg.SignalHeaders == SignalHeadersNever || cfg.SignalHeaders == SignalHeadersAuto && knowsNone {
		return nil
	}
	return http.Header{
		headerLoopCheck:       {strconv.Itoa(cfg.WindowTokens)},
		headerExactRepetition: {strconv.Itoa(cfg.ExactRepetitionMinTokens)},
	}
}

// copyHeader adds the end-to-end headers of an upstream's answer to a client's.
// They share the values.
func copyHeader(dst, src http.Header) {
	dropped := perHop(src)
	for name, values := range src {
		switch {
		case slices.Contains(dropped, name), strings.HasPrefix(name, ownPrefix):
		case dst[name] == nil:
			dst[name] = slices.Clip(values)
		default:
			dst[name] = append(dst[name], values...)
		}
	}
}

// outgoing is a request's body as it is sent. Once closed it lets go of its text,
// which the answer's http.Response would keep to its end.
type outgoing struct {
	mu     sync.Mutex // of a transport that closes while it reads
	text   strings.Reader
	size   int
	small  *strings.Reader // the text, if it is short: not worth letting go of
	memory *allowance
}

// smallBody is what goes out in one write with the head of its request, in bytes:
// both have to fit into net/http's buffer.
const smallBody = 3 << 10

// newOutgoing returns a body that counts as memory until it is closed.
func newOutgoing(text string, memory *allowance) *outgoing {
	memory.need(len(text))
	b := &outgoing{size: len(text), memory: memory}
	if len(text) <= smallBody {
		b.small = strings.NewReader(text)
	} else {
		b.text.Reset(text)
	}
	return b
}

// reader returns the body as net/http is to have it, which knows by its type alone
// that a body is at hand and need not be waited for.
func (b *outgoing) reader() io.ReadCloser {
	if b.small != nil {
		return io.NopCloser(b.small)
	}
	return b
}

func (b *outgoing) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Read(p) //nolint:wrapcheck // io.EOF must stay bare
}

func (b *outgoing) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text.Reset("")
	b.memory.give(b.size)
	b.size = 0
	return nil
}

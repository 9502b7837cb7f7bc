package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// policy is the Content-Security-Policy: the page uses what this listener serves,
// has nothing inline, and stands in no frame.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'none'"

// headerAction marks a request as one that a program makes. No page can send it
// to another origin without having asked first, and that is not answered.
const headerAction = "X-Doomproxy-Action"

// guard lets through to h what may be asked.
func (s *Server) guard(h http.Handler) http.Handler {
	names := make([]authority, len(s.Hosts))
	for i, host := range s.Hosts {
		names[i] = splitAuthority(host)
	}
	token := sha256.Sum256([]byte(s.Token)) // of one length, so that comparing tells nothing of it
	var origins http.CrossOriginProtection
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", policy)
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("X-Content-Type-Options", "nosniff")
		switch r.URL.EscapedPath() { // which is what is routed
		case pathMetrics, pathHealth, pathReady:
			h.ServeHTTP(w, r)
			return
		}
		switch {
		case !allowedHost(r, names):
			refuse(w, r, http.StatusMisdirectedRequest, "unknown_host",
				"the Host header has a name that is not this listener's: use localhost or the address that it listens on, or add the name to admin.hosts")
		case s.Token == "" && s.Exposed:
			refuse(w, r, http.StatusForbidden, "no_token",
				"other machines reach this listener and it has no token: set admin.token, or let it listen on a loopback address")
		case s.Token != "" && !authorized(r, &token):
			header.Add("WWW-Authenticate", `Basic realm="doomproxy", charset="UTF-8"`)
			header.Add("WWW-Authenticate", `Bearer realm="doomproxy"`)
			refuse(w, r, http.StatusUnauthorized, "unauthorized",
				"the admin token is needed: as a bearer token, or as the password with any user name")
		case origins.Check(r) != nil || !sameOrigin(r):
			refuse(w, r, http.StatusForbidden, "cross_origin", "another origin's page may change nothing here")
		case formLike(r):
			refuse(w, r, http.StatusUnsupportedMediaType, "unsupported_media_type",
				"want Content-Type: application/json, no body, or the header "+headerAction+" with any value")
		default:
			h.ServeHTTP(w, r)
		}
	})
}

// authority is the host of a URL.
type authority struct{ name, port string }

// splitAuthority splits "host" or "host:port"; the port may be missing.
func splitAuthority(host string) authority {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		name, port = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), ""
	}
	return authority{strings.ToLower(strings.TrimSuffix(name, ".")), port}
}

// allowedHost reports whether a request is for a name that is this listener's. An
// address can't be made to mean another machine as a name can.
func allowedHost(r *http.Request, names []authority) bool {
	host := splitAuthority(r.Host)
	for _, name := range names {
		if name.name == host.name && (name.port == "" || name.port == host.port) {
			return true
		}
	}
	if host.name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host.name)
	if err != nil {
		return false
	}
	if ip.IsLoopback() {
		return true
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && local.AddrPort().Addr().Unmap() == ip.Unmap()
}

// authorized reports whether a request has the token of which want is the hash.
func authorized(r *http.Request, want *[sha256.Size]byte) bool {
	_, token, ok := r.BasicAuth()
	if !ok {
		var scheme string
		scheme, token, ok = strings.Cut(r.Header.Get("Authorization"), " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return false
		}
	}
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// sameOrigin reports whether a request that may change something, if it tells
// where it comes from, comes from here. Unlike http.CrossOriginProtection it takes
// no header's word against another's, and looks at Referer, too: what lets a page
// of another origin leave one header out need not let it leave out all.
func sameOrigin(r *http.Request) bool {
	if isSafe(r.Method) {
		return true
	}
	for _, name := range []string{"Origin", "Referer"} {
		for _, value := range r.Header.Values(name) {
			u, err := url.Parse(value)
			if err != nil || !strings.EqualFold(u.Host, r.Host) {
				return false
			}
		}
	}
	return true
}

// formLike reports whether a form of any origin could have made a request that
// may change something: old browsers send nothing that tells where it comes from.
func formLike(r *http.Request) bool {
	contentType := r.Header.Get("Content-Type")
	if isSafe(r.Method) || contentType == "" || r.Header.Get(headerAction) != "" {
		return false
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err != nil || mediaType != "application/json"
}

func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// refuse answers a request that is not served: as JSON to programs, as text to
// who opened a page.
func refuse(w http.ResponseWriter, r *http.Request, status int, code, message string) {
	if !strings.HasPrefix(r.URL.Path, "/debug/") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, message+"\n") // an asker that has left needs no answer
		return
	}
	type apiError struct {
		Message string `json:"message"`
		Type    string `json:"type"`
		Code    string `json:"code"`
	}
	writeJSON(w, status, map[string]apiError{"error": {message, "proxy_error", code}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // it is data that always marshals
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // an asker that has left needs no answer
}

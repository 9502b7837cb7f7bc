package admin_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/admin"
	"github.com/doomproxy/doomproxy/proxy"
)

// The page has all it names, and takes nothing from elsewhere.
func TestPage(t *testing.T) {
	srv := serve(t, &admin.Server{Gatherer: registry(), State: new(proxy.State)})
	for path, contentType := range map[string]string{
		"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript", "/icon.svg": "image/svg+xml",
	} {
		got := send(t, srv, http.MethodGet, path, "")
		if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), contentType) {
			t.Errorf("%s: got %d, %s, want %s", path, got.status, got.header.Get("Content-Type"), contentType)
		}
		text := strings.ReplaceAll(got.body, "http://www.w3.org/2000/svg", "") // a name, not an address
		if m := regexp.MustCompile(`https?:|//[a-z]|@import|url\(`).FindString(text); m != "" {
			t.Errorf("%s has %q, want nothing from elsewhere", path, m)
		}
		if head := send(t, srv, http.MethodHead, path, ""); head.status != http.StatusOK || head.body != "" {
			t.Errorf("HEAD %s: got %d %q", path, head.status, head.body)
		}
	}

	html := send(t, srv, http.MethodGet, "/", "").body
	for _, inline := range []string{`(?i)<style`, `(?i)\sstyle=`, `(?i)\son[a-z]+=`, `(?i)<script[^>]*>[^<]`, `(?i)javascript:`} {
		if m := regexp.MustCompile(inline).FindString(html); m != "" {
			t.Errorf("the page has %q inline, which its policy forbids", m)
		}
	}
	links := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(html, -1)
	if len(links) < 5 {
		t.Errorf("got %d links, want those of the script, the style, the icon and two for programs", len(links))
	}
	for _, link := range links {
		if got := send(t, srv, http.MethodGet, "/"+link[1], ""); got.status != http.StatusOK {
			t.Errorf("the page links to %s, which gets status %d", link[1], got.status)
		}
	}
	script := send(t, srv, http.MethodGet, "/page.js", "").body
	for _, markup := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "createContextualFragment", "setHTML"} {
		if strings.Contains(script, markup) {
			t.Errorf("the script uses %s: what comes from others goes into the page as text only", markup)
		}
	}
}

func TestNoState(t *testing.T) {
	srv := serve(t, &admin.Server{Gatherer: registry()})
	for _, path := range []string{"/", "/page.js", "/debug/requests"} {
		if got := send(t, srv, http.MethodGet, path, ""); got.status != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, got.status)
		}
	}
	if got := send(t, srv, http.MethodPost, "/debug/mode", `{"recovery":"off"}`); got.status != http.StatusNotFound {
		t.Errorf("POST: status %d, want 404", got.status)
	}
}

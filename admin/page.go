package admin

import (
	"embed"
	"io"
	"net/http"
)

// pageFiles are sent as they are: the page needs no build, and nothing from
// elsewhere.
//
//go:embed page/index.html page/page.css page/page.js page/icon.svg
var pageFiles embed.FS

// page returns the handlers of the live page's files, by their paths.
func page() map[string]http.Handler {
	handlers := make(map[string]http.Handler)
	for _, file := range []struct{ path, name, contentType string }{
		{"/", "page/index.html", "text/html; charset=utf-8"},
		{"/page.css", "page/page.css", "text/css; charset=utf-8"},
		{"/page.js", "page/page.js", "text/javascript; charset=utf-8"},
		{"/icon.svg", "page/icon.svg", "image/svg+xml"},
	} {
		data, err := pageFiles.ReadFile(file.name)
		if err != nil {
			panic(err) // it would not have been built without the file
		}
		content := string(data)
		handlers[file.path] = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", file.contentType)
			_, _ = io.WriteString(w, content) // a browser that has left needs no page
		})
	}
	return handlers
}

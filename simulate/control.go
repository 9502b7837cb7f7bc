package simulate

import (
	"encoding/json"
	"net/http"
	"sync"
)

// ControlPath is the beginning of the paths that a [Control] answers itself.
const ControlPath = "/simulate/"

// Control is an upstream that another process can steer: an http.Handler that
// plays one script after the other, and tells what it was sent. The zero value
// works. The methods are safe for concurrent use.
//
//	PUT    /simulate/script    start over with a script, as LoadScript reads it:
//	                           ordinals are counted from 0 again, and what was
//	                           received before is forgotten
//	GET    /simulate/requests  a JSON list of [Received], oldest first
//	DELETE /simulate/requests  start over with the requests, not with the script:
//	                           ordinals go on where they were
//
// All else goes to the server. Whoever reaches it may steer it, so it is nothing
// for the open network.
type Control struct {
	// Server answers until the first script is put. Its other settings are
	// those of later scripts, too. It must not be changed after the first
	// request. nil means a zero Server.
	Server *Server

	mu     sync.Mutex // guards all below
	server *Server    // the one that answers; nil until it is needed
	hidden int        // the requests that arrived before this one are not shown
}

// Received is what a [Control] tells of one request.
type Received struct {
	// Ordinal counts POSTs to …/responses from 0. It is -1 for any other request.
	Ordinal int         `json:"ordinal"`
	Method  string      `json:"method"`
	Path    string      `json:"path"`
	Query   string      `json:"query,omitempty"`
	Header  http.Header `json:"header"` // what holds a secret is there without its value
	// Body and Reply are what came and went over the wire; bytes that are not
	// UTF-8 are replaced.
	Body  string `json:"body"`
	Reply string `json:"reply"`
	// Gone: the client went away before it had the whole reply.
	Gone bool `json:"gone"`
	// Done: the reply is over.
	Done bool `json:"done"`
}

// secretHeaders are shown without their values.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Cookie"}

// ServeHTTP answers one request.
func (c *Control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "PUT " + ControlPath + "script":
		script, err := LoadScript(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		c.play(script)
		w.WriteHeader(http.StatusNoContent)
	case "GET " + ControlPath + "requests":
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c.received()) // fails only if the client has left
	case "DELETE " + ControlPath + "requests":
		c.forget()
		w.WriteHeader(http.StatusNoContent)
	default:
		c.current().ServeHTTP(w, r)
	}
}

// current returns the server that answers now.
func (c *Control) current() *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server == nil {
		c.server = c.Server
	}
	if c.server == nil {
		c.server = new(Server)
	}
	return c.server
}

// play puts a new server in the place of the current one. Requests that are
// under way stay with the old one.
func (c *Control) play(script func(int, *Request) Scenario) {
	old := c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hidden = 0
	c.server = &Server{
		Script: script, Strict: old.Strict,
		MaxBody: old.MaxBody, Keep: old.Keep, KeepBytes: old.KeepBytes,
	}
}

func (c *Control) forget() {
	server := c.current()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, req := range server.Requests() {
		c.hidden = req.arrival + 1
	}
}

func (c *Control) received() []Received {
	server := c.current()
	c.mu.Lock()
	hidden := c.hidden
	c.mu.Unlock()
	list := []Received{}
	for _, req := range server.Requests() {
		if req.arrival < hidden {
			continue
		}
		header := req.Header.Clone()
		for _, name := range secretHeaders {
			if _, ok := header[name]; ok {
				header[name] = []string{}
			}
		}
		list = append(list, Received{
			Ordinal: req.Ordinal, Method: req.Method, Path: req.Path, Query: req.RawQuery,
			Header: header, Body: string(req.Body), Reply: string(req.Reply()),
			Gone: isClosed(req.Gone), Done: isClosed(req.Done),
		})
	}
	return list
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

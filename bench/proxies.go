package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// roleArg is the first argument of this program where it plays a part in a run.
const roleArg = "role"

// The parts that this program plays.
const (
	roleUpstream     = "upstream"
	roleTCP          = "tcp"
	roleReverseProxy = "reverseproxy"
)

// play plays a part until ctx ends.
func play(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("role: got %d arguments, want name, port and port of the upstream", len(args))
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", "127.0.0.1:"+args[1])
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	to := "127.0.0.1:" + args[2]
	switch args[0] {
	case roleUpstream:
		err = newUpstream().serve(l)
	case roleTCP:
		err = copyTCP(ctx, l, to)
	case roleReverseProxy:
		err = reverseProxy(l, to)
	default:
		err = fmt.Errorf("role: there is no %q, want %s, %s or %s", args[0], roleUpstream, roleTCP, roleReverseProxy)
	}
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// copyTCP copies connections both ways: the least that a proxy in Go can do.
func copyTCP(ctx context.Context, l net.Listener, to string) error {
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			var d net.Dialer
			server, err := d.DialContext(ctx, "tcp", to)
			if err != nil {
				return
			}
			defer server.Close()
			go func() {
				plainCopy(server, client)
				server.Close()
			}()
			plainCopy(client, server)
		}()
	}
}

// plainCopy copies through memory, as a proxy that looks at the bytes has to:
// io.Copy would have the system move them from socket to socket.
func plainCopy(w io.Writer, r io.Reader) {
	buf := make([]byte, 32<<10)                                               // as io.Copy
	_, _ = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, buf) // the end of a connection
}

// reverseProxy is the proxy of the standard library, as one would use it for streams:
// with as many idle connections as there are clients, and no compression.
func reverseProxy(l net.Listener, to string) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1000
	transport.DisableCompression = true
	u := &url.URL{Scheme: "http", Host: to}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) },
	}
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Or net/http, at the first byte of the answer, closes a body that the transport
			// may still have to read to its end, and the transport drops the connection
			// that the answer comes from: one in some thousand requests fails.
			_ = http.NewResponseController(w).EnableFullDuplex() // HTTP/1 has it
			proxy.ServeHTTP(w, r)
		}),
		ReadHeaderTimeout: time.Minute,
	}
	return srv.Serve(l)
}

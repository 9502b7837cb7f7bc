package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// target is a proxy that is measured.
type target struct {
	name string
	// command returns what to run, for an upstream at a port, to listen at a port;
	// nil if it is not installed.
	command func(b *bench, port, upstream string) (*exec.Cmd, error)
}

// The names of targets that others are compared with.
const (
	nameDirect  = "direct"
	nameFloor   = "tcp"
	namePeer    = "reverseproxy"
	nameOff     = "doomproxy"
	nameOn      = "doomproxy+detector"
	pathStreams = "/v1/responses"
)

var targets = []target{
	{nameDirect, nil},
	{nameFloor, role("tcp")},
	{"nginx", nginx},
	{"haproxy", haproxy},
	{namePeer, role("reverseproxy")},
	{nameOff, doomproxy("off")},
	{nameOn, doomproxy("enforce")},
}

func targetNames() (names []string) {
	for _, t := range targets {
		names = append(names, t.name)
	}
	return names
}

// roleArg is the first argument of this program where it plays a part in a run.
const roleArg = "role"

// role returns the command of a part that this program plays.
func role(name string) func(*bench, string, string) (*exec.Cmd, error) {
	return func(b *bench, port, upstream string) (*exec.Cmd, error) {
		return b.command(b.self, roleArg, name, port, upstream), nil
	}
}

// play plays a part until it is killed.
func play(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("role: got %d arguments, want name, port and port of the upstream", len(args))
	}
	l, err := net.Listen("tcp", "127.0.0.1:"+args[1])
	if err != nil {
		return err
	}
	to := "127.0.0.1:" + args[2]
	switch args[0] {
	case "upstream":
		return newUpstream().serve(l)
	case "tcp":
		return copyTCP(l, to)
	case "reverseproxy":
		return reverseProxy(l, to)
	}
	return fmt.Errorf("role: there is no %q", args[0])
}

// copyTCP copies connections both ways: the least that a proxy in Go can do.
func copyTCP(l net.Listener, to string) error {
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			server, err := net.Dial("tcp", to)
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
	buf := make([]byte, 32<<10)
	io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, buf) //nolint:errcheck // the end of a connection
}

// reverseProxy is the proxy of the standard library, as one would use it for streams.
func reverseProxy(l net.Listener, to string) error {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1000
	transport.DisableCompression = true
	u := &url.URL{Scheme: "http", Host: to}
	srv := &http.Server{
		Handler: &httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1,
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(u) },
		},
		ReadHeaderTimeout: time.Minute,
	}
	return srv.Serve(l)
}

// doomproxy is the proxy that all this is about, with all on but, perhaps, the detector.
func doomproxy(detector string) func(*bench, string, string) (*exec.Cmd, error) {
	return func(b *bench, port, upstream string) (*exec.Cmd, error) {
		cmd := b.command(filepath.Join(b.dir, "doomproxy"), "serve", "--upstream", "http://127.0.0.1:"+upstream+"/v1", "--listen", "127.0.0.1:"+port, "--admin-listen", "", "--log-level", "error")
		cmd.Env = append(cmd.Env, "DOOMPROXY_DETECTOR_MODE="+detector, "XDG_STATE_HOME="+b.dir, "DOOMPROXY_SIGNALS_HEADERS=always")
		return cmd, nil
	}
}

// installed returns the path of a program, or an error that says so.
func installed(name string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 {
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}

// write fills in the ports in a configuration and puts it where b keeps things.
func (b *bench) write(name, text, port, upstream string) (string, error) {
	path := filepath.Join(b.dir, name)
	text = strings.NewReplacer("PORT", port, "UPSTREAM", upstream, "DIR", b.dir).Replace(text)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

func nginx(b *bench, port, upstream string) (*exec.Cmd, error) {
	path, err := installed("nginx")
	if err != nil {
		return nil, err
	}
	conf, err := b.write("nginx.conf", `daemon off; worker_processes 1; worker_rlimit_nofile 60000; pid DIR/nginx.pid; error_log DIR/nginx.log crit;
events { worker_connections 30000; }
http {
  access_log off; client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;
  keepalive_requests 1000000;
  upstream u { server 127.0.0.1:UPSTREAM; keepalive 1000; keepalive_requests 1000000; }
  server {
    listen 127.0.0.1:PORT backlog=4096;
    location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; proxy_read_timeout 600s; }
  }
}
`, port, upstream)
	if err != nil {
		return nil, err
	}
	return b.command(path, "-c", conf, "-p", b.dir), nil
}

func haproxy(b *bench, port, upstream string) (*exec.Cmd, error) {
	path, err := installed("haproxy")
	if err != nil {
		return nil, err
	}
	conf, err := b.write("haproxy.cfg", `global
  maxconn 9000
  nbthread 1
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
listen l
  bind 127.0.0.1:PORT
  server s 127.0.0.1:UPSTREAM pool-max-conn 1000
`, port, upstream)
	if err != nil {
		return nil, err
	}
	return b.command(path, "-db", "-f", conf), nil
}

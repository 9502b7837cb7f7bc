package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// target is a proxy that is measured.
type target struct {
	name string
	// command says what to run, to listen at a port for an upstream at a port; nil for
	// no proxy at all.
	command func(b *bench, port, upstream string) (command, error)
	foreign bool // it is neither ours nor Go's
}

// command is a program with its arguments and what it gets besides the environment.
type command struct {
	path string
	args []string
	env  []string
}

// The names of targets that others are compared with.
const (
	nameDirect = "direct"
	nameFloor  = "tcp"
	namePeer   = "reverseproxy"
	nameOff    = "doomproxy"
	nameOn     = "doomproxy+detector"
)

var targets = []target{
	{name: nameDirect},
	{name: nameFloor, command: role(roleTCP)},
	{name: "nginx", command: nginx, foreign: true},
	{name: "haproxy", command: haproxy, foreign: true},
	{name: namePeer, command: role(roleReverseProxy)},
	{name: nameOff, command: doomproxy("off")},
	{name: nameOn, command: doomproxy("enforce")},
}

func targetNames() (names []string) {
	for _, t := range targets {
		names = append(names, t.name)
	}
	return names
}

// role is a part that this program plays.
func role(name string) func(*bench, string, string) (command, error) {
	return func(b *bench, port, upstream string) (command, error) {
		return command{path: b.self, args: []string{roleArg, name, port, upstream}}, nil
	}
}

// doomproxy is the proxy that all this is about, with all on but, perhaps, the
// detector. As with the others, nothing is logged for each request.
func doomproxy(detector string) func(*bench, string, string) (command, error) {
	return func(b *bench, port, upstream string) (command, error) {
		config, err := b.write("doomproxy.yaml", "", port, upstream)
		return command{
			path: b.doomproxy(),
			args: []string{
				"serve", "--config", config, "--listen", "127.0.0.1:" + port, "--admin-listen", "127.0.0.1:0",
				"--upstream", "http://127.0.0.1:" + upstream + "/v1", "--log-level", "error",
			},
			env: []string{"DOOMPROXY_DETECTOR_MODE=" + detector, "DOOMPROXY_SIGNALS_HEADERS=always", "XDG_STATE_HOME=" + b.dir},
		}, err
	}
}

// doomproxy is where the program is that was built for this run.
func (b *bench) doomproxy() string { return filepath.Join(b.dir, "doomproxy") }

// errNotInstalled is why a target is left out.
var errNotInstalled = errors.New("not installed")

// installed returns the path of a program. Servers often lie where only root looks.
func installed(name string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/usr/local/sbin") {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode()&0o111 != 0 { // #nosec G703 -- the path of whoever runs this
			return filepath.Join(dir, name), nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, errNotInstalled)
}

// write fills in a configuration and puts it where b keeps things.
func (b *bench) write(name, text, port, upstream string) (string, error) {
	path := filepath.Join(b.dir, name)
	text = strings.NewReplacer("PORT", port, "UPSTREAM", upstream, "DIR", b.dir,
		"STREAMS", fmt.Sprint(b.mostStreams()+100), "FILES", fmt.Sprint(2*b.mostStreams()+500)).Replace(text)
	return path, os.WriteFile(path, []byte(text), 0o600) // #nosec G703 -- in a folder of ours
}

func nginx(b *bench, port, upstream string) (command, error) {
	path, err := installed("nginx")
	if err != nil {
		return command{}, err
	}
	config, err := b.write("nginx.conf", `daemon off; worker_processes 1; worker_rlimit_nofile FILES; pid DIR/nginx.pid; error_log DIR/nginx.log crit;
events { worker_connections FILES; }
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
	return command{path: path, args: []string{"-c", config, "-p", b.dir}}, err
}

func haproxy(b *bench, port, upstream string) (command, error) {
	path, err := installed("haproxy")
	if err != nil {
		return command{}, err
	}
	config, err := b.write("haproxy.cfg", `global
  maxconn STREAMS
  nbthread 1
defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 600s
  timeout server 600s
  http-reuse always
  maxconn STREAMS
listen l
  bind 127.0.0.1:PORT backlog 4096
  server s 127.0.0.1:UPSTREAM pool-max-conn 1000
`, port, upstream)
	return command{path: path, args: []string{"-db", "-f", config}}, err
}

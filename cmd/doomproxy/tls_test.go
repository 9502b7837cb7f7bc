package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/simulate"
)

// identity is a certificate that vouches for itself, and its key, as PEM.
type identity struct{ cert, key []byte }

func newIdentity(t *testing.T, name string) identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return identity{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw}),
	}
}

// trusts returns a pool of certificates.
func trusts(t *testing.T, certs ...[]byte) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, c := range certs {
		if !pool.AppendCertsFromPEM(c) {
			t.Fatal("no certificate in PEM")
		}
	}
	return pool
}

// replace puts a file in place as a whole.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// httpsClient returns a client that trusts a pool, and speaks one version of HTTP.
func httpsClient(t *testing.T, pool *x509.CertPool, http2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetHTTP2(http2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// reply is an answer. Its body is closed with the test.
type reply struct {
	status int
	proto  string
	header http.Header
	body   io.Reader
}

// do sends a request with headers, given as name, value, name, value.
func do(t *testing.T, client *http.Client, method, url, body string, header ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return reply{resp.StatusCode, resp.Proto, resp.Header, resp.Body}
}

// text returns the whole body.
func (r reply) text(t *testing.T) string {
	t.Helper()
	raw, err := io.ReadAll(r.body)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// served is the name in the certificate that a server shows.
func served(t *testing.T, address string, pool *x509.CertPool) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// serveTLS runs the proxy with a certificate, and returns its files.
func serveTLS(t *testing.T, upstream string, id identity, change func(*app)) (c *command, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	replace(t, cert, id.cert)
	replace(t, key, id.key)
	return serve(t, func(a *app) {
		env("DOOMPROXY_TLS_CERT="+cert, "DOOMPROXY_TLS_KEY="+key)(a)
		if change != nil {
			change(a)
		}
	}, upstream), cert, key
}

func TestTLS(t *testing.T) {
	sim := httptest.NewServer(&simulate.Server{})
	defer sim.Close()
	id := newIdentity(t, "first")
	pool := trusts(t, id.cert)
	c, _, _ := serveTLS(t, sim.URL+"/v1", id, nil)
	if !strings.HasPrefix(c.base(t), "https://127.0.0.1:") {
		t.Fatalf("got the base URL %s, want one with https", c.base(t))
	}
	for _, http2 := range []bool{false, true} {
		want := "HTTP/1.1"
		if http2 {
			want = "HTTP/2.0"
		}
		client := httpsClient(t, pool, http2)
		resp := do(t, client, http.MethodPost, c.base(t)+"/responses", streamBody)
		wantText(t, resp.text(t), "response.completed")
		client.CloseIdleConnections()
		if resp.proto != want {
			t.Errorf("got %s, want %s", resp.proto, want)
		}
	}
	if conn, err := tls.Dial("tcp", c.address(t), &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		conn.Close()
		t.Error("got a connection with TLS 1.1, want at least 1.2")
	}
	conn, err := tls.Dial("tcp", c.address(t), &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS12})
	if err != nil {
		t.Errorf("got %v with TLS 1.2, want a connection", err)
	} else {
		conn.Close()
	}
	wantStatus(t, "http://"+c.address(t)+"/", http.StatusBadRequest)
	c.stop()
	c.wantEnd(t)
}

// A stream over HTTP/2 that is dropped does not look complete either.
func TestTLSDrain(t *testing.T) {
	_, upstream, _ := gated(t, 0)
	id := newIdentity(t, "first")
	c, _, _ := serveTLS(t, upstream, id, env("DOOMPROXY_SHUTDOWN_GRACE=20ms"))
	resp := do(t, httpsClient(t, trusts(t, id.cert), true), http.MethodPost, c.base(t)+"/responses", streamBody)
	c.stop()
	if raw, err := io.ReadAll(resp.body); err == nil {
		t.Errorf("the stream ended as if it were complete, in:\n%s", raw)
	}
	c.wantEnd(t)
	wantText(t, c.stderr.String(), "outcome=cancelled")
}

func TestTLSFilesReplaced(t *testing.T) {
	first, second := newIdentity(t, "first"), newIdentity(t, "second")
	pool := trusts(t, first.cert, second.cert)
	c, cert, key := serveTLS(t, nowhere, first, nil)
	wantServed := func(want string) {
		t.Helper()
		if got := served(t, c.address(t), pool); got != want {
			t.Errorf("got the certificate of %s, want %s", got, want)
		}
	}
	wantLogged := func(text string, want int) {
		t.Helper()
		if got := strings.Count(c.stderr.String(), text); got != want {
			t.Errorf("got %q logged %d times, want %d, in:\n%s", text, got, want, &c.stderr)
		}
	}
	wantServed("first")
	// The two files are never replaced at the same time.
	replace(t, cert, second.cert)
	wantServed("first")
	wantServed("first")
	wantLogged("cannot be used", 1)
	replace(t, key, second.key)
	wantServed("second")
	wantServed("second")
	wantLogged("a changed file was read", 1)

	replace(t, key, []byte("hunter2"))
	wantServed("second")
	wantServed("second")
	wantLogged("cannot be used", 2)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	wantServed("second")
	wantServed("second")
	wantLogged("cannot be used", 3)
	replace(t, key, second.key)
	wantServed("second")
	wantLogged("a changed file was read", 2)
	wantLogged("hunter2", 0)
}

func TestTLSFilesRefused(t *testing.T) {
	id, other := newIdentity(t, "first"), newIdentity(t, "other")
	cert, key, odd := file(t, string(id.cert)), file(t, string(id.key)), file(t, string(other.key))
	for name, test := range map[string]struct {
		env  []string
		want []string
	}{
		"no certificate":    {[]string{"DOOMPROXY_TLS_CERT=testdata/none.pem", "DOOMPROXY_TLS_KEY=" + key}, []string{"tls.cert testdata/none.pem", "no such file"}},
		"no key":            {[]string{"DOOMPROXY_TLS_CERT=" + cert, "DOOMPROXY_TLS_KEY=testdata/none.pem"}, []string{"tls.key testdata/none.pem", "no such file"}},
		"key of another":    {[]string{"DOOMPROXY_TLS_CERT=" + cert, "DOOMPROXY_TLS_KEY=" + odd}, []string{"tls.cert " + cert, "tls.key " + odd, "does not match"}},
		"no CA":             {[]string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE=testdata/none.pem"}, []string{"upstreams.default", "ca_file", "testdata/none.pem"}},
		"no PEM":            {[]string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE=" + file(t, "text")}, []string{"upstreams.default", "ca_file"}},
		"client's odd pair": {[]string{"DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_CERT=" + cert, "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_KEY=" + odd}, []string{"upstreams.default", "client_cert " + cert}},
	} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			c := begin(t, nil, test.env, "serve", "--upstream", nowhere, "--listen", "127.0.0.1:0", "--admin-listen", "")
			if code := report(&told, c.wait(t)); code != 1 {
				t.Errorf("got exit code %d, want 1", code)
			}
			wantText(t, told.String(), test.want...)
		})
	}
}

func TestUpstreamTLS(t *testing.T) {
	server, client := newIdentity(t, "server"), newIdentity(t, "client")
	pair, err := tls.X509KeyPair(server.cert, server.key)
	if err != nil {
		t.Fatal(err)
	}
	sim := httptest.NewUnstartedServer(&simulate.Server{})
	sim.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: trusts(t, client.cert)}
	sim.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that are to fail
	sim.StartTLS()
	defer sim.Close()

	ca := "DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE=" + file(t, string(server.cert))
	cert := "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_CERT=" + file(t, string(client.cert))
	key := "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_KEY=" + file(t, string(client.key))
	for name, test := range map[string]struct {
		env  []string
		want int
	}{
		"both sides show themselves": {[]string{ca, cert, key}, http.StatusOK},
		"without the CA":             {[]string{cert, key}, http.StatusBadGateway},
		"without a certificate":      {[]string{ca}, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, env(append(test.env, "DOOMPROXY_RETRY_MAX_RETRIES=0")...), sim.URL+"/v1")
			resp := do(t, direct(), http.MethodPost, c.base(t)+"/responses", streamBody)
			raw := resp.text(t)
			if resp.status != test.want {
				t.Errorf("got status %d, want %d: %s", resp.status, test.want, raw)
			}
			if test.want == http.StatusOK {
				wantText(t, raw, "response.completed")
			}
		})
	}
}

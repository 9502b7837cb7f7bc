package proxy_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// authority issues certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	})
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
	return a
}

// sign fills in template, with a new key, and signs it, by itself if a has no
// certificate yet.
func (a *authority) sign(template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(1)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, parentKey := template, key
	if a.cert != nil {
		parent, parentKey = a.cert, a.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return cert, key
}

// issue returns a certificate in name, for loopback servers and for clients.
func (a *authority) issue(name string) (cert, key []byte) {
	a.t.Helper()
	c, k := a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// serve starts a server with a certificate of a. change may adapt it before.
func (a *authority) serve(h http.Handler, change func(*httptest.Server)) *httptest.Server {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.issue("upstream.invalid"))
	if err != nil {
		a.t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(h)
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it
	if change != nil {
		change(srv)
	}
	srv.StartTLS()
	a.t.Cleanup(srv.Close)
	return srv
}

// write makes a file of the directory dir, in place of any other of that name
// and without a moment in which it is not whole.
func write(t *testing.T, dir, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// newTLSTransport returns a transport that looks at its files at each request.
func newTLSTransport(t *testing.T, files proxy.TLSFiles) *proxy.TLSTransport {
	t.Helper()
	tr, err := proxy.NewTLSTransport(proxy.NewTransport(), files)
	if err != nil {
		t.Fatal(err)
	}
	tr.LookEvery(0)
	tr.OnError = func(err error) { t.Errorf("OnError was told %v", err) }
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// get returns the body of the answer to a GET.
func get(ctx context.Context, tr http.RoundTripper, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// wantUntrusted gives an error if err is not that of a certificate nobody vouches for.
func wantUntrusted(t *testing.T, err error) {
	t.Helper()
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok {
		t.Errorf("got %v, want an unknown authority", err)
	}
}

// An upstream with a certificate of an authority of its own is trusted if the
// authority is named, and only then.
func TestOwnAuthority(t *testing.T) {
	ca := newAuthority(t)
	sim := &simulate.Server{}
	up := ca.serve(sim, nil)
	with := func(files proxy.TLSFiles) *rig {
		r := newRigFor(t, up.URL, func(c *proxy.Config) { c.Transport = newTLSTransport(t, files) })
		r.sim = sim
		return r
	}
	for _, body := range []string{streamBody, plainBody, "no JSON"} {
		r := with(proxy.TLSFiles{})
		resp, raw, err := r.stream(body)
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, `"code":"upstream_unreachable"`) {
			t.Errorf("without it: got %d, %s, %v, want 502", resp.StatusCode, raw, err)
		}
		r.wantRequests(0)
	}
	r := with(proxy.TLSFiles{CA: write(t, t.TempDir(), "ca.pem", ca.pem)})
	if raw := r.answer(streamBody); !strings.Contains(raw, "response.completed") {
		t.Errorf("got %s, want a whole answer", raw)
	}
	r.wantRequests(1)
}

// An authority that is new in the file is trusted, one that is gone no more,
// not even on a connection that is there already.
func TestChangedAuthority(t *testing.T) {
	ca, other, dir := newAuthority(t), newAuthority(t), t.TempDir()
	closed := make(chan struct{}, 100)
	up := ca.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(srv *httptest.Server) {
		srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				closed <- struct{}{}
			}
		}
	})
	tr := newTLSTransport(t, proxy.TLSFiles{CA: write(t, dir, "ca.pem", other.pem)})
	_, err := get(t.Context(), tr, up.URL)
	wantUntrusted(t, err)
	<-closed

	write(t, dir, "ca.pem", append(slices.Clone(other.pem), ca.pem...))
	for range 2 {
		if _, err := get(t.Context(), tr, up.URL); err != nil {
			t.Fatalf("with the authority's certificate: %v", err)
		}
	}
	select {
	case <-closed:
		t.Error("a connection was closed though nothing had changed")
	default:
	}

	write(t, dir, "ca.pem", other.pem)
	_, err = get(t.Context(), tr, up.URL)
	wantUntrusted(t, err)
	for range 2 { // the idle one, and the one that was just refused
		select {
		case <-closed:
		case <-time.After(5 * time.Second):
			t.Fatal("the connection of before stays open")
		}
	}
}

// Files are not looked at for every request.
func TestFilesAreLookedAtNowAndThen(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	up := ca.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
	tr := newTLSTransport(t, proxy.TLSFiles{CA: write(t, dir, "ca.pem", newAuthority(t).pem)})
	tr.LookEvery(time.Hour)
	write(t, dir, "ca.pem", ca.pem)
	_, err := get(t.Context(), tr, up.URL)
	wantUntrusted(t, err)
	tr.LookEvery(time.Nanosecond)
	if _, err := get(t.Context(), tr, up.URL); err != nil {
		t.Errorf("got %v when it was time to look, want no error", err)
	}
}

// named is a server that tells the names of its clients, which have to have
// certificates of ca. It ends an answer to /held when held is closed.
func (a *authority) named(held <-chan struct{}) *httptest.Server {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return a.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.TLS.PeerCertificates[0].Subject.CommonName
		io.WriteString(w, name) //nolint:errcheck // the client sees it
		if r.URL.Path == "/held" {
			w.(http.Flusher).Flush()
			<-held
			io.WriteString(w, " still") //nolint:errcheck // likewise
		}
	}), func(srv *httptest.Server) {
		srv.TLS.ClientAuth, srv.TLS.ClientCAs = tls.RequireAndVerifyClientCert, pool
	})
}

// The certificate for an upstream that demands one comes from files, and from
// new ones once they change in the way of a Kubernetes secret: a link to their
// directory is replaced. Those that can't be used are told of once.
func TestClientCertificate(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	held := make(chan struct{})
	up := ca.named(held)
	version := 0
	show := func(n int) {
		t.Helper()
		if err := os.Symlink(strconv.Itoa(n), filepath.Join(dir, "new")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "data")); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(cert, key []byte) {
		t.Helper()
		version++
		sub := filepath.Join(dir, strconv.Itoa(version))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string][]byte{"tls.crt": cert, "tls.key": key} {
			// All versions are of the same size and time.
			path := write(t, sub, name, append(text, bytes.Repeat([]byte("\n"), 2000-len(text))...))
			if err := os.Chtimes(path, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}
		show(version)
	}
	mount(ca.issue("one"))
	files := proxy.TLSFiles{
		CA:         write(t, dir, "ca.pem", ca.pem),
		ClientCert: filepath.Join(dir, "data", "tls.crt"), ClientKey: filepath.Join(dir, "data", "tls.key"),
	}
	if _, err := get(t.Context(), newTLSTransport(t, proxy.TLSFiles{CA: files.CA}), up.URL); err == nil {
		t.Error("got an answer without a certificate, want none")
	}
	tr := newTLSTransport(t, files)
	var told []error
	tr.OnError = func(err error) { told = append(told, err) }
	want := func(name string, tellings int) {
		t.Helper()
		for range 3 {
			got, err := get(t.Context(), tr, up.URL)
			if err != nil || got != name {
				t.Errorf("got the name %q and %v, want %q", got, err, name)
			}
		}
		if len(told) != tellings {
			t.Errorf("got %d errors told, want %d: %v", len(told), tellings, told)
		}
	}
	want("one", 0)

	req, err := http.NewRequest(http.MethodGet, up.URL+"/held", nil)
	if err != nil {
		t.Fatal(err)
	}
	underWay, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer underWay.Body.Close()
	mount(ca.issue("two"))
	want("two", 0)
	close(held)
	if got, err := io.ReadAll(underWay.Body); err != nil || string(got) != "one still" {
		t.Errorf("a request under way: got %q and %v, want it to go on", got, err)
	}

	cert, _ := ca.issue("three")
	_, key := ca.issue("four")
	mount(cert, key) // of another
	want("two", 1)
	mount(cert[:len(cert)/2], key)
	want("two", 2)
	if err := os.Remove(filepath.Join(dir, "data")); err != nil {
		t.Fatal(err)
	}
	want("two", 3)
	for _, err := range told {
		if !errors.Is(err, proxy.ErrTLSFiles) || !strings.Contains(err.Error(), files.ClientCert) {
			t.Errorf("got %v, want ErrTLSFiles with the path", err)
		}
	}
	if !errors.Is(told[2], fs.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", told[2])
	}
	show(2)
	want("two", 3)
	show(3)
	want("two", 4) // it was good in between
	tr.OnError = nil
	mount(nil, nil)
	want("two", 4)
	mount(ca.issue("five"))
	want("five", 4)
}

// A file that is written in place is noticed, too.
func TestFileWrittenInPlace(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	up := ca.named(nil)
	cert, key := ca.issue("one")
	files := proxy.TLSFiles{
		CA:         write(t, dir, "ca.pem", ca.pem),
		ClientCert: write(t, dir, "tls.crt", cert), ClientKey: write(t, dir, "tls.key", key),
	}
	tr := newTLSTransport(t, files)
	tr.OnError = nil // the certificate is another's for a moment
	for i, name := range []string{"one", "two", "six"} {
		if i > 0 {
			cert, key = ca.issue(name)
			for path, text := range map[string][]byte{files.ClientCert: cert, files.ClientKey: key} {
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
				// Sizes may well be equal, and clocks of file systems are coarse.
				at := time.Now().Add(time.Duration(i) * time.Second)
				if err := os.Chtimes(path, at, at); err != nil {
					t.Fatal(err)
				}
				get(t.Context(), tr, up.URL) //nolint:errcheck // with either certificate
			}
		}
		if got, err := get(t.Context(), tr, up.URL); err != nil || got != name {
			t.Errorf("got %q and %v, want %q", got, err, name)
		}
	}
}

// A file that could not be read for a while is taken in although nothing of it
// has changed since.
func TestFileThatWasUnreadable(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	up := ca.serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
	tr := newTLSTransport(t, proxy.TLSFiles{CA: write(t, dir, "ca.pem", newAuthority(t).pem)})
	told := 0
	tr.OnError = func(error) { told++ }
	path := filepath.Join(dir, "next.pem")
	if err := os.WriteFile(path, ca.pem, 0o000); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(path); err == nil {
		t.Skip("this user may read any file")
	}
	if err := os.Rename(path, filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := get(t.Context(), tr, up.URL)
		wantUntrusted(t, err)
	}
	if err := os.Chmod(filepath.Join(dir, "ca.pem"), 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t.Context(), tr, up.URL); err != nil || told != 1 {
		t.Errorf("got %v now that it can be read, and %d errors told, want no error, and 1", err, told)
	}
}

// Requests of which each may be the one that notices a change.
func TestFilesChangeUnderLoad(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	up := ca.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "fine") //nolint:errcheck // the client sees it
	}), nil)
	tr := newTLSTransport(t, proxy.TLSFiles{CA: write(t, dir, "ca.pem", ca.pem)})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 50 {
				if got, err := get(t.Context(), tr, up.URL); err != nil || got != "fine" {
					t.Errorf("got %q and %v, want no error", got, err)
				}
			}
		})
	}
	for range 20 {
		write(t, dir, "ca.pem", ca.pem)
		if _, err := get(t.Context(), tr, up.URL); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}

func TestNewTLSTransportRefusesFiles(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	certText, keyText := ca.issue("client")
	_, otherText := ca.issue("other")
	authority, cert, key := write(t, dir, "ca.pem", ca.pem), write(t, dir, "tls.crt", certText), write(t, dir, "tls.key", keyText)
	other, empty, missing := write(t, dir, "other.key", otherText), write(t, dir, "empty", nil), filepath.Join(dir, "missing")
	garbage := write(t, dir, "garbage", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	for name, tc := range map[string]struct {
		files proxy.TLSFiles
		want  []string // in the error's text
	}{
		"no authority":      {proxy.TLSFiles{CA: missing}, []string{"ca_file", missing}},
		"empty authority":   {proxy.TLSFiles{CA: empty}, []string{"ca_file", empty, "holds no PEM certificate", "want"}},
		"key as authority":  {proxy.TLSFiles{CA: key}, []string{"ca_file", key, "holds no PEM certificate"}},
		"broken authority":  {proxy.TLSFiles{CA: garbage}, []string{"ca_file", garbage, "holds no PEM certificate"}},
		"directory":         {proxy.TLSFiles{CA: dir}, []string{"ca_file", dir}},
		"no key":            {proxy.TLSFiles{CA: authority, ClientCert: cert}, []string{"client_cert", cert, "no client_key", "want"}},
		"no certificate":    {proxy.TLSFiles{ClientKey: key}, []string{"client_key", key, "no client_cert", "want"}},
		"key of another":    {proxy.TLSFiles{ClientCert: cert, ClientKey: other}, []string{"client_cert", cert, "client_key", other, "match", "want"}},
		"swapped":           {proxy.TLSFiles{ClientCert: key, ClientKey: cert}, []string{"client_cert", key, "client_key", cert}},
		"empty key":         {proxy.TLSFiles{ClientCert: cert, ClientKey: empty}, []string{"client_cert", cert, "client_key", empty}},
		"missing key":       {proxy.TLSFiles{ClientCert: cert, ClientKey: missing}, []string{"client_cert", cert, "client_key", missing}},
		"bad authority too": {proxy.TLSFiles{CA: empty, ClientCert: cert, ClientKey: key}, []string{"ca_file", empty}},
	} {
		tr, err := proxy.NewTLSTransport(proxy.NewTransport(), tc.files)
		if tr != nil || !errors.Is(err, proxy.ErrTLSFiles) {
			t.Errorf("%s: got %v, want ErrTLSFiles", name, err)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, want %q in it", name, err, want)
			}
		}
		if secret := string(keyText[30:60]); strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells of the key: %v", name, err)
		}
	}
	tr, err := proxy.NewTLSTransport(proxy.NewTransport(), proxy.TLSFiles{CA: authority, ClientCert: cert, ClientKey: key})
	if err != nil {
		t.Fatalf("good files: got %v", err)
	}
	tr.CloseIdleConnections()
}

// newHTTP2Rig starts a rig whose upstream speaks HTTP/2.
func newHTTP2Rig(t *testing.T, change func(*proxy.Config), script func(int, *simulate.Request) simulate.Scenario) *rig {
	t.Helper()
	ca, sim := newAuthority(t), &simulate.Server{Script: script}
	up := ca.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("got a request in %s, want HTTP/2", r.Proto)
		}
		sim.ServeHTTP(w, r)
	}), func(srv *httptest.Server) { srv.EnableHTTP2 = true })
	tr := newTLSTransport(t, proxy.TLSFiles{CA: write(t, t.TempDir(), "ca.pem", ca.pem)})
	r := newRigFor(t, up.URL, func(c *proxy.Config) {
		c.Transport = tr
		if change != nil {
			change(c)
		}
	})
	r.sim = sim
	return r
}

// oneConnection checks that all requests came over the same one.
func (r *rig) oneConnection() {
	r.t.Helper()
	for _, req := range r.sim.Requests() {
		if first := r.upstream(0).RemoteAddr; req.RemoteAddr != first {
			r.t.Errorf("got a request from %s, want all over the connection from %s", req.RemoteAddr, first)
		}
	}
}

// When the client leaves, its stream is reset, and no other.
func TestHTTP2ClientLeaves(t *testing.T) {
	for _, mode := range []proxy.Mode{proxy.ModeEnforce, proxy.ModeOff} {
		t.Run(string(mode), func(t *testing.T) {
			goOn := make(chan struct{})
			release := sync.OnceFunc(func() { close(goOn) })
			defer release()
			r := newHTTP2Rig(t, func(c *proxy.Config) { c.Mode = mode }, func(n int, _ *simulate.Request) simulate.Scenario {
				switch n {
				case 0: // runs all the time
					return simulate.Scenario{Before: func(write int) {
						if write == 1 {
							<-goOn
						}
					}}
				case 1:
					return simulate.Scenario{End: simulate.EndHang, Limit: 5}
				}
				return simulate.Scenario{}
			})
			running, err := r.post(t.Context(), streamBody)
			if err != nil {
				t.Fatal(err)
			}
			defer running.Body.Close()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			resp, err := r.post(ctx, streamBody)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			waitFor(resp.Body, "event: ")
			leave()
			within(t, 100*time.Millisecond, "resetting the stream", r.upstream(1).Gone)
			r.answer(streamBody)
			release()
			if raw, err := io.ReadAll(running.Body); err != nil || !strings.Contains(string(raw), "response.completed") {
				t.Errorf("got %q and %v of the stream beside, want it whole", raw, err)
			}
			r.wantRequests(3)
			r.oneConnection()
			r.settled(3)
			r.wantMetric(1, "doomproxy_requests_total", "outcome", "client_gone")
		})
	}
}

// A cut resets the attempt's stream at once, while the next one runs over the
// same connection.
func TestHTTP2Cut(t *testing.T) {
	closed := make(chan struct{})
	r := newHTTP2Rig(t, nil, func(n int, _ *simulate.Request) simulate.Scenario {
		if n == 0 {
			return loop()
		}
		return simulate.Scenario{Before: func(write int) {
			if write == 1 { // this attempt has begun, and goes on when the first is closed
				<-closed
			}
		}}
	})
	resp, err := r.post(t.Context(), streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waitFor(resp.Body, "doomproxy resample=1")
	within(t, 100*time.Millisecond, "resetting the cut attempt's stream", r.upstream(0).Gone)
	close(closed)
	if raw, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(raw), "response.completed") {
		t.Errorf("got %q and %v behind the cut, want a whole answer", raw, err)
	}
	r.wantRequests(2)
	r.oneConnection()
}

// An HTTP/2 connection over which nothing comes any more is given up, though
// no answer is waited for with a bound.
func TestHTTP2DeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		go io.Copy(io.Discard, theirs)                     //nolint:errcheck // ends with the test
		go theirs.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) //nolint:errcheck // an empty SETTINGS frame, and nothing else ever
		defer theirs.Close()
		tr := proxy.NewTransport()
		defer tr.CloseIdleConnections()
		tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
		tr.Protocols = new(http.Protocols)
		tr.Protocols.SetUnencryptedHTTP2(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		_, err := get(ctx, tr, "http://upstream.invalid/")
		if took := time.Since(start); err == nil || took != 30*time.Second {
			t.Errorf("got %v after %v, want an error after 30s", err, took)
		}
	})
}

// IPv6 literals are upstreams like any other.
func TestIPv6Upstream(t *testing.T) {
	for _, scheme := range []string{"http", "https"} {
		l, err := net.Listen("tcp", "[::1]:0")
		if err != nil {
			t.Skipf("this machine has no ::1: %v", err)
		}
		ca, sim := newAuthority(t), &simulate.Server{}
		host := ""
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host = r.Host
			sim.ServeHTTP(w, r)
		})
		if scheme == "https" {
			ca.serve(h, func(srv *httptest.Server) { srv.Listener.Close(); srv.Listener = l })
		} else {
			srv := httptest.NewUnstartedServer(h)
			srv.Listener.Close()
			srv.Listener = l
			srv.Start()
			t.Cleanup(srv.Close)
		}
		r := newRigFor(t, scheme+"://"+l.Addr().String()+"/v1", func(c *proxy.Config) {
			c.Transport = newTLSTransport(t, proxy.TLSFiles{CA: write(t, t.TempDir(), "ca.pem", ca.pem)})
		})
		r.sim = sim
		if raw := r.answer(streamBody); !strings.Contains(raw, "response.completed") {
			t.Errorf("%s: got %s, want a whole answer", scheme, raw)
		}
		if got := r.upstream(0).Path; got != "/v1/responses" || host != l.Addr().String() {
			t.Errorf("%s: got the path %s of %s, want /v1/responses of %s", scheme, got, host, l.Addr())
		}
	}
}

// Headers beyond the limit are no answer; the largest that are in use pass.
func TestHeaderLimit(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		ca := newAuthority(t)
		up := ca.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			size := 900 << 10
			if r.Header.Get("X-Test") == "more" {
				size = 1100 << 10
			}
			w.Header().Set("X-Large", strings.Repeat("x", size))
			io.WriteString(w, "fine") //nolint:errcheck // the client sees it
		}), func(srv *httptest.Server) { srv.EnableHTTP2 = http2 })
		r := newRigFor(t, up.URL, func(c *proxy.Config) {
			c.Transport = newTLSTransport(t, proxy.TLSFiles{CA: write(t, t.TempDir(), "ca.pem", ca.pem)})
		})
		// An answer that is whole, one that is passed through.
		for _, body := range []string{plainBody, "no JSON"} {
			resp, raw, err := r.stream(body, "X-Test", "less")
			if err != nil || resp.StatusCode != http.StatusOK || raw != "fine" || len(resp.Header.Get("X-Large")) != 900<<10 {
				t.Errorf("HTTP/2 %t, %s: got %d, %.100q, %v below the limit, want the answer", http2, body, resp.StatusCode, raw, err)
			}
			resp, raw, err = r.stream(body, "X-Test", "more")
			if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.Contains(raw, `"code":"upstream_unreachable"`) {
				t.Errorf("HTTP/2 %t, %s: got %d, %.100q, %v beyond the limit, want 502", http2, body, resp.StatusCode, raw, err)
			}
		}
		resp, raw, err := r.stream(streamBody, "X-Test", "more")
		if err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Errorf("HTTP/2 %t, a stream: got %d, %.100q, %v beyond the limit, want 502", http2, resp.StatusCode, raw, err)
		}
	}
}

// Set where this binary runs as a process of its own, with an environment that
// names a forward proxy.
const (
	envHelper    = "DOOMPROXY_TEST_ENVIRONMENT_PROXY"
	envHelperCA  = "DOOMPROXY_TEST_CA"
	envHelperURL = "DOOMPROXY_TEST_DIRECT" // host and port
)

// The environment's proxies are used, but not for hosts that it excepts. The
// environment is read once in a process, so this takes another one.
func TestEnvironmentProxy(t *testing.T) {
	ca, sim := newAuthority(t), &simulate.Server{}
	secure := ca.serve(sim, nil)
	direct := httptest.NewServer(sim)
	t.Cleanup(direct.Close)

	var mu sync.Mutex
	var seen []string
	var tunnels sync.WaitGroup
	forward := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.RequestURI)
		mu.Unlock()
		if r.Method != http.MethodConnect {
			sim.ServeHTTP(w, r) // in the place of the host that only it knows
			return
		}
		up, err := net.Dial("tcp", secure.Listener.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer up.Close()
		w.WriteHeader(http.StatusOK)
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		tunnels.Add(1)
		defer tunnels.Done()
		var back sync.WaitGroup
		back.Go(func() {
			io.Copy(conn, up) //nolint:errcheck // ends with the connections
			conn.Close()
		})
		io.Copy(up, buf) //nolint:errcheck // likewise
		up.Close()
		back.Wait()
	}))
	t.Cleanup(func() { forward.Close(); tunnels.Wait() })

	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run=^TestEnvironmentProxyHelper$", "-test.count=1")
	for _, v := range os.Environ() { // without any that is set here
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env,
		"HTTPS_PROXY="+forward.URL, "HTTP_PROXY="+forward.URL, "NO_PROXY=direct.invalid",
		envHelper+"=1", envHelperCA+"="+write(t, t.TempDir(), "ca.pem", ca.pem), envHelperURL+"="+direct.Listener.Addr().String())
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Fatalf("got %v of the other process, which wrote:\n%s", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	want := []string{"CONNECT upstream.invalid:443", "POST http://upstream.invalid/v1/responses"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q at the forward proxy, want %q", seen, want)
	}
	if got := len(sim.Requests()); got != 3 {
		t.Errorf("got %d requests at the upstreams, want 3", got)
	}
}

// TestEnvironmentProxyHelper is the other process of TestEnvironmentProxy.
func TestEnvironmentProxyHelper(t *testing.T) {
	if os.Getenv(envHelper) == "" {
		t.Skip("runs in a process that TestEnvironmentProxy starts")
	}
	through := newTLSTransport(t, proxy.TLSFiles{CA: os.Getenv(envHelperCA)})
	direct := proxy.NewTransport()
	t.Cleanup(direct.CloseIdleConnections)
	dial := direct.DialContext
	direct.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != "direct.invalid:80" {
			t.Errorf("got a connection to %s, want it straight to the upstream", addr)
		}
		return dial(ctx, network, os.Getenv(envHelperURL))
	}
	for _, tc := range []struct {
		url       string
		transport http.RoundTripper
	}{
		{"https://upstream.invalid", through},
		{"http://upstream.invalid", through},
		{"http://direct.invalid", direct},
	} {
		r := newRigFor(t, tc.url, func(c *proxy.Config) { c.Transport = tc.transport })
		if raw := r.answer(streamBody); !strings.Contains(raw, "response.completed") {
			t.Errorf("%s: got %s, want a whole answer", tc.url, raw)
		}
	}
}

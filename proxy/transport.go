package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxResponseHeader bounds the headers of an answer, in bytes. APIs send a
	// few thousand.
	maxResponseHeader = 1 << 20
	// pingAfter is how long nothing may come over an HTTP/2 connection before it
	// is asked for a sign of life, and pingTimeout how long that may take. Middle
	// boxes forget a silent connection after a minute or more, without a word.
	pingAfter, pingTimeout = 15 * time.Second, 15 * time.Second
	// tlsFilesInterval is how often files of certificates are looked at, if there
	// are requests.
	tlsFilesInterval = 5 * time.Second
)

// readBuffer is how much is read from an upstream at a time, in bytes: with the
// 4 KiB of net/http a stream that comes fast takes twice as many calls, and with
// more each stream takes more memory.
const readBuffer = 8 << 10

// NewTransport returns the transport that attempts are sent with; it is the
// caller's to change until its first request. It asks for no compression by
// itself, keeps connections for reuse, and sets no bound on the wait for an
// answer: models think long. That an HTTP/2 connection went dead it finds out by
// pings. The environment's HTTPS_PROXY, HTTP_PROXY and NO_PROXY are followed.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		MaxIdleConns:           0, // the bound per host is enough: there is one host
		MaxIdleConnsPerHost:    100,
		IdleConnTimeout:        90 * time.Second,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: maxResponseHeader,
		DisableCompression:     true,
		ReadBufferSize:         readBuffer,
	}
}

// ErrTLSFiles is the error of TLSFiles that cannot be used. It comes with the
// setting, the path and what is wrong.
var ErrTLSFiles = errors.New("unusable TLS files")

// TLSFiles are the paths of PEM files; empty means none.
type TLSFiles struct {
	// CA holds certificates of authorities that are trusted besides the system's.
	CA string
	// ClientCert is shown to an upstream that demands a certificate, with any
	// intermediate ones behind it; ClientKey is its key, not encrypted. One is
	// nothing without the other.
	ClientCert, ClientKey string
}

// TLSTransport is an http.RoundTripper with
// certificates from files that are read again when they change. New connections
// are made with the new ones; requests that are under way go on, and then their
// connections are used no more.
//
// NewTLSTransport makes one. It is safe for concurrent use.
type TLSTransport struct {
	// OnError is told when files have changed into some that cannot be used,
	// once for each change; those from before stay in use. It wraps ErrTLSFiles.
	// It is to be set before the first request, and is called by one request at
	// a time, which waits for it; nil means that nobody is told.
	OnError func(error)

	base     *http.Transport
	files    TLSFiles
	interval time.Duration // between two looks at the files
	current  atomic.Pointer[http.Transport]

	mu     sync.Mutex // guards all below, and is held to look at the files
	looked time.Time
	seen   []fs.FileInfo // at the last look
	loaded []fs.FileInfo // of what current was made from
}

// NewTLSTransport returns a TLSTransport for files, which is like base in all
// else; base itself is not used, and must not change any more. No files at all
// are fine. The error wraps ErrTLSFiles.
func NewTLSTransport(base *http.Transport, files TLSFiles) (*TLSTransport, error) {
	t := &TLSTransport{base: base, files: files, interval: tlsFilesInterval, looked: time.Now()}
	if err := t.load(); err != nil {
		return nil, err
	}
	return t, nil
}

// RoundTrip implements http.RoundTripper.
func (t *TLSTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.refresh()
	return t.current.Load().RoundTrip(r) //nolint:wrapcheck // it stands for that transport
}

// CloseIdleConnections closes the connections that no request uses.
func (t *TLSTransport) CloseIdleConnections() { t.current.Load().CloseIdleConnections() }

// refresh takes in the files if they have changed and it is time to look.
func (t *TLSTransport) refresh() {
	if t.files == (TLSFiles{}) || !t.mu.TryLock() {
		return // a look may take its time on a slow disk: one request at most waits for it
	}
	defer t.mu.Unlock()
	if time.Since(t.looked) < t.interval {
		return
	}
	t.looked = time.Now()
	if err := t.load(); err != nil && t.OnError != nil {
		t.OnError(err)
	}
}

// load puts a new transport in place if the files are not those of the current
// one. It tries each time but returns an error only the first time after a
// change: a file may be unreadable for other reasons than what is in it.
func (t *TLSTransport) load() error {
	now := t.files.stat() // before they are read, so that no change in between is missed
	news := !sameFiles(now, t.seen)
	t.seen = now
	if sameFiles(now, t.loaded) {
		return nil
	}
	config, err := t.files.config()
	if err != nil {
		if news {
			return err
		}
		return nil
	}
	next := t.base.Clone()
	next.TLSClientConfig = config
	t.loaded = now
	if old := t.current.Swap(next); old != nil {
		old.CloseIdleConnections() // those in use it closes after IdleConnTimeout at the latest
	}
	return nil
}

// stat returns what the system knows of each file, nil where there is none.
func (f TLSFiles) stat() []fs.FileInfo {
	infos := make([]fs.FileInfo, 0, 3)
	for _, path := range []string{f.CA, f.ClientCert, f.ClientKey} {
		info, _ := os.Stat(path) //nolint:errcheck // reading it will tell
		infos = append(infos, info)
	}
	return infos
}

// sameFiles reports whether nothing was changed between two stats. A file that
// another one was renamed over, or a symbolic link that points elsewhere now, is
// a change even if size and time are the same.
func sameFiles(a, b []fs.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b fs.FileInfo) bool {
		if a == nil || b == nil {
			return a == b
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}

// config reads the files.
func (f TLSFiles) config() (*tls.Config, error) {
	c := new(tls.Config)
	if f.CA != "" {
		text, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("%w: ca_file: %w", ErrTLSFiles, err)
		}
		if c.RootCAs, err = x509.SystemCertPool(); err != nil {
			c.RootCAs = x509.NewCertPool() // then only the file's are trusted
		}
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%w: ca_file %s: holds no PEM certificate; want one or more", ErrTLSFiles, f.CA)
		}
	}
	switch {
	case f.ClientCert == "" && f.ClientKey == "":
	case f.ClientKey == "":
		return nil, fmt.Errorf("%w: client_cert %s: has no client_key; want both or none", ErrTLSFiles, f.ClientCert)
	case f.ClientCert == "":
		return nil, fmt.Errorf("%w: client_key %s: has no client_cert; want both or none", ErrTLSFiles, f.ClientKey)
	default:
		pair, err := tls.LoadX509KeyPair(f.ClientCert, f.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("%w: client_cert %s, client_key %s: %w; want a PEM certificate and its PEM key, not encrypted", ErrTLSFiles, f.ClientCert, f.ClientKey, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

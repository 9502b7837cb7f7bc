package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
)

// tlsFiles are what agents are served with. Both are empty without TLS.
type tlsFiles struct{ cert, key string }

// secure returns how agents are served, nil for without TLS. Each connection gets
// the certificate that the files hold when it is made.
func (a *app) secure(files tlsFiles, log *slog.Logger) (*tls.Config, error) {
	if files.cert == "" {
		return nil, nil
	}
	pair := &reread[*tls.Certificate]{
		setting: "tls.cert",
		files:   []string{files.cert, files.key},
		every:   a.every,
		log:     log,
		load: func() (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(files.cert, files.key)
			if err != nil {
				return nil, fmt.Errorf("tls.cert %s with tls.key %s: %w", files.cert, files.key, err)
			}
			return &c, nil
		},
	}
	if err := pair.open(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return pair.get(), nil
		},
	}, nil
}

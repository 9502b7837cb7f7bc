package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/doomproxy/doomproxy/config"
)

// secure returns how agents are served, nil for without TLS. Each connection gets
// the certificate that the files hold when it is made.
func (a *app) secure(files config.TLS, log *slog.Logger) (*tls.Config, error) {
	if files.Cert == "" {
		return nil, nil
	}
	pair := &reread[*tls.Certificate]{
		setting: "tls.cert",
		files:   []string{files.Cert, files.Key},
		every:   a.every,
		log:     log,
		load: func() (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			if err != nil {
				return nil, fmt.Errorf("tls.cert %s with tls.key %s: %w", files.Cert, files.Key, err)
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

package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/doomproxy/doomproxy/config"
)

// authorizer returns what tells whether a token lets an agent in, nil if agents
// need none.
func (a *app) authorizer(files []config.Token, log *slog.Logger) (func(token string) bool, error) {
	var known []*reread[digest]
	for _, f := range files {
		t := &reread[digest]{
			setting: "auth.tokens." + f.Name,
			files:   []string{f.File},
			every:   a.every,
			log:     log,
			load:    func() (digest, error) { return readToken(f.File) },
		}
		if err := t.open(); err != nil {
			return nil, fmt.Errorf("auth.tokens: %s: %w", f.Name, err)
		}
		known = append(known, t)
	}
	if len(known) == 0 {
		return nil, nil
	}
	return func(token string) bool {
		// How long it takes tells neither of a token nor which of them it was.
		given, equal := digest(sha256.Sum256([]byte(token))), 0
		for _, t := range known {
			want := t.get()
			equal |= subtle.ConstantTimeCompare(given[:], want[:])
		}
		return equal == 1
	}, nil
}

// digest is what is kept of a token.
type digest [sha256.Size]byte

// readToken reads the token that a file holds.
func readToken(path string) (digest, error) {
	text, err := config.ReadText(path)
	switch {
	case err != nil:
		return digest{}, err
	case text == "":
		return digest{}, fmt.Errorf("%s: %w", path, errNoToken)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }):
		return digest{}, fmt.Errorf("%s: %w", path, errOddToken)
	}
	return sha256.Sum256([]byte(text)), nil
}

var (
	errNoToken  = errors.New("the file is empty, want a token")
	errOddToken = errors.New("want one line of visible ASCII characters without blanks: a header has to hold it")
)

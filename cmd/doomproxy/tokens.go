package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
)

// tokenFile is a file that holds one token.
type tokenFile struct{ name, path string }

var tokenEntry = regexp.MustCompile(`^([A-Za-z0-9_-]+)=([^=\r\n\x00][^\r\n\x00]*)$`)

// tokenFiles is a list of named files.
func tokenFiles(target *[]tokenFile) value {
	return value{
		allowed: "NAME=FILE, or several with commas between, where each file holds one token and each name is another one",
		set: func(text string) (string, bool) {
			*target = nil
			for entry := range strings.SplitSeq(text, ",") {
				m := tokenEntry.FindStringSubmatch(strings.TrimSpace(entry))
				if m == nil || slices.ContainsFunc(*target, func(f tokenFile) bool { return f.name == m[1] }) {
					return "", false
				}
				*target = append(*target, tokenFile{m[1], m[2]})
			}
			return "", true
		},
		shown: func(text string) string {
			// What is no entry may be a token, given in place of its file.
			list := strings.Split(text, ",")
			for i, entry := range list {
				if !tokenEntry.MatchString(strings.TrimSpace(entry)) {
					list[i] = "…"
				}
			}
			return strings.Join(list, ",")
		},
	}
}

// authorizer returns what tells whether a token lets an agent in, nil if agents
// need none.
func (a *app) authorizer(files []tokenFile, log *slog.Logger) (func(token string) bool, error) {
	var known []*reread[digest]
	for _, f := range files {
		t := &reread[digest]{
			setting: "auth.tokens." + f.name,
			files:   []string{f.path},
			every:   a.every,
			log:     log,
			load:    func() (digest, error) { return readToken(f.path) },
		}
		if err := t.open(); err != nil {
			return nil, fmt.Errorf("auth.tokens: %s: %w", f.name, err)
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
	text, err := readText(path)
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

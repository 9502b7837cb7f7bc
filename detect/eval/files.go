package main

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// textKind is a kind of ordinary text, told by a file's name.
type textKind string

// What a model may write or quote, from the likeliest to the least.
var textKinds = []textKind{"prose", "manuals", "markup", "source", "tests", "data"}

var kindOfExtension = map[string]textKind{
	".md": "prose", ".txt": "prose", ".rst": "prose", ".adoc": "prose", "": "prose",
	".1": "manuals", ".2": "manuals", ".3": "manuals", ".5": "manuals", ".7": "manuals", ".8": "manuals", ".html": "manuals",
	".xml": "markup", ".svg": "markup", ".css": "markup", ".yaml": "markup", ".yml": "markup", ".toml": "markup", ".tmpl": "markup",
	".go": "source", ".c": "source", ".h": "source", ".s": "source", ".S": "source", ".cc": "source", ".cpp": "source",
	".py": "source", ".js": "source", ".ts": "source", ".java": "source", ".rs": "source", ".sh": "source", ".pl": "source",
	".proto": "source", ".rb": "source", ".sql": "source", ".pm": "source", ".lua": "source", ".el": "source",
	".json": "data", ".csv": "data", ".golden": "data", ".sum": "data", ".xsd": "data", ".tsv": "data",
}

// file is the text of a file.
type file struct {
	name string
	kind textKind
	text []byte
}

// usualDirs names where most machines with Go have text.
func usualDirs(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	dirs := strings.Fields(string(out))
	for _, dir := range []string{"/usr/share/doc", "/usr/share/common-licenses", "/usr/share/man", "/usr/share/info", "/usr/lib/python3", "/usr/share/perl"} {
		if _, err := os.Stat(dir); err == nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// files yields the texts below dirs, at most stream bytes of each. What cannot
// be read, or is no text, is left out.
func files(dirs []string) iter.Seq[file] {
	return func(yield func(file) bool) {
		for _, dir := range dirs {
			err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
				if err != nil || !entry.Type().IsRegular() {
					return nil // unreadable, or a link to what is read elsewhere
				}
				kind, ok := kindOf(name)
				if !ok {
					return nil
				}
				text, err := read(name)
				if err != nil || len(text) == 0 || !utf8.Valid(text[:max(0, len(text)-utf8.UTFMax)]) {
					return nil
				}
				if !yield(file{name, kind, text}) {
					return fs.SkipAll
				}
				return nil
			})
			if errors.Is(err, fs.SkipAll) {
				return
			}
		}
	}
}

func kindOf(name string) (textKind, bool) {
	base := strings.TrimSuffix(name, ".gz")
	kind, ok := kindOfExtension[filepath.Ext(base)]
	switch {
	case !ok:
		return "", false
	case strings.Contains(name, "/testdata/"):
		return "data", true
	case kind == "source" && strings.Contains(name, "test"):
		return "tests", true
	}
	return kind, true
}

func read(name string) ([]byte, error) {
	f, err := os.Open(name) // #nosec G304 -- the caller names the directories
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	r := io.Reader(f)
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(r, stream))
}

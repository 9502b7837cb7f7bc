package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]textKind{
		"/doc/README":                "prose",
		"/doc/changelog.txt.gz":      "prose",
		"/man/man1/ls.1.gz":          "manuals",
		"/src/main.go":               "source",
		"/src/main_test.go":          "tests",
		"/src/test/README.md":        "prose",
		"/src/testdata/input.go":     "data",
		"/src/data.json":             "data",
		"/src/deploy.yaml":           "markup",
		"/src/picture.png":           "",
		"/src/archive.tar.gz":        "",
		"/src/testdata/recorded.bin": "",
	} {
		got, ok := kindOf(name)
		if got != want || ok != (want != "") {
			t.Errorf("kindOf(%q): got %q, %v, want %q", name, got, ok, want)
		}
	}
}

// TestFiles reads text, zipped or not, and leaves out what is none.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if !strings.HasSuffix(name, ".gz") {
			_, err = f.WriteString(text)
		} else {
			z := gzip.NewWriter(f)
			if _, err = z.Write([]byte(text)); err == nil {
				err = z.Close()
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write("a.txt", "plain")
	write("b.md.gz", "zipped")
	write("c.txt", "\xFF\xFE no text at all")
	write("d.bin", "unknown")
	write("e.go", strings.Repeat("long\n", stream))
	write("f.txt", "")
	got := map[string]string{}
	for f := range files([]string{dir, filepath.Join(dir, "missing")}) {
		got[filepath.Base(f.name)] = string(f.text)
	}
	if len(got) != 3 || got["a.txt"] != "plain" || got["b.md.gz"] != "zipped" || len(got["e.go"]) != stream {
		t.Errorf("got %d files, a.txt %q, b.md.gz %q, e.go of %d bytes", len(got), got["a.txt"], got["b.md.gz"], len(got["e.go"]))
	}
}

// TestFlags returns one signal for each part that raised any.
func TestFlags(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("This will be said again and again. ", 500))
	if got := flags(text, detect.Thinking); len(got) != 3 || got[0].Part != detect.Exact {
		t.Errorf("got %+v, want one signal of each part", got)
	}
	if got := flags([]byte("Nothing."), detect.Thinking); len(got) != 0 {
		t.Errorf("got %+v, want none", got)
	}
}

package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/config"
)

// Whatever a file holds: no panic, and a configuration without secrets that can
// be loaded is shown as one that means the same.
func FuzzLoad(f *testing.F) {
	example, err := os.ReadFile(exampleFile)
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{string(example), everything, "a: &a [*a]", "recovery: {<<: {mode: off}}", "? {a: b}\n: c", "upstreams: {a: !!binary aGk=}"} {
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "config.yaml")
	shown := filepath.Join(f.TempDir(), "shown.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := config.Load(&config.Sources{File: path})
		l.Check() //nolint:errcheck // it must not panic
		b, yamlErr := l.YAML()
		if yamlErr != nil {
			t.Fatal(yamlErr)
		}
		if err != nil || strings.Contains(string(b), "…") {
			return
		}
		if err := os.WriteFile(shown, b, 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := config.Load(&config.Sources{File: shown})
		if errors.Is(err, config.ErrTooLarge) {
			return
		}
		if err != nil {
			t.Fatalf("%v, in:\n%s", err, b)
		}
		if !reflect.DeepEqual(again.Config, l.Config) {
			t.Errorf("got %+v\nwant %+v\nfrom:\n%s", again.Config, l.Config, b)
		}
	})
}

package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// deployed is a path under deploy/.
func deployed(path ...string) string {
	return filepath.Join(append([]string{"..", "deploy"}, path...)...)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// readYAML decodes a YAML or JSON file. A key that into does not have is an error.
func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(readFile(t, path)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// command runs a program that is no part of this repository, and returns what it
// printed.
func command(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &out, &errs)
	}
	return strings.TrimSpace(out.String())
}

// within asks until the answer is yes, or the time is over.
func within(d time.Duration, yes func() bool) bool {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(d); !yes(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// waitFor ends the test if the answer is not yes soon.
func waitFor(t *testing.T, what string, yes func() bool) {
	t.Helper()
	if !within(20*time.Second, yes) {
		t.Fatalf("after 20 s still waiting for %s", what)
	}
}

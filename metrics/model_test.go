package metrics_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/doomproxy/doomproxy/metrics"
)

func TestModelLabel(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "grok-4", "grok-4"},
		{"with slash and space", "vendor/model 7b", "vendor/model 7b"},
		{"empty", "", "unknown"},
		{"not UTF-8", "grok\xff", "unknown"},
		{"not UTF-8 past the cut", strings.Repeat("a", 100) + "\xff", "unknown"},
		{"line break", "grok\n4", "unknown"},
		{"NUL", "grok\x00", "unknown"},
		{"C1 control", "grok\u0085", "unknown"},
		{"64 characters", strings.Repeat("m", 64), strings.Repeat("m", 64)},
		{"65 characters", strings.Repeat("m", 65), strings.Repeat("m", 64)},
		{"64 characters of two bytes", strings.Repeat("ä", 64), strings.Repeat("ä", 64)},
		{"65 characters of two bytes", strings.Repeat("ä", 65), strings.Repeat("ä", 64)},
		{"the word other", "other", "other"},
		{"the word unknown", "unknown", "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m metrics.Metrics
			for _, call := range []string{"first", "second"} {
				if got := m.ModelLabel(c.in); got != c.want {
					t.Errorf("%s call: got %q, want %q", call, got, c.want)
				}
			}
		})
	}
}

func TestModelLabelBound(t *testing.T) {
	var m metrics.Metrics
	// None of these takes a place.
	for _, s := range []string{"", "\xff", "a\tb", "other", "unknown"} {
		m.ModelLabel(s)
	}
	for i := range 50 {
		name := fmt.Sprintf("model-%d", i)
		if got := m.ModelLabel(name); got != name {
			t.Fatalf("number %d: got %q, want %q", i+1, got, name)
		}
	}
	for i := 50; i < 60; i++ {
		if got := m.ModelLabel(fmt.Sprintf("model-%d", i)); got != "other" {
			t.Errorf("number %d: got %q, want other", i+1, got)
		}
	}
	if got := m.ModelLabel("model-0"); got != "model-0" {
		t.Errorf("the first, again: got %q, want model-0", got)
	}
	if got := m.ModelLabel(""); got != "unknown" {
		t.Errorf("empty when full: got %q, want unknown", got)
	}
}

// Names that differ only past the cut are one label value.
func TestModelLabelCutBeforeCount(t *testing.T) {
	var m metrics.Metrics
	long := strings.Repeat("m", 64)
	for i := range 100 {
		if got := m.ModelLabel(fmt.Sprintf("%s%d", long, i)); got != long {
			t.Fatalf("got %q, want %q", got, long)
		}
	}
	if got := m.ModelLabel("next"); got != "next" {
		t.Errorf("got %q, want next: the long names took more than one place", got)
	}
}

// A label lives as long as its series; it must not keep a request body alive.
func TestModelLabelSharesNoMemory(t *testing.T) {
	var m metrics.Metrics
	for _, name := range []string{"grok-4", "other", "unknown"} {
		body := strings.Clone(`{"model":"` + name + `"}`)
		in := body[10 : 10+len(name)]
		for _, call := range []string{"first", "second"} {
			got := m.ModelLabel(in)
			if got != name {
				t.Errorf("%s call: got %q, want %q", call, got, name)
			}
			if unsafe.StringData(got) == unsafe.StringData(in) {
				t.Errorf("%s, %s call: the label is a part of the body", name, call)
			}
		}
	}
}

func TestModelLabelConcurrent(t *testing.T) {
	var m metrics.Metrics
	const workers, names = 16, 200
	got := make([][names]string, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range names {
				n := (i*7 + w*13) % names // each worker in an order of its own
				got[w][n] = m.ModelLabel(fmt.Sprintf("model-%d", n))
			}
		})
	}
	wg.Wait()

	distinct := make(map[string]bool)
	for n := range names {
		name := fmt.Sprintf("model-%d", n)
		for w := range workers {
			// A name has a place for good or never: all see it the same way.
			if got[w][n] != got[0][n] {
				t.Fatalf("%s: got %q and %q", name, got[w][n], got[0][n])
			}
		}
		switch got[0][n] {
		case name:
			distinct[name] = true
		case "other":
		default:
			t.Errorf("%s: got %q", name, got[0][n])
		}
	}
	if len(distinct) != 50 {
		t.Errorf("%d names have a place, want 50", len(distinct))
	}
}

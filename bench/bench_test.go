package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A run starts its own program for the parts it plays; in tests that is this one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == roleArg {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want options
	}{
		{"", options{rounds: 10, each: 1500 * time.Millisecond, procs: 1, streams: []int{1000, 10000}}},
		{"-quick", options{rounds: 1, each: 300 * time.Millisecond, procs: 1, streams: []int{1000}, quick: true}},
		{"-quick -rounds 3 -each 1s", options{rounds: 3, each: time.Second, procs: 1, streams: []int{1000}, quick: true}},
		{"-procs 2 -json f -only tcp,short", options{rounds: 10, each: 1500 * time.Millisecond, procs: 2, streams: []int{1000, 10000}, only: []string{"tcp", "short"}, json: "f"}},
	}
	for _, tt := range tests {
		got, err := parse(strings.Fields(tt.args), io.Discard)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		have, want := *got, tt.want
		if toJSON(t, have.streams) != toJSON(t, want.streams) || toJSON(t, have.only) != toJSON(t, want.only) {
			t.Errorf("%q: got streams %v and only %v, want %v and %v", tt.args, have.streams, have.only, want.streams, want.only)
		}
		if have.rounds != want.rounds || have.each != want.each || have.procs != want.procs || have.json != want.json || have.quick != want.quick {
			t.Errorf("%q: got %+v, want %+v", tt.args, have, want)
		}
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestParseErrors(t *testing.T) {
	tests := []struct{ args, want string }{
		{"now", `unexpected argument "now"`},
		{"-rounds 0", "-rounds: 0 is not allowed, want 1 or more"},
		{"-each 99ms", "-each: 99ms is not allowed, want 100ms or more"},
		{"-procs 0", "-procs: 0 is not allowed, want 1 or more"},
		{"-only squid", `-only: there is no "squid", want some of direct,tcp,nginx,haproxy,reverseproxy,doomproxy,doomproxy+detector,short,batched,`},
		{"-rounds many", `invalid value "many" for flag -rounds`},
	}
	for _, tt := range tests {
		_, err := parse(strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%q: got error %v, want %s…", tt.args, err, tt.want)
		}
	}
}

func TestPlayErrors(t *testing.T) {
	tests := []struct{ args, want string }{
		{"tcp 0", "role: got 2 arguments, want name, port and port of the upstream"},
		{"squid 0 1", `role: there is no "squid", want upstream, tcp or reverseproxy`},
	}
	for _, tt := range tests {
		if err := play(t.Context(), strings.Fields(tt.args)); err == nil || err.Error() != tt.want {
			t.Errorf("%q: got error %v, want %s", tt.args, err, tt.want)
		}
	}
}

func TestWants(t *testing.T) {
	kind := []string{"a", "b"}
	tests := []struct {
		only string
		want bool
	}{{"", true}, {"a", true}, {"b", false}, {"a b", true}, {"x", true}, {"x a", true}, {"x b", false}}
	for _, tt := range tests {
		o := options{only: strings.Fields(tt.only)}
		if got := o.wants("a", kind); got != tt.want {
			t.Errorf("only %q: got %v for a, want %v", tt.only, got, tt.want)
		}
	}
}

// A whole run of the targets that need nothing but this program. That events were
// lost, or came twice, would be an error of the run.
func TestRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.json")
	args := []string{"-rounds", "1", "-each", "100ms", "-procs", "2", "-json", file, "-only", "direct,tcp,reverseproxy,short,batched,paced100,abort"}
	var stdout, stderr bytes.Buffer
	if err := run(t.Context(), args, &stdout, &stderr); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r results
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{rowShort, rowBatched, "latency p50 µs, 100 streams", rowLeft50} {
		for _, name := range []string{nameDirect, nameFloor, namePeer} {
			if v := r.Values[row][name]; len(v) != 1 || v[0] <= 0 {
				t.Errorf("%s of %s: got %v, want one positive number", row, name, v)
			}
		}
		if !strings.Contains(stdout.String(), "| "+row+" ") {
			t.Errorf("got a report without %q:\n%s", row, stdout.String())
		}
	}
	if got := r.Values[rowShortCPU][namePeer]; len(got) != 1 && r.Notes["CPU"] == "" {
		t.Errorf("got CPU times %v and no word about it, want one", got)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(ctx, []string{"-only", "tcp,short"}, io.Discard, io.Discard)
	if err == nil {
		t.Error("got no error of a run that was ended, want one")
	}
}

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	tests := []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 2}, 2},
		{[]float64{4, 1, 3, 2}, 2.5},
	}
	for _, tt := range tests {
		if got := median(tt.values); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.values, got, tt.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	hundred := make([]time.Duration, 100)
	for i := range hundred {
		hundred[i] = time.Duration(100 - i)
	}
	tests := []struct {
		values []time.Duration
		p      int
		want   time.Duration
	}{
		{nil, 50, 0},
		{[]time.Duration{7}, 0, 7},
		{[]time.Duration{7}, 99, 7},
		{[]time.Duration{2, 1}, 50, 1},
		{[]time.Duration{3, 2, 1}, 50, 2},
		{hundred, 0, 1},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	}
	for _, tt := range tests {
		if got := percentile(tt.values, tt.p); got != tt.want {
			t.Errorf("%d %% of %d values: got %d, want %d", tt.p, len(tt.values), got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.123: "0.12", -0.123: "-0.12", 12.34: "12.3", 123.4: "123", -123.4: "-123", 1234567: "1234567"} {
		if got := number(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

// fixed are results with round numbers, of a machine that does not matter.
func fixed() *results {
	r := &results{
		Date: "2026-01-02", Processor: "some processor", CPUs: 2, System: "linux/amd64", Go: "go1.26", Procs: 1, Pinned: true,
		Rounds: 3, Each: "1s", Streams: []int{1000, 10000}, Skipped: map[string]string{"nginx": "nginx: not installed"}, Notes: map[string]string{},
		TextLen: 20, Values: map[string]map[string][]float64{},
	}
	add := func(row string, values map[string][]float64) {
		for _, name := range targetNames() {
			for _, v := range values[name] {
				r.add(row, name, v)
			}
		}
	}
	add(rowShort, map[string][]float64{
		nameDirect: {1000, 2000, 3000}, nameFloor: {900, 1800, 2700},
		// The machine was slow in the first round: what counts are ratios of each.
		namePeer: {100, 800, 1000}, nameOff: {95, 800, 850},
	})
	add(fmt.Sprintf(rowP50, 100), map[string][]float64{nameDirect: {50, 60, 70}, namePeer: {100, 110, 120}, nameOff: {120, 160, 161}})
	add(fmt.Sprintf(rowPacedCPU, 100), map[string][]float64{nameFloor: {10, 10, 10}, namePeer: {20, 20, 20}, nameOff: {19, 21, 22}, nameOn: {20, 22, 23}})
	add(fmt.Sprintf(rowPacedCPU, 10000), map[string][]float64{namePeer: {30, 30, 30}, nameOff: {28.5, 31.5, 33}, nameOn: {50, 55, 57.5}})
	add(fmt.Sprintf(rowMemory, 1000), map[string][]float64{namePeer: {100}, nameOff: {120}, nameOn: {130}})
	add(rowGapLeast, map[string][]float64{nameOff: {1.2}, nameOn: {6}})
	return r
}

func TestReport(t *testing.T) {
	const golden = "testdata/report.md"
	got := fixed().report()
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("got another report than %s; UPDATE=1 writes it:\n%s", golden, got)
	}
}

func TestJudged(t *testing.T) {
	var got []string
	for _, row := range fixed().judged() {
		got = append(got, strings.Join(row, " | "))
	}
	want := []string{
		"short requests/s | doomproxy | ≥ 0.90 | 0.95 | ok",
		"CPU per paced frame, 100 streams | doomproxy | ≤ 1.00 | 1.05 | **MISSED**",
		"latency p50 above reverseproxy, 100 streams | doomproxy | ≤ +40 µs | +41 µs | **MISSED**",
		"RSS MB, 1000 streams | doomproxy | ≤ 1.30 | 1.20 | ok",
		"CPU per paced frame, 100 streams | doomproxy+detector | ≤ 1.10 | 1.10 | ok",
		"RSS MB, 1000 streams | doomproxy+detector | ≤ 1.60 | 1.30 | ok",
		"memory of the detector, each of 1000 streams | doomproxy+detector | ≤ 16.0 KiB | 9.8 KiB | ok",
		"CPU per paced frame, 10,000 to 100 streams, to that of reverseproxy | doomproxy | ≤ 1.10 | 1.00 | ok",
		"CPU per paced frame, 10,000 to 100 streams, to that of reverseproxy | doomproxy+detector | ≤ 1.10 | 1.67 | **MISSED**",
		"cut to next attempt, ms least | doomproxy | ≤ 5.0 ms | 1.2 ms | ok",
		"cut to next attempt, ms least | doomproxy+detector | ≤ 5.0 ms | 6.0 ms | **MISSED**",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

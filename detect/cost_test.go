package detect_test

import (
	"strconv"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

// prose returns n bytes of thoughts that do not loop.
func prose(tb testing.TB, n int) (text []byte) {
	tb.Helper()
	for _, shape := range corpus.Legitimate() {
		for seed := uint64(0); shape.Name == "thoughts" && len(text) < n; seed++ {
			text = append(text, shape.Sample(seed).Text...)
		}
	}
	if len(text) < n {
		tb.Fatal("no shape writes thoughts")
	}
	return text[:n]
}

// TestAllocs allocates nothing once a detector has read a long text and raised
// signals, new text and loops included.
func TestAllocs(t *testing.T) {
	text := prose(t, 100<<10)
	for _, shape := range corpus.Loops() {
		text = append(text, shape.Sample(0).Text...)
	}
	d := new(detect.Detector)
	d.Write(text)
	d.Reset()
	d.Write(text)
	at := 0
	got := testing.AllocsPerRun(len(text)/64, func() {
		d.Write(text[at%len(text) : min(at%len(text)+24, len(text))])
		at += 24
	})
	if got != 0 {
		t.Errorf("got %v allocations per Write, want 0", got)
	}
	if got := testing.AllocsPerRun(10, func() {
		d.Reset()
		d.Write(text[:200<<10])
	}); got != 0 {
		t.Errorf("got %v allocations per text with a used detector, want 0", got)
	}
}

// TestMemory allocates when text comes, as much as the text needs, and no more
// than MaxMemory.
func TestMemory(t *testing.T) {
	t.Parallel()
	text := prose(t, 300<<10)
	for _, test := range []struct{ text, most int }{
		{0, 0},
		{1 << 10, 6 << 10},
		{4 << 10, 21 << 10},
		{16 << 10, detect.MaxMemory},
		{len(text), detect.MaxMemory},
	} {
		for _, channel := range []detect.Channel{detect.Thinking, detect.Response} {
			d := detect.Detector{Channel: channel}
			for _, piece := range corpus.Cut(text[:test.text], 1) {
				d.Write(piece)
			}
			if got := d.Memory(); got > test.most {
				t.Errorf("%d bytes of %s take %d bytes of memory, want at most %d", test.text, channel, got, test.most)
			}
		}
	}
	if detect.MaxMemory > 96<<10 {
		t.Errorf("MaxMemory: got %d, want 96 KiB at most", detect.MaxMemory)
	}
}

// BenchmarkWrite reads prose in pieces of a token, a few tokens, and a page.
func BenchmarkWrite(b *testing.B) {
	text := prose(b, 1<<20)
	for _, parts := range []struct {
		name string
		detect.Part
	}{
		{"exact", detect.Exact},
		{"counter", detect.Counter},
		{"saturation", detect.Saturation},
		{"all", everyPart},
	} {
		for _, piece := range []int{4, 24, 4096} {
			b.Run(parts.name+"/"+strconv.Itoa(piece), func(b *testing.B) {
				d := only(detect.Thinking, parts.Part)
				d.Write(text)
				at := 0
				b.SetBytes(int64(piece))
				b.ReportAllocs()
				for b.Loop() {
					d.Write(text[at : at+piece])
					if at += piece; at+piece > len(text) {
						at = 0
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*piece), "ns/byte")
			})
		}
	}
}

// BenchmarkText reads a whole text with a new detector: what a thought costs
// in time and memory, by its length.
func BenchmarkText(b *testing.B) {
	for _, size := range []int{256, 1 << 10, 4 << 10, 64 << 10} {
		text := prose(b, size)
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var d detect.Detector
				for at := 0; at < len(text); at += 16 {
					d.Write(text[at : at+16])
				}
			}
		})
	}
}

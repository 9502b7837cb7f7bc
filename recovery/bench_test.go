package recovery_test

import (
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

func BenchmarkParse(b *testing.B) {
	for name, raw := range map[string]string{
		"thinking": thinkingDelta,
		"text":     textDelta,
		"64KiB":    frame(`{"type":"response.output_text.done","text":"` + strings.Repeat("x", 64<<10) + `"}`),
	} {
		b.Run(name, func(b *testing.B) {
			f := sseframe.Frame{Raw: []byte(raw)}
			var p recovery.Parser
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				p.Parse(f)
			}
		})
	}
}

// What a frame costs from its parse to its bytes, with all that is inspected.
func benchmarkForward(b *testing.B, raw string, prepare func(*recovery.View)) {
	b.Helper()
	v := newView(recovery.CloseTombstone)
	sendData(v, created, itemAdded, partAdded, summaryText)
	prepare(v)
	f := sseframe.Frame{Raw: []byte(raw)}
	var p recovery.Parser
	collector := recovery.Collector{}
	capture := recovery.Capture{}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		ev := p.Parse(f)
		collector.Absorb(ev)
		if !v.Visible {
			capture.Absorb(ev)
		}
		v.Forward(ev)
	}
}

func BenchmarkForward(b *testing.B) {
	b.Run("thinking", func(b *testing.B) {
		benchmarkForward(b, thinkingDelta, func(*recovery.View) {})
	})
	b.Run("visible", func(b *testing.B) {
		benchmarkForward(b, textDelta, func(v *recovery.View) { v.Visible = true })
	})
}

func BenchmarkRewrite(b *testing.B) {
	b.Run("thinking", func(b *testing.B) {
		benchmarkForward(b, thinkingDelta, func(v *recovery.View) { splice(v) })
	})
	b.Run("visible", func(b *testing.B) {
		benchmarkForward(b, textDelta, func(v *recovery.View) { splice(v); v.Visible = true })
	})
}

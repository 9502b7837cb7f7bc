package detect_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
)

// Many streams at a time share the processor's caches.
func BenchmarkManyStreams(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	for i := range text {
		text[i] = "etaoinshrdlu    "[r.IntN(16)]
	}
	for _, off := range []detect.Part{0, detect.Counter | detect.Saturation, detect.Exact | detect.Saturation, detect.Exact | detect.Counter} {
		for _, n := range []int{1, 100, 1000} {
			b.Run(fmt.Sprintf("off=%d/streams=%d", off, n), func(b *testing.B) {
				all := make([]detect.Detector, n)
				for i := range all {
					all[i].Off = off
					all[i].Write(text[i*100 : i*100+40000])
				}
				const piece = 24
				at := 0
				i := 0
				for b.Loop() {
					all[i].Write(text[at : at+piece])
					if i++; i == n {
						i = 0
						if at += piece; at+piece > len(text) {
							at = 0
						}
					}
				}
			})
		}
	}
}

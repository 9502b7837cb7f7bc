package recovery

import (
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/doomproxy/doomproxy/sseframe"
)

// sameAsFresh checks that each event of a stream is what a parser makes of it that
// has seen nothing before, and returns how many were told by the one before.
func sameAsFresh(t *testing.T, stream string) (same int) {
	t.Helper()
	same = compare(t, strings.NewReader(stream))
	compare(t, iotest.OneByteReader(strings.NewReader(stream))) // each frame is where the last one was
	return same
}

func compare(t *testing.T, r io.Reader) (same int) {
	t.Helper()
	var s sseframe.Scanner
	s.Reset(r)
	var p Parser
	for n := 0; ; n++ {
		f, err := s.Next()
		if err != nil {
			return same
		}
		var fresh Parser
		want := fresh.parse(f)
		got := p.Parse(f)
		if got.same {
			same++
			want.mentions = got.mentions // of no meaning for such an event
		}
		if got.Class != want.Class || got.Type != want.Type || got.Data != want.Data || got.at != want.at || got.mentions != want.mentions {
			t.Fatalf("frame %d, %q: got %+v, want %+v", n, f.Raw, got, want)
		}
	}
}

// The orders in which APIs write the members of a delta, with what else they have.
// N is a number, TEXT a text.
var deltaShapes = map[string]string{
	"number first": "event: response.reasoning_text.delta\ndata: {\"sequence_number\":N,\"type\":\"response.reasoning_text.delta\",\"item_id\":\"rs_1\",\"output_index\":0,\"content_index\":0,\"delta\":\"TEXT\"}\n\n",
	"number last":  "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"m\",\"output_index\":1,\"content_index\":0,\"delta\":\"TEXT\",\"logprobs\":[],\"obfuscation\":\"TEXT\",\"sequence_number\":N}\n\n",
	"no number":    "data: {\"delta\":\"TEXT\",\"type\":\"response.output_text.delta\",\"item_id\":\"m\"}\n\n",
	"CRLF":         "data: {\"type\":\"response.x.delta\",\"sequence_number\":N,\"delta\":\"TEXT\",\"summary_index\":3,\"text\":\"t\"}\r\n\r\n",
	"twice":        "data: {\"type\":\"response.x.delta\",\"delta\":\"a\",\"sequence_number\":1,\"delta\":\"TEXT\",\"sequence_number\":N}\n\n",
	"spaces":       "data:{ \"type\" : \"response.x.delta\" , \"sequence_number\" : N , \"delta\" : \"TEXT\" }\n\n",
}

// like returns a frame of a shape.
func like(shape string, n int, text string) string {
	return strings.NewReplacer("N", strconv.Itoa(n), "TEXT", text).Replace(shape)
}

func TestPattern(t *testing.T) {
	texts := []string{"a", "", `a \" b`, `\\`, "longer than before", `\n`, "x\xf0\x9f", `doom_loop_check`, "e"}
	for name, shape := range deltaShapes {
		t.Run(name, func(t *testing.T) {
			stream := ""
			for i, text := range texts {
				stream += like(shape, 9+i*40, text)
			}
			if same := sameAsFresh(t, stream); same != len(texts)-1 {
				t.Errorf("got %d of %d events told by the one before, want all but the first:\n%s", same, len(texts), stream)
			}
		})
	}
}

// What differs in more than number and text is looked at as a whole.
func TestPatternIsLeft(t *testing.T) {
	one := `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a"}` + "\n\n"
	for name, other := range map[string]string{
		"another item":        `data: {"type":"response.x.delta","sequence_number":1,"output_index":1,"delta":"a"}` + "\n\n",
		"another type":        `data: {"type":"response.y.delta","sequence_number":1,"output_index":0,"delta":"a"}` + "\n\n",
		"one member more":     `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a","item_id":"b"}` + "\n\n",
		"no number":           `data: {"type":"response.x.delta","sequence_number":"1","output_index":0,"delta":"a"}` + "\n\n",
		"a fraction":          `data: {"type":"response.x.delta","sequence_number":1.5,"output_index":0,"delta":"a"}` + "\n\n",
		"a large number":      `data: {"type":"response.x.delta","sequence_number":99999999999999999999,"output_index":0,"delta":"a"}` + "\n\n",
		"a zero in front":     `data: {"type":"response.x.delta","sequence_number":01,"output_index":0,"delta":"a"}` + "\n\n",
		"no text":             `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":null}` + "\n\n",
		"an object":           `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":{}}` + "\n\n",
		"text on two lines":   `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a` + "\nb\"}\n\n",
		"escaped line end":    `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a\` + "\nb\"}\n\n",
		"a line more":         `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a"}` + "\ndata: x\n\n",
		"cut off":             `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a` + "\n\n",
		"a member behind":     `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a","delta":"b"}` + "\n\n",
		"a comment before it": ": hm\n" + one,
		"an empty frame":      "\n",
	} {
		t.Run(name, func(t *testing.T) {
			if same := sameAsFresh(t, one+other); same != 0 {
				t.Errorf("it was told by the one before: %q", other)
			}
			sameAsFresh(t, one+one+other+one+one+other+other)
		})
	}
}

// An event of another kind in between changes what was taken down.
func TestPatternAfterAnother(t *testing.T) {
	delta := `data: {"type":"response.x.delta","sequence_number":1,"output_index":0,"delta":"a"}` + "\n\n"
	if same := sameAsFresh(t, delta+": ping\n\n"+delta+delta); same != 1 {
		t.Errorf("got %d, want the last alone to be told by the one before", same)
	}
}

// Whatever a stream holds, the parser makes of it what it makes of each frame alone.
func FuzzPattern(f *testing.F) {
	for _, shape := range deltaShapes {
		one := like(shape, 1, "a")
		f.Add(one+like(shape, 22, `b\"c`)+one, 3, byte('x'))
	}
	f.Fuzz(func(t *testing.T, stream string, at int, c byte) {
		sameAsFresh(t, stream)
		if at >= 0 && at < len(stream) {
			sameAsFresh(t, stream+stream[:at]+string(c)+stream[at:]+stream)
		}
	})
}

func BenchmarkPattern(b *testing.B) {
	for name, shape := range deltaShapes {
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			raw := []byte(like(shape, 1234, "four words of text "))
			var p Parser
			b.ReportAllocs()
			for b.Loop() {
				p.Parse(sseframe.Frame{Raw: raw})
			}
		})
	}
}

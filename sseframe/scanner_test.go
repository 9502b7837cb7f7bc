package sseframe_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/doomproxy/doomproxy/sseframe"
)

// scan reads all frames of r and the tail.
func scan(r io.Reader, maxFrame int) (frames []string, rest string, err error) {
	s := sseframe.Scanner{MaxFrame: maxFrame}
	s.Reset(r)
	for {
		var f sseframe.Frame
		if f, err = s.Next(); err != nil {
			return frames, string(s.Rest()), err
		}
		frames = append(frames, string(f.Raw))
	}
}

// chunks is a reader that returns one of its chunks a read.
type chunks [][]byte

func (c *chunks) Read(p []byte) (int, error) {
	if len(*c) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*c)[0])
	if (*c)[0] = (*c)[0][n:]; len((*c)[0]) == 0 {
		*c = (*c)[1:]
	}
	return n, nil
}

func randomChunks(rng *rand.Rand, b []byte) *chunks {
	var c chunks
	for len(b) > 0 {
		n := 1 + rng.IntN(min(len(b), 1+rng.IntN(64)))
		c = append(c, b[:n])
		b = b[n:]
	}
	return &c
}

// joinLone puts the LF frames that a cut between CR and LF leaves back onto the
// frame they belong to: what remains must not depend on the cuts.
func joinLone(frames []string) []string {
	var out []string
	for _, f := range frames {
		if n := len(out); f == "\n" && n > 0 && strings.HasSuffix(out[n-1], "\r") {
			out[n-1] += f
			continue
		}
		out = append(out, f)
	}
	return out
}

var scanCases = []struct {
	name   string
	in     string
	frames []string
	rest   string
}{
	{"empty", "", nil, ""},
	{"LF", "data: a\n\ndata: b\n\n", []string{"data: a\n\n", "data: b\n\n"}, ""},
	{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"data: a\r\n\r\n", "data: b\r\n\r\n"}, ""},
	{"CR", "data: a\r\rdata: b\r\r", []string{"data: a\r\r", "data: b\r\r"}, ""},
	{"mixed", "event: e\rdata: a\r\n\ndata: b\n\rdata: c\n\r\n", []string{"event: e\rdata: a\r\n\n", "data: b\n\r", "data: c\n\r\n"}, ""},
	{"byte order mark", "\ufeffdata: a\n\n\ufeffdata: b\n\n", []string{"\ufeffdata: a\n\n", "\ufeffdata: b\n\n"}, ""},
	{"byte order mark, then blank", "\ufeff\ndata: a\n\n", []string{"\ufeff\n", "data: a\n\n"}, ""},
	{"byte order mark alone", "\ufeff", nil, "\ufeff"},
	{"comments", ": hi\n\n:\n:x\ndata: a\n\n", []string{": hi\n\n", ":\n:x\ndata: a\n\n"}, ""},
	{"blank lines", "\n\n\ndata: a\n\n\n", []string{"\n", "\n", "\n", "data: a\n\n", "\n"}, ""},
	{"unterminated", "data: a\n\ndata: b\n", []string{"data: a\n\n"}, "data: b\n"},
	{"unterminated line", "data: a\n\ndata: b", []string{"data: a\n\n"}, "data: b"},
	{"tail of CR", "data: a\r\n\r\ndata: b\r", []string{"data: a\r\n\r\n"}, "data: b\r"},
	{"data of many lines", "data: a\ndata: b\n\n", []string{"data: a\ndata: b\n\n"}, ""},
	{"UTF-8", "data: \u00e4\u20ac\U0001F600\n\n", []string{"data: \u00e4\u20ac\U0001F600\n\n"}, ""},
	{"NUL and garbage", "\x00\xff\xfe\n\n\xc3\x28\n\n", []string{"\x00\xff\xfe\n\n", "\xc3\x28\n\n"}, ""},
}

func TestScanner(t *testing.T) {
	for _, tc := range scanCases {
		t.Run(tc.name, func(t *testing.T) {
			check := func(how string, r io.Reader) {
				t.Helper()
				frames, rest, err := scan(r, 0)
				if !errors.Is(err, io.EOF) {
					t.Errorf("%s: got error %v, want io.EOF", how, err)
				}
				if got := joinLone(frames); !slices.Equal(got, tc.frames) {
					t.Errorf("%s: got frames %q, want %q", how, got, tc.frames)
				}
				if rest != tc.rest {
					t.Errorf("%s: got rest %q, want %q", how, rest, tc.rest)
				}
			}
			check("whole", strings.NewReader(tc.in))
			check("one byte at a time", iotest.OneByteReader(strings.NewReader(tc.in)))
			check("data with error", iotest.DataErrReader(strings.NewReader(tc.in)))
			rng := rand.New(rand.NewPCG(1, 2))
			for range 50 {
				check("random cuts", randomChunks(rng, []byte(tc.in)))
			}
		})
	}
}

// A frame must be out as soon as its blank line is in, or a stream lags by one
// event; a CR may be that line end, so nothing may wait for an LF behind it.
func TestScannerDispatchesAtTheBlankLine(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r", "\n\r", "\r\n\r"} {
		t.Run(fmt.Sprintf("%q", end), func(t *testing.T) {
			pr, pw := io.Pipe()
			defer pr.Close()
			var s sseframe.Scanner
			s.Reset(pr)
			go pw.Write([]byte("data: a" + end)) //nolint:errcheck // the pipe outlives the write
			f, err := s.Next()
			if err != nil || string(f.Raw) != "data: a"+end {
				t.Errorf("got %q, %v, want the frame without a further byte", f.Raw, err)
			}
		})
	}
}

func TestScannerFrameTooLong(t *testing.T) {
	in := "data: ok\n\ndata: " + strings.Repeat("x", 100) + "\n\ndata: more\n\n"
	for name, r := range map[string]io.Reader{
		"whole":              strings.NewReader(in),
		"one byte at a time": iotest.OneByteReader(strings.NewReader(in)),
	} {
		t.Run(name, func(t *testing.T) {
			frames, rest, err := scan(r, 64)
			if !errors.Is(err, sseframe.ErrFrameTooLong) {
				t.Fatalf("got error %v, want ErrFrameTooLong", err)
			}
			left, _ := io.ReadAll(r)
			if got := strings.Join(frames, "") + rest + string(left); got != in {
				t.Errorf("got %q in all, want the input", got)
			}
			if len(rest) < 64 {
				t.Errorf("got %d bytes of rest, want at least the bound", len(rest))
			}
		})
	}
}

func TestScannerErrorSticks(t *testing.T) {
	want := errors.New("reset by peer")
	var s sseframe.Scanner
	s.Reset(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(want)))
	if f, err := s.Next(); err != nil || string(f.Raw) != "data: a\n\n" {
		t.Fatalf("got %q, %v", f.Raw, err)
	}
	for range 2 {
		if _, err := s.Next(); !errors.Is(err, want) {
			t.Errorf("got error %v, want %v", err, want)
		}
	}
	if got := string(s.Rest()); got != "data: b" {
		t.Errorf("got rest %q, want %q", got, "data: b")
	}
}

func TestScannerNoProgress(t *testing.T) {
	var s sseframe.Scanner
	s.Reset(readFunc(func([]byte) (int, error) { return 0, nil }))
	if _, err := s.Next(); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("got error %v, want io.ErrNoProgress", err)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// Buffered decides when to flush: true too often delays a frame, false too
// often costs a system call a frame.
func TestScannerBuffered(t *testing.T) {
	var s sseframe.Scanner
	s.Reset(&chunks{[]byte("data: a\n\ndata: b\n\nda"), []byte("ta: c\n\n")})
	var got []bool
	for {
		got = append(got, s.Buffered())
		if _, err := s.Next(); err != nil {
			break
		}
	}
	if want := []bool{false, true, false, false}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !s.Buffered() {
		t.Error("got false at the end, want true: Next will not read again")
	}
}

func TestScannerResetKeepsNoBigBuffer(t *testing.T) {
	var s sseframe.Scanner
	s.Reset(strings.NewReader("data: " + strings.Repeat("x", 1<<20) + "\n\n"))
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	s.Reset(strings.NewReader("data: a\n\n"))
	if got := cap(s.Rest()); got > 64<<10 {
		t.Errorf("got a buffer of %d bytes after Reset, want none above 64 KiB", got)
	}
	if f, err := s.Next(); err != nil || string(f.Raw) != "data: a\n\n" {
		t.Errorf("got %q, %v after Reset", f.Raw, err)
	}
}

func FuzzScanner(f *testing.F) {
	for _, tc := range scanCases {
		f.Add([]byte(tc.in), uint64(1))
	}
	f.Fuzz(func(t *testing.T, in []byte, seed uint64) {
		whole, rest, _ := scan(bytes.NewReader(in), 0)
		if got := strings.Join(whole, "") + rest; got != string(in) {
			t.Fatalf("frames and rest are %q, want the input %q", got, in)
		}
		rng := rand.New(rand.NewPCG(seed, 0))
		cut, cutRest, _ := scan(randomChunks(rng, in), 0)
		if got := strings.Join(cut, "") + cutRest; got != string(in) {
			t.Fatalf("cut: frames and rest are %q, want the input %q", got, in)
		}
		// A CR that ends the input may hold a frame whose LF never came.
		if !slices.Equal(joinLone(whole), joinLone(cut)) || rest != cutRest {
			t.Fatalf("cuts changed the frames: got %q, want %q", cut, whole)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	delta := "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"sequence_number\":12,\"item_id\":\"msg_0123456789abcdef\",\"output_index\":1,\"content_index\":0,\"delta\":\" something\"}\n\n"
	for _, bc := range []struct {
		name        string
		frame, read int
	}{
		{"delta/4KiB", 0, 4 << 10},
		{"64KiB/512B", 64 << 10, 512},
		{"64KiB/4KiB", 64 << 10, 4 << 10},
		{"1MiB/512B", 1 << 20, 512},
		{"1MiB/16KiB", 1 << 20, 16 << 10},
	} {
		b.Run(bc.name, func(b *testing.B) {
			frame := delta
			if bc.frame > 0 {
				frame = "data: " + strings.Repeat("x", bc.frame) + "\n\n"
			}
			stream := bytes.Repeat([]byte(frame), max(1, (2<<20)/len(frame)))
			var r bytes.Reader
			limited := readFunc(func(p []byte) (int, error) { return r.Read(p[:min(len(p), bc.read)]) })
			var s sseframe.Scanner
			b.SetBytes(int64(len(stream)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(stream)
				s.Reset(limited)
				for {
					if _, err := s.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}

func ExampleScanner() {
	var s sseframe.Scanner
	var scratch []byte
	s.Reset(strings.NewReader(": hello\n\nevent: greeting\ndata: {\"to\":\"world\"}\n\ndata: cut of"))
	for {
		f, err := s.Next()
		if err != nil {
			fmt.Printf("%v, and %q is left\n", err, s.Rest())
			return
		}
		fmt.Printf("event %q, data %q, raw %q\n", f.Event(), f.Data(&scratch), f.Raw)
	}
	// Output:
	// event "", data "", raw ": hello\n\n"
	// event "greeting", data "{\"to\":\"world\"}", raw "event: greeting\ndata: {\"to\":\"world\"}\n\n"
	// EOF, and "data: cut of" is left
}

// A stream that is pushed has the same frames as one that is read, wherever it
// is cut.
func TestPush(t *testing.T) {
	const stream = "\ufeffa: 1\r\n\r\ndata: x\ndata: y\n\n\r\r: c\n\nevent: e\rdata: z\r\r\ntail"
	var want []string
	var s sseframe.Scanner
	s.Reset(strings.NewReader(stream))
	for {
		f, err := s.Next()
		if err != nil {
			break
		}
		want = append(want, string(f.Raw))
	}
	for size := 1; size <= len(stream); size++ {
		s.Reset(nil)
		var got []string
		for piece := range slices.Chunk([]byte(stream), size) {
			s.Push(piece)
			for len(got)%2 == 0 && s.Buffered() || s.Buffered() && size%3 > 0 {
				f, err := s.Next()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(f.Raw))
			}
		}
		for s.Buffered() {
			f, _ := s.Next()
			got = append(got, string(f.Raw))
		}
		if strings.Join(got, "") != strings.Join(want, "") || string(s.Rest()) != "tail" {
			t.Errorf("pieces of %d: got %q and %q, want %q and the tail", size, got, s.Rest(), want)
		}
	}
	s = sseframe.Scanner{MaxFrame: 10}
	s.Reset(nil)
	s.Push([]byte("data: 1\n\ndata: 0123456789"))
	if f, err := s.Next(); err != nil || string(f.Raw) != "data: 1\n\n" {
		t.Errorf("got %q, %v, want the first frame", f.Raw, err)
	}
	if _, err := s.Next(); !s.Buffered() || !errors.Is(err, sseframe.ErrFrameTooLong) {
		t.Errorf("got %v, want ErrFrameTooLong, without a reader to ask", err)
	}
}

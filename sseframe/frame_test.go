package sseframe_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/sseframe"
)

func TestFrameFields(t *testing.T) {
	for _, tc := range []struct {
		name, raw   string
		bom         int
		event, data string
		noData      bool
	}{
		{"plain", "event: e\ndata: d\n\n", 0, "e", "d", false},
		{"no space", "event:e\ndata:d\n\n", 0, "e", "d", false},
		{"one space only is dropped", "data:  d \n\n", 0, "", " d ", false},
		{"no event", "data: d\n\n", 0, "", "d", false},
		{"last event wins", "event: a\nevent: b\ndata: d\n\n", 0, "b", "d", false},
		{"lines are joined", "data: a\ndata:\ndata: b\n\n", 0, "", "a\n\nb", false},
		{"empty data", "data\n\n", 0, "", "", false},
		{"comment", ": data: d\n\n", 0, "", "", true},
		{"other fields", "id: 1\nretry: 2\ndatas: 3\nDATA: 4\n data: 5\n\n", 0, "", "", true},
		{"CR", "event: e\rdata: a\rdata: b\r\r", 0, "e", "a\nb", false},
		{"CRLF", "event: e\r\ndata: a\r\ndata: b\r\n\r\n", 0, "e", "a\nb", false},
		{"mixed", "event: e\rdata: a\ndata: b\r\ndata: c\n\r", 0, "e", "a\nb\nc", false},
		{"LF of the frame before", "\ndata: d\n\n", 0, "", "d", false},
		{"byte order mark", "\ufeffdata: d\n\n", 3, "", "d", false},
		{"byte order mark later", "\ufeffdata: d\n\n", 0, "", "", true},
		{"unterminated", "event: e\ndata: d", 0, "e", "d", false},
		{"colon in data", "data: a: b\n\n", 0, "", "a: b", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := sseframe.Frame{Raw: []byte(tc.raw), BOM: tc.bom}
			if got := string(f.Event()); got != tc.event {
				t.Errorf("got event %q, want %q", got, tc.event)
			}
			data := f.Data(new([]byte))
			if got := string(data); got != tc.data {
				t.Errorf("got data %q, want %q", got, tc.data)
			}
			if got := data == nil; got != tc.noData {
				t.Errorf("got no data %v, want %v", got, tc.noData)
			}
			for i, c := range data {
				if at := f.RawOffset(i); c != '\n' && f.Raw[at] != c {
					t.Errorf("data[%d] = %q, but Raw[%d] = %q", i, c, at, f.Raw[at])
				}
			}
			if got := f.RawOffset(len(data) + 1); got != -1 {
				t.Errorf("got offset %d behind the data, want -1", got)
			}
		})
	}
}

func TestFrameAccessorsDoNotAllocate(t *testing.T) {
	one := sseframe.Frame{Raw: []byte("event: e\r\ndata: {\"a\":1}\r\n\r\n")}
	two := sseframe.Frame{Raw: []byte("event: e\ndata: {\ndata: }\n\n")}
	scratch := make([]byte, 0, 64)
	if got := testing.AllocsPerRun(100, func() {
		one.Event()
		one.Data(&scratch)
		two.Data(&scratch)
		two.RawOffset(3)
	}); got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// Many lines in one frame must not cost the square of their number, whichever
// line end the stream does not use.
func TestFrameManyLinesAreLinear(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n"} {
		const lines = 1 << 20
		f := sseframe.Frame{Raw: []byte(strings.Repeat(":"+end, lines) + "data: d" + end + end)}
		if got := string(f.Data(new([]byte))); got != "d" {
			t.Errorf("%q: got data %q, want d", end, got)
		}
	}
}

type flusher struct {
	strings.Builder
	flushes    int
	write, err error
}

func (f *flusher) Write(b []byte) (int, error) {
	if f.write != nil {
		return 0, f.write
	}
	return f.Builder.Write(b)
}

func (f *flusher) Flush() error {
	f.flushes++
	return f.err
}

func TestWriter(t *testing.T) {
	var f flusher
	w := sseframe.NewWriter(&f, &f)
	if err := w.Flush(); err != nil || f.flushes != 0 {
		t.Errorf("got %d flushes of nothing, %v, want none", f.flushes, err)
	}
	for _, s := range []string{"data: a\n\n", "data: b\n\n"} {
		if _, err := w.Write([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil || f.flushes != 1 {
		t.Errorf("got %d flushes, %v, want 1", f.flushes, err)
	}
	if got, want := f.String(), "data: a\n\ndata: b\n\n"; got != want || w.Written() != int64(len(want)) {
		t.Errorf("got %q, %d bytes, want %q", got, w.Written(), want)
	}
}

func TestWriterErrorsStick(t *testing.T) {
	gone := errors.New("client gone")
	t.Run("flush", func(t *testing.T) {
		f := flusher{err: gone}
		w := sseframe.NewWriter(&f, &f)
		if _, err := w.Write([]byte("a")); err != nil {
			t.Fatal(err)
		}
		if err := w.Flush(); !errors.Is(err, gone) {
			t.Errorf("got %v from Flush, want %v", err, gone)
		}
		if _, err := w.Write([]byte("b")); !errors.Is(err, gone) {
			t.Errorf("got %v from Write, want %v", err, gone)
		}
		if got := f.String(); got != "a" {
			t.Errorf("got %q written, want nothing behind the error", got)
		}
	})
	t.Run("write", func(t *testing.T) {
		f := flusher{write: gone}
		w := sseframe.NewWriter(&f, &f)
		if _, err := w.Write([]byte("a")); !errors.Is(err, gone) {
			t.Errorf("got %v from Write, want %v", err, gone)
		}
		if err := w.Flush(); !errors.Is(err, gone) || f.flushes != 0 {
			t.Errorf("got %v from Flush and %d flushes, want %v and none", err, f.flushes, gone)
		}
		if !errors.Is(w.Err(), gone) {
			t.Errorf("got %v from Err, want %v", w.Err(), gone)
		}
	})
}

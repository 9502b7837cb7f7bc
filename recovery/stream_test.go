package recovery_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

// parse returns the one event of raw, as an attempt's parser does.
func parse(raw string) *recovery.Event {
	var s sseframe.Scanner
	s.Reset(strings.NewReader(raw))
	f, err := s.Next()
	if err != nil {
		f = s.Tail()
	}
	return new(recovery.Parser).Parse(f)
}

// frame returns the frame of an event with the given data, named as its type.
func frame(data string) string {
	var e struct{ Type string }
	json.Unmarshal([]byte(data), &e) //nolint:errcheck // a frame without a name then
	if e.Type == "" {
		return "data: " + data + "\n\n"
	}
	return "event: " + e.Type + "\ndata: " + data + "\n\n"
}

// split returns the frames of a stream.
func split(t *testing.T, stream string) []string {
	t.Helper()
	var s sseframe.Scanner
	s.Reset(strings.NewReader(stream))
	var frames []string
	for {
		f, err := s.Next()
		if errors.Is(err, io.EOF) && len(s.Rest()) == 0 {
			return frames
		}
		if err != nil {
			t.Fatalf("got %v and rest %q, want whole frames", err, s.Rest())
		}
		frames = append(frames, string(f.Raw))
	}
}

// decode returns the data of the one event of raw, nil if it has none.
func decode(t *testing.T, raw string) map[string]any {
	t.Helper()
	f := parse(raw).Frame
	data := f.Data(new([]byte))
	if data == nil {
		return nil
	}
	object, ok := value(t, string(data)).(map[string]any)
	if !ok {
		t.Fatalf("got %q, want an object", data)
	}
	if name := string(f.Event()); name != "" && name != object["type"] {
		t.Errorf("got event name %q, want the type: %s", name, data)
	}
	return object
}

// value returns the JSON value s, its numbers as they are written.
func value(t *testing.T, s string) (v any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v in %q", err, s)
	}
	return v
}

// send forwards frames and returns what the client gets.
func send(v *recovery.View, frames ...string) string {
	var out strings.Builder
	for _, raw := range frames {
		b, _ := v.Forward(parse(raw))
		out.Write(b)
	}
	return out.String()
}

// sendData is send for events by their data.
func sendData(v *recovery.View, data ...string) string {
	var out strings.Builder
	for _, d := range data {
		out.WriteString(send(v, frame(d)))
	}
	return out.String()
}

// splice ends the attempt and returns what the client gets.
func splice(v *recovery.View) string {
	raw, _ := v.Splice("cut")
	return string(raw)
}

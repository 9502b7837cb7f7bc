package recovery

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestValidJSON(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want bool
	}{
		{`{"a":[1,{"b":null}]}`, true},
		{" [ ] ", true},
		{`"[[[{{{\"]]"`, true},
		{`"` + strings.Repeat("[", 2*maxDepth) + `"`, true},
		{strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth), true},
		{strings.Repeat("[", maxDepth+1) + strings.Repeat("]", maxDepth+1), false},
		{strings.Repeat(`{"a":`, 1_000_000), false},
		{strings.Repeat("[]", 3), false},
		{strings.Repeat("]", 3), false},
		{`{"a":1}{"b":2}`, false},
		{`{"a":1`, false},
		{`{"a":1,}`, false},
		{"\"a\nb\"", false},
		{`"a`, false},
		{`"a\`, false},
		{"", false},
		{"[DONE]", false},
	} {
		if got := ValidJSON(tc.in); got != tc.want {
			t.Errorf("%.40q: got %v, want %v", tc.in, got, tc.want)
		}
	}
}

var objects = []string{
	`{}`, ` { } `, `{"a":1}`, "{\n\t\"a\" : -1.5e+7 ,\r\n \"b\" : true }",
	`{"a":"x,y}\"","b":{"c":[1,2,{"d":"]}"}]},"e":null,"f":""}`,
	`{"a":1,"a":2,"":3}`, `{"\u0061\"\\":1,"b\/":2,"\ud83d\ude00":3,"\ud83d":4}`,
	`{"a":"\\","b":"\\\\\"","c":"\u0022"}`, `{"a":[[],{},[[]]],"b":[]}`,
	`{"a":{"a":1},"b":[{"a":2}]}`, "{\"\xff\":\"\xfe\"}",
}

// pairs are keys and values in turn.
func pairs(s string) (got []string) {
	members(s, 0, func(key string, value span) { got = append(got, key, value.of(s)) })
	return got
}

// checkMembers compares what members and elements find with encoding/json.
func checkMembers(t *testing.T, object string) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(object))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return
	}
	var want, values []string
	for dec.More() {
		key, _ := dec.Token()
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			t.Fatal(err)
		}
		want = append(want, key.(string), string(value))
		values = append(values, string(value))
	}
	got := pairs(object)
	for i := 0; i < len(got); i += 2 {
		got[i] = string([]rune(got[i])) // as encoding/json has what is no UTF-8
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q: got %q, want %q", object, got, want)
	}
	for _, array := range values {
		var wantElements []json.RawMessage
		if array[0] != '[' {
			continue
		}
		if err := json.Unmarshal([]byte(array), &wantElements); err != nil {
			t.Fatal(err)
		}
		var n int
		elements(array, 0, func(value span) {
			if n < len(wantElements) && value.of(array) != string(wantElements[n]) {
				t.Errorf("%q: got element %q, want %q", array, value.of(array), wantElements[n])
			}
			n++
		})
		if n != len(wantElements) {
			t.Errorf("%q: got %d elements, want %d", array, n, len(wantElements))
		}
	}
}

func TestMembers(t *testing.T) {
	for _, object := range objects {
		checkMembers(t, object)
	}
}

// What is no JSON ends somewhere; it must not be told as a value that has no end.
func TestMembersOfGarbage(t *testing.T) {
	for in, want := range map[string][]string{
		``: nil, `[1]`: nil, `"a"`: nil, `{`: nil, `{"a`: nil, `{"a"`: nil, `{"a":`: nil, `{"a":}`: nil,
		`{"a":"b`: nil, `{"a":[1`: nil, `{"a":{"b":1}`: {"a", `{"b":1}`}, `{"a":1,"b":[`: {"a", "1"},
		`{a:1}`: nil, `{"a":1 "b":2}`: {"a", "1"}, `{"a"1}`: nil, `{,"a":1}`: nil, `{"a":"\`: nil,
		`{"a\`: nil, `{"a":"x":"b":1}`: {"a", `"x"`},
	} {
		if got := pairs(in); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestMemberIsTheLast(t *testing.T) {
	const s = `{"a":{"b":1},"b":2,"b":3}`
	if got := member(s, 0, "b").of(s); got != "3" {
		t.Errorf("got %q, want 3", got)
	}
	if got := member(s, 5, "b").of(s); got != "1" {
		t.Errorf("got %q of the inner object, want 1", got)
	}
	if got := member(s, 0, "c"); got.present() {
		t.Errorf("got %v, want none", got)
	}
}

// A text of nothing but escapes must not cost the square of its length: that is
// a quarter of a minute here, and not some milliseconds.
func TestSkipStringIsLinear(t *testing.T) {
	s := `{"a":"` + strings.Repeat(`\n`, 1<<20) + `","b":1}`
	start := time.Now()
	if got := member(s, 0, "b").of(s); got != "1" {
		t.Errorf("got %q, want 1", got)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v, want less than 5 s", took)
	}
}

func FuzzMembers(f *testing.F) {
	for _, object := range objects {
		f.Add(object)
	}
	f.Add(`{"a":[1 2 "x"]]`)
	f.Fuzz(func(t *testing.T, s string) {
		// Whatever s is, the walk ends and stays inside it.
		members(s, 0, func(_ string, value span) {
			elements(s, value.lo, func(element span) { _ = element.of(s) })
			unquote(value.of(s))
		})
		if got, want := ValidJSON(s), json.Valid([]byte(s)); got != want {
			t.Errorf("%q: got valid %v, want %v", s, got, want)
		}
		if json.Valid([]byte(s)) {
			checkMembers(t, s)
		}
	})
}

package stationarity

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

var values = []string{
	`{}`, ` { } `, `[]`, ` [ ] `, `{"a":1}`, "{\n\t\"a\" : -1.5e+7 ,\r\n \"b\" : true }",
	`{"a":"x,y}\"","b":{"c":[1,2,{"d":"]}"}]},"e":null,"f":""}`,
	`{"a":1,"a":2,"":3}`, `{"a":"\\","b":"\\\\\"","c":"\u0022"}`,
	`{"a":[[],{},[[]]],"b":[]}`, `["a","\\",{"b":"\""},[],1,null, true ]`,
	`["\\\"","\\\\"]`, `[{"a":"[{"},{"b":"}]"}]`, `"a"`, `1`, `null`, "{\"\xff\":\"\xfe\"}",
}

var broken = []string{
	``, ` `, `{`, `}`, `]`, `"`, `\"`, `"}`, `{"a"}`, `{"a":}`, `{:1}`, `{"a":1,}`, `{,"a":1}`, `{"a":1"b":2}`, `{a:1}`,
	`[1 2]`, `[,]`, `[1,]`, `[,1]`, `[}`, `{]`, `]]`, `[[]`, `{"a":[}`, `\`, `,`, `:`,
}

// backwards is what is found in a value: keys with values, or elements.
func backwards(s string) (found []string, start int) {
	s = strings.TrimRight(s, " \n\t\r")
	start, ok := membersBefore(s, len(s), func(key string, v span) { found = append(found, key, s[v.lo:v.hi]) })
	if ok {
		return found, start
	}
	found = nil
	for l := listOf(s); l.at > 0; {
		lo, ok := valueBefore(l.s, l.at)
		if ok {
			found = append(found, l.s[lo:l.at])
		}
		l.step(lo, ok)
	}
	return found, -1
}

// checkBackwards compares that with what encoding/json finds.
func checkBackwards(t *testing.T, s string) {
	t.Helper()
	found, start := backwards(s)
	if !json.Valid([]byte(s)) {
		return
	}
	if lo, ok := valueBefore(s, spaceBefore(s, len(s))); !ok || strings.TrimSpace(s[:lo]) != "" {
		t.Fatalf("%q: got a value from %d, %v", s, lo, ok)
	}
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	tok, err := dec.Token()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	switch tok {
	case json.Delim('{'):
		if strings.TrimSpace(s[:start]) != "" {
			t.Fatalf("%q: got an object from %d", s, start)
		}
		slices.Reverse(found)
		for i := 0; i+1 < len(found); i += 2 { // the pairs in order, each the right way round
			found[i], found[i+1] = found[i+1], found[i]
		}
		for dec.More() {
			key, _ := dec.Token()
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil {
				t.Fatal(err)
			}
			want = append(want, key.(string), string(v))
		}
		for i := 0; i < len(found); i += 2 {
			var key string
			if err := json.Unmarshal([]byte(`"`+found[i]+`"`), &key); err != nil {
				t.Fatalf("%q: got key %q", s, found[i])
			}
			found[i] = key
		}
	case json.Delim('['):
		slices.Reverse(found)
		for dec.More() {
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil {
				t.Fatal(err)
			}
			want = append(want, string(v))
		}
	}
	if !slices.Equal(found, want) {
		t.Fatalf("%q: got %q, want %q", s, found, want)
	}
}

func TestBackwards(t *testing.T) {
	for _, s := range values {
		checkBackwards(t, s)
	}
	if lo, ok := valueBefore("}[", 2); ok {
		t.Errorf("got a value from %d", lo)
	}
	for _, s := range broken {
		for end := range len(s) + 1 {
			if lo, ok := stringBefore(s, end); ok && lo >= end {
				t.Errorf("%q: got a string from %d to %d", s, lo, end)
			}
			if lo, ok := valueBefore(s, end); ok && lo >= end {
				t.Errorf("%q: got a value from %d to %d", s, lo, end)
			}
		}
		if found, _ := backwards(s); len(found) > 2 {
			t.Errorf("%q: got %q", s, found)
		}
	}
}

func FuzzBackwards(f *testing.F) {
	for _, s := range slices.Concat(values, broken) {
		f.Add(s)
	}
	f.Fuzz(checkBackwards)
}

// FuzzArguments compares the numbers of JSON before and after encoding/json has
// sorted its keys and written it anew.
func FuzzArguments(f *testing.F) {
	for _, s := range slices.Concat(values, broken) {
		f.Add(s)
	}
	f.Add(`{"b":1,"a":[{"d":"\u00e9","c":null}]}`)
	f.Fuzz(func(t *testing.T, s string) {
		h := newHasher()
		if h.arguments(s) != h.arguments(strings.Clone(s)) {
			t.Fatalf("%q: two numbers", s)
		}
		dec := json.NewDecoder(strings.NewReader(s))
		dec.UseNumber()
		var v any
		if !json.Valid([]byte(s)) || strings.ContainsAny(s, "\\\x7f") || strings.ToValidUTF8(s, "") != s || dec.Decode(&v) != nil {
			return // escapes that stand for no character are read differently
		}
		switch v.(type) {
		case map[string]any, []any:
		default:
			return
		}
		if strings.Count(s, ":") > 1 {
			// Of keys that are there twice, both count here.
			if !sameKeys(s) {
				return
			}
		}
		sorted, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if len(s) < maxArguments && h.arguments(strings.TrimSpace(s)) != h.arguments(string(sorted)) && depth(s) < maxDepth {
			t.Fatalf("%q and %q: other numbers", s, sorted)
		}
	})
}

// sameKeys reports whether no object in s has a key twice.
func sameKeys(s string) bool {
	dec := json.NewDecoder(strings.NewReader(s))
	var object func() bool
	object = func() bool {
		tok, err := dec.Token()
		if err != nil {
			return false
		}
		keys := map[string]bool{}
		switch tok {
		case json.Delim('{'):
			for dec.More() {
				key, _ := dec.Token()
				if keys[key.(string)] || !object() {
					return false
				}
				keys[key.(string)] = true
			}
		case json.Delim('['):
			for dec.More() {
				if !object() {
					return false
				}
			}
		default:
			return true
		}
		_, err = dec.Token()
		return err == nil
	}
	return object()
}

func depth(s string) int { return strings.Count(s, "[") + strings.Count(s, "{") }

package stationarity

import (
	"strings"

	"github.com/tidwall/gjson"
)

// A conversation is of interest at its end, and may have megabytes before it,
// so JSON is read backwards here. That is well defined for valid JSON: a
// backslash stands only inside a string, so a quote with an even number of
// them before it, none included, begins or ends a string. Of text that is no
// JSON, something is found or nothing; no function looks at a byte twice.

// span is a part of a string, from lo up to but without hi.
type span struct{ lo, hi int }

// spaceBefore returns the end of what stands before the white space that ends
// at i.
func spaceBefore(s string, i int) int {
	for i > 0 && (s[i-1] == ' ' || s[i-1] == '\n' || s[i-1] == '\t' || s[i-1] == '\r') {
		i--
	}
	return i
}

// stringBefore returns where the string begins whose closing quote is
// s[end-1].
func stringBefore(s string, end int) (start int, ok bool) {
	for i := end - 1; i > 0; {
		quote := strings.LastIndexByte(s[:i], '"')
		if quote < 0 {
			break
		}
		i = quote
		for i > 0 && s[i-1] == '\\' {
			i--
		}
		if (quote-i)%2 == 0 {
			return quote, true
		}
	}
	return 0, false
}

// valueBefore returns where the value begins that ends at end.
func valueBefore(s string, end int) (start int, ok bool) {
	depth := 0
	for i := end; i > 0; {
		switch s[i-1] {
		case '"':
			if i, ok = stringBefore(s, i); !ok {
				return 0, false
			}
		case ']', '}':
			depth++
			i--
		case '[', '{':
			if depth--; depth < 0 {
				return 0, false
			}
			i--
		case ',', ':', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return 0, false
			}
			i--
			continue
		default:
			i--
			if depth > 0 {
				continue
			}
			for i > 0 && strings.IndexByte(",:[{ \n\t\r\"]}", s[i-1]) < 0 {
				i--
			}
		}
		if depth == 0 {
			return i, true
		}
	}
	return 0, false
}

// membersBefore calls visit for each member of the object that ends at end, the
// last one first, and returns where the object begins. Keys are as they are
// written; no key that means anything here is written with escapes.
func membersBefore(s string, end int, visit func(key string, value span)) (start int, ok bool) {
	if end == 0 || s[end-1] != '}' {
		return 0, false
	}
	i := spaceBefore(s, end-1)
	if i > 0 && s[i-1] == '{' {
		return i - 1, true
	}
	for {
		lo, ok := valueBefore(s, i)
		if !ok {
			return 0, false
		}
		value := span{lo, i}
		i = spaceBefore(s, lo)
		if i == 0 || s[i-1] != ':' {
			return 0, false
		}
		i = spaceBefore(s, i-1)
		if i == 0 || s[i-1] != '"' {
			return 0, false
		}
		quote, ok := stringBefore(s, i)
		if !ok {
			return 0, false
		}
		visit(s[quote+1:i-1], value)
		i = spaceBefore(s, quote)
		switch {
		case i > 0 && s[i-1] == ',':
			i = spaceBefore(s, i-1)
		case i > 0 && s[i-1] == '{':
			return i - 1, true
		default:
			return 0, false
		}
	}
}

// list goes over the elements of an array, the last one first.
type list struct {
	s  string
	at int // where the next element ends; 0 if there is none
}

// listOf returns the list of an array, and an empty one for any other value.
func listOf(s string) list {
	end := spaceBefore(s, len(s))
	if end == 0 || s[end-1] != ']' {
		return list{}
	}
	return list{s: s, at: spaceBefore(s, end-1)}
}

// step goes on to the element before the one that begins at start.
func (l *list) step(start int, ok bool) {
	end := spaceBefore(l.s, start)
	if !ok || end == 0 || l.s[end-1] != ',' {
		l.at = 0
		return
	}
	l.at = spaceBefore(l.s, end-1)
}

// text returns what a JSON string says, "" for any other value.
func text(raw string) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	if s := raw[1 : len(raw)-1]; strings.IndexByte(s, '\\') < 0 {
		return s
	}
	return gjson.Parse(raw).Str
}

package recovery

import (
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
)

// maxDepth is how deep JSON may be nested before it counts as invalid, as in
// encoding/json. gjson.Valid recurses, and a body of brackets alone would
// exhaust the stack.
const maxDepth = 10_000

// ValidJSON reports whether s is one JSON value that is not nested absurdly.
func ValidJSON(s string) bool {
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			i = skipString(s, i) - 1
		case '[', '{':
			if depth++; depth > maxDepth {
				return false
			}
		case ']', '}':
			depth--
		}
	}
	return gjson.Valid(s)
}

// span is a part of a string, from lo up to but without hi. The empty span at
// 0 stands for something absent: no JSON value is found there.
type span struct{ lo, hi int }

func (p span) present() bool      { return p.hi > 0 }
func (p span) of(s string) string { return s[p.lo:p.hi] }

// members calls visit for each member of the JSON object that s[at:] begins
// with: its key, and where the value is. It walks over the object once, and
// only allocates for a key that is written with escapes. On text that is no
// JSON it stops somewhere; it does not validate.
func members(s string, at int, visit func(key string, value span)) {
	i := skipSpace(s, at)
	if i >= len(s) || s[i] != '{' {
		return
	}
	for i = skipSpace(s, i+1); i < len(s) && s[i] == '"'; {
		end := skipString(s, i)
		if end > len(s) {
			return
		}
		key := s[i+1 : end-1]
		if strings.IndexByte(key, '\\') >= 0 {
			key = unquote(s[i:end])
		}
		i = skipSpace(s, end)
		if i >= len(s) || s[i] != ':' {
			return
		}
		lo := skipSpace(s, i+1)
		hi := skipValue(s, lo)
		if hi == lo {
			return
		}
		visit(key, span{lo, hi})
		i = skipSpace(s, hi)
		if i >= len(s) || s[i] != ',' {
			return
		}
		i = skipSpace(s, i+1)
	}
}

// member returns where the value of the named member is, the last one if there
// are several, as most readers of JSON have it.
func member(s string, at int, name string) (found span) {
	members(s, at, func(key string, value span) {
		if key == name {
			found = value
		}
	})
	return found
}

// elements calls visit for each element of the JSON array that s[at:] begins
// with, as members does for objects.
func elements(s string, at int, visit func(value span)) {
	i := skipSpace(s, at)
	if i >= len(s) || s[i] != '[' {
		return
	}
	for i < len(s) && s[i] != ']' {
		lo := skipSpace(s, i+1)
		hi := skipValue(s, lo)
		if hi == lo {
			return
		}
		visit(span{lo, hi})
		i = skipSpace(s, hi)
	}
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index behind the string whose opening quote is at i,
// or len(s)+1 if it has no end.
func skipString(s string, i int) int {
	quote := i
	for i++; i < len(s); {
		// Not looked for again behind each escape: that would be quadratic.
		if quote < i {
			q := strings.IndexByte(s[i:], '"')
			if q < 0 {
				break
			}
			quote = i + q
		}
		b := strings.IndexByte(s[i:quote], '\\')
		if b < 0 {
			return quote + 1
		}
		i += b + 2
	}
	return len(s) + 1
}

// skipValue returns the index behind the value at i, or i if there is none.
func skipValue(s string, i int) int {
	depth := 0
	for j := i; j < len(s); {
		switch s[j] {
		case '"':
			j = skipString(s, j)
			if j > len(s) {
				return i
			}
		case '[', '{':
			depth++
			j++
		case ']', '}':
			if depth == 0 {
				return j
			}
			depth--
			j++
		case ',', ' ', '\t', '\n', '\r', ':':
			if depth == 0 {
				return j
			}
			j++
			continue
		default:
			j++
			if depth > 0 {
				continue
			}
			for j < len(s) && strings.IndexByte(",]} \t\n\r:", s[j]) < 0 {
				j++
			}
		}
		if depth == 0 {
			return j
		}
	}
	return i
}

// unquote returns the text of a JSON string value, "" for any other value.
func unquote(raw string) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	return gjson.Parse(raw).Str
}

// ownedString returns a copy of a JSON string, to be sent in another event, or ""
// if raw is none.
func ownedString(raw string) string {
	if !strings.HasPrefix(raw, `"`) || !ValidJSON(raw) {
		return ""
	}
	return strings.Clone(raw)
}

// ownedID is ownedString for ids, "" for one that is too long to be kept.
func ownedID(raw string) string {
	if len(raw) > maxID {
		return ""
	}
	return ownedString(raw)
}

// alias returns b as a string without copying it. The string is valid as long
// as b does not change: what is kept of it must be cloned.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) } // #nosec G103 -- see above

// bytesOf returns the bytes of s without copying them; they must not be changed.
func bytesOf(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) } // #nosec G103 -- see above

package stationarity

import (
	"hash/maphash"
	"math/bits"
	"strings"
)

const (
	// maxArguments is how long arguments may be that are taken apart. Longer ones
	// are files being written, and compared as they are.
	maxArguments = 256 << 10
	// maxDepth is how deep arguments may be nested that are taken apart.
	maxDepth = 128
)

// hasher makes the numbers that stand for calls and results. Each one has a
// seed of its own, so that nobody can choose two texts with one number.
type hasher struct {
	seed    maphash.Seed
	results map[uint64]uint64 // by the number of the result as it stands
	scrubs  int               // bytes of results that were looked through for noise
}

func newHasher() hasher { return hasher{seed: maphash.MakeSeed()} }

func (h *hasher) text(s string) uint64 { return maphash.String(h.seed, s) }

// mix makes one number of two, whose order matters.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9e3779b97f4a7c15, bits.RotateLeft64(b, 31)^0xbf58476d1ce4e5b9)
	return (hi ^ lo) + a + 3*b
}

// arguments returns the number of a JSON value, or of the text in it: of JSON
// the same whatever the order of keys and the white space, of other text the
// same whatever white space is around it.
func (h *hasher) arguments(raw string) uint64 {
	if len(raw) > maxArguments {
		return h.text(raw)
	}
	s := raw
	if strings.HasPrefix(raw, `"`) {
		s = strings.TrimSpace(text(raw))
	}
	if strings.HasPrefix(s, "{") || strings.HasPrefix(s, "[") {
		c := canonical{hasher: h, s: s}
		if n, ok := c.value(0); ok && c.i == len(s) {
			return n
		}
	}
	return h.text(s)
}

// canonical reads JSON forwards.
type canonical struct {
	*hasher
	s string
	i int // what was read, with the white space behind it
}

// What tells values apart that hold the same.
const (
	numObject = iota + 1
	numArray
	numString
)

func (c *canonical) value(depth int) (n uint64, ok bool) {
	if c.i == len(c.s) || depth == maxDepth {
		return 0, false
	}
	switch c.s[c.i] {
	case '{':
		return c.list('}', depth)
	case '[':
		return c.list(']', depth)
	case '"':
		s, ok := c.string()
		return mix(numString, c.text(s)), ok
	}
	start := c.i
	for c.i < len(c.s) && strings.IndexByte("-+.0123456789abcdefghijklmnopqrstuvwxyzE", c.s[c.i]) >= 0 {
		c.i++
	}
	word := c.s[start:c.i]
	c.space()
	return c.text(word), word != ""
}

// list reads an array or an object. The members of an object are summed up, so
// that their order does not count.
func (c *canonical) list(end byte, depth int) (n uint64, ok bool) {
	n = numArray
	if end == '}' {
		n = numObject
	}
	c.next()
	if c.take(end) {
		return mix(n, n), true
	}
	for count := uint64(1); ; count++ {
		var key string
		if end == '}' {
			if key, ok = c.string(); !ok || !c.take(':') {
				return 0, false
			}
		}
		value, ok := c.value(depth + 1)
		if !ok {
			return 0, false
		}
		if end == '}' {
			n += mix(c.text(key), value)
		} else {
			n = mix(n, value)
		}
		if c.take(end) {
			return mix(n, count), true
		}
		if !c.take(',') {
			return 0, false
		}
	}
}

// string reads a string.
func (c *canonical) string() (s string, ok bool) {
	if c.i == len(c.s) || c.s[c.i] != '"' {
		return "", false
	}
	for i := c.i + 1; i < len(c.s); i++ {
		switch c.s[i] {
		case '\\':
			i++
		case '"':
			s = text(c.s[c.i : i+1])
			c.i = i
			c.next()
			return s, true
		}
	}
	return "", false
}

func (c *canonical) take(b byte) bool {
	if c.i == len(c.s) || c.s[c.i] != b {
		return false
	}
	c.next()
	return true
}

func (c *canonical) next() {
	c.i++
	c.space()
}

func (c *canonical) space() {
	for c.i < len(c.s) && strings.IndexByte(" \n\t\r", c.s[c.i]) >= 0 {
		c.i++
	}
}

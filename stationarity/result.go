package stationarity

import "hash/maphash"

// maxResult is how much of a result is looked through for noise. What stands
// behind it counts as it is; agents cut what they show to the model well before.
const maxResult = 128 << 10

// maxScrubbed is how much is looked through for noise in all. A run of results
// that differ, if only in noise, is not followed farther than that.
const maxScrubbed = 2 << 20

// result returns the number of a result, given the JSON of an output: the same
// for two results that differ in noise and white space alone.
func (h *hasher) result(raw string) uint64 {
	if h.results == nil {
		h.results = make(map[uint64]uint64)
	}
	// A loop's results are mostly equal to the byte.
	plain := h.text(raw)
	n, ok := h.results[plain]
	switch size := min(len(raw), maxResult); {
	case ok:
		return n
	case h.scrubs+size > maxScrubbed:
		n = plain
	default:
		h.scrubs += size
		n = h.scrubbed(raw)
	}
	h.results[plain] = n
	return n
}

// What stands for noise in what is hashed, by its kind. No JSON holds such bytes.
const (
	noiseTime     = "\x01"
	noiseDuration = "\x02"
	noiseID       = "\x03"
)

// scrubbed hashes a result without its noise. The JSON is not unescaped for it:
// a client writes the same text in the same way each time. So \n, \t and \r are
// white space, and words begin behind \\n, too, since the text may hold JSON itself.
func (h *hasher) scrubbed(s string) uint64 {
	var sum maphash.Hash
	sum.SetSeed(h.seed)
	rest := ""
	if len(s) > maxResult {
		s, rest = s[:maxResult], s[maxResult:]
	}
	sc := scanner{s: s}
	from := 0 // what was not yet hashed
	for sc.i < len(s) {
		start := sc.i
		switch class := classes[s[start]]; {
		case class&isWord != 0:
			if noise := sc.word(); noise != "" {
				sum.WriteString(s[from:start]) //nolint:errcheck // never fails, by its documentation
				sum.WriteString(noise)         //nolint:errcheck // as above
				from = sc.i
			}
		case class&isSpace != 0 || s[start] == '\\':
			if !sc.space() {
				continue
			}
			// It counts where it keeps two words apart, and then once.
			apart := start > 0 && classes[s[start-1]]&isText != 0 && sc.i < len(s) && classes[s[sc.i]]&isText != 0
			if apart && sc.i == start+1 && s[start] == ' ' {
				continue
			}
			sum.WriteString(s[from:start]) //nolint:errcheck // as above
			if apart {
				sum.WriteString(" ") //nolint:errcheck // as above
			}
			from = sc.i
		default:
			sc.i++
		}
	}
	sum.WriteString(s[from:]) //nolint:errcheck // as above
	sum.WriteString(rest)     //nolint:errcheck // as above
	return sum.Sum64()
}

// scanner goes over a result, as it stands in the JSON.
type scanner struct {
	s string
	i int
	// The last two words before i, to tell what a number is.
	last, before span
}

// space skips white space, or else the backslashes here and the letter that they
// make something else of, and reports which of both it was.
func (sc *scanner) space() bool {
	i := sc.i
	for i < len(sc.s) {
		if classes[sc.s[i]]&isSpace != 0 {
			i++
		} else if sc.s[i] == '\\' && i+1 < len(sc.s) && isEscapedSpace(sc.s[i+1]) {
			i += 2
		} else {
			break
		}
	}
	if i > sc.i {
		sc.i = i
		return true
	}
	for i < len(sc.s) && sc.s[i] == '\\' {
		i++
	}
	if i < len(sc.s) {
		switch odd := (i-sc.i)%2 == 1; {
		case isEscapedSpace(sc.s[i]):
			i++
		case odd && sc.s[i] == 'u':
			i = min(i+len("u0000"), len(sc.s))
		}
	}
	sc.i = i
	return false
}

func isEscapedSpace(b byte) bool { return b == 'n' || b == 't' || b == 'r' }

// Classes of bytes.
const (
	isDigit = 1 << iota
	isHex   // a letter of a hexadecimal number
	isOther // another letter
	isLow   // an underscore
	isHigh  // a part of a character beyond ASCII
	isSpace

	isWord = isDigit | isHex | isOther | isLow
	isText = isWord | isHigh
)

// classes is a constant table.
var classes = func() (t [256]uint8) {
	for b := range 256 {
		switch {
		case '0' <= b && b <= '9':
			t[b] = isDigit
		case 'a' <= b && b <= 'f', 'A' <= b && b <= 'F':
			t[b] = isHex
		case 'g' <= b && b <= 'z', 'G' <= b && b <= 'Z':
			t[b] = isOther
		case b == '_':
			t[b] = isLow
		case b >= 0x80:
			t[b] = isHigh
		case b == ' ', b == '\n', b == '\t', b == '\r':
			t[b] = isSpace
		}
	}
	return t
}()

package simulate

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"unicode/utf8"
)

// digest makes the n-th value of a kind for one request of one seed.
func digest(kind string, seed uint64, ordinal, n int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %d %d", kind, seed, ordinal, n))
	return hex.EncodeToString(sum[:])
}

func requestID(arrival int) string {
	return "req_" + digest("request", 0, arrival, 0)[:32]
}

// blobPrefix begins every encrypted_content of this package, as one common
// prefix begins those of the real API.
const blobPrefix = "gAAAAABs"

// encrypted makes the encrypted_content of a reasoning item. It depends on the
// item's id alone, so that a strict server can tell whose it is.
func encrypted(itemID string) string {
	const blocks = 6 // 192 bytes, the size of a short thought's
	blob := make([]byte, 0, blocks*sha256.Size)
	for i := range blocks {
		sum := sha256.Sum256(fmt.Appendf(nil, "encrypted %s %d", itemID, i))
		blob = append(blob, sum[:]...)
	}
	return blobPrefix + base64.RawURLEncoding.EncodeToString(blob)
}

// mix spreads one number over all 64 bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// words are the choices for one place of a generated sentence; four bits choose.
type words [16]string

// Constant tables. Seven places of 16 words give 2^28 sentences, enough that no
// detector takes them for a repetition.
var (
	openers = words{
		"I should", "Next I", "Let me", "It helps to",
		"The plan is to", "We can", "Now I", "One option is to",
		"It is safer to", "After that I", "I want to", "Perhaps I",
		"The user wants me to", "I still have to", "Here I would", "First I",
	}
	verbs = words{
		"check", "read", "open", "compare", "sort", "count", "trace", "move",
		"rename", "test", "list", "copy", "merge", "measure", "split", "follow",
	}
	adjectives = words{
		"first", "second", "small", "older", "remaining", "local", "shared", "empty",
		"nested", "public", "broken", "longest", "missing", "sorted", "hidden", "cached",
	}
	nouns = words{
		"file", "table", "branch", "parser", "header", "request", "buffer", "index",
		"counter", "handler", "record", "module", "config", "socket", "folder", "schema",
	}
	reasons = words{
		"because the log names it", "since nothing else calls it",
		"so the types agree", "before touching the rest",
		"as the error came from there", "to see what changed",
		"while the others wait", "given how old it is",
		"which the tests rely on", "if the limits allow it",
		"though it may be empty", "to keep the diff short",
		"because two callers differ", "as the user asked",
		"until the numbers match", "so that it can be undone",
	}
)

// sentence makes the n-th sentence of a request: varied, harmless text.
func sentence(seed uint64, ordinal, n int) string {
	h := mix(mix(mix(seed)^uint64(ordinal)) ^ uint64(n)) // #nosec G115 -- to be mixed, any bits will do
	pick := func(list *words) string {
		word := list[h&15]
		h >>= 4
		return word
	}
	return pick(&openers) + " " + pick(&verbs) + " the " + pick(&adjectives) + " " + pick(&nouns) +
		" against the " + pick(&adjectives) + " " + pick(&nouns) + " " + pick(&reasons) + ". "
}

// cut splits a text into deltas: at a blank after 12 bytes or more, and in any
// case after about 24, never inside a character. Together they are the text.
func cut(text string) []string {
	var deltas []string
	for text != "" {
		end := 0
		for end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			end += size
			if end >= 24 || end >= 12 && r == ' ' {
				break
			}
		}
		deltas = append(deltas, text[:end])
		text = text[end:]
	}
	return deltas
}

package ledger

import (
	"crypto/sha256"
	"encoding/base64"
	"unicode"
	"unicode/utf8"
)

const (
	// MinIDRunes is the length from which on an item id is taken to be unique:
	// some servers number their items the same way in every response.
	MinIDRunes = 16

	// MinTextRunes is the length from which on a text is taken to be one attempt's
	// own, white space not counted. Headlines such as "Inspecting the repository
	// structure" come back in accepted attempts too and stay below; 64 characters
	// are about a dozen words, and what loops is longer than that.
	MinTextRunes = 64
)

// Key stands for an id, for encrypted content or for a text, by its SHA-256.
// The zero Key stands for nothing: stores neither keep nor find it, so that
// what the functions below return needs no check.
type Key struct {
	kind kind
	sum  [sha256.Size]byte
}

// kind keeps apart keys of different things that read the same.
type kind uint8

// The numbers are in files and the words in Redis: both are for good.
const (
	kindItem kind = iota + 1
	kindSealed
	kindText
	kindAlias
)

var kindWords = [...]string{kindItem: "item", kindSealed: "sealed", kindText: "text", kindAlias: "alias"}

// ItemID returns the key of a discarded item's id; the zero Key for ids of less
// than MinIDRunes characters.
func ItemID(id string) Key {
	if utf8.RuneCountInString(id) < MinIDRunes {
		return Key{}
	}
	return Key{kindItem, sha256.Sum256([]byte(id))}
}

// Sealed returns the key of a discarded item's encrypted_content; the zero Key
// if there is none.
func Sealed(encryptedContent string) Key {
	if encryptedContent == "" {
		return Key{}
	}
	return Key{kindSealed, sha256.Sum256([]byte(encryptedContent))}
}

// Text returns the key of a discarded item's text, all its parts one after the
// other; the zero Key for texts of less than MinTextRunes characters.
//
// Clients trim texts, join their parts with a blank or with new lines, or split
// a stream inside a character. So white space does not count, nor does U+FFFD,
// which stands for broken characters, nor what is no UTF-8. All else does: case,
// punctuation, and the Unicode form.
func Text(text string) Key {
	h := sha256.New()
	buf := make([]byte, 0, 1024)
	counted := 0
	for _, r := range text {
		switch {
		case r > ' ' && r < utf8.RuneSelf:
			buf = append(buf, byte(r))
		case r == utf8.RuneError || unicode.IsSpace(r):
			continue
		default:
			buf = utf8.AppendRune(buf, r)
		}
		counted++
		if len(buf) > cap(buf)-utf8.UTFMax {
			h.Write(buf)
			buf = buf[:0]
		}
	}
	if counted < MinTextRunes {
		return Key{}
	}
	h.Write(buf)
	k := Key{kind: kindText}
	h.Sum(k.sum[:0])
	return k
}

// Alias returns the key under which the accepted attempt's response id is found
// from the one that the client saw; the zero Key if that is empty.
//
// It has no least length: a server that numbers its responses is served right
// as long as an alias is deleted when a client sees its id from upstream.
func Alias(responseID string) Key {
	if responseID == "" {
		return Key{}
	}
	return Key{kindAlias, sha256.Sum256([]byte(responseID))}
}

// IsZero reports whether k stands for nothing.
func (k Key) IsZero() bool { return k.kind == 0 }

// String returns the kind of k in a word, a colon and the hash in base64url.
func (k Key) String() string {
	if k.IsZero() {
		return "none"
	}
	return kindWords[k.kind] + ":" + base64.RawURLEncoding.EncodeToString(k.sum[:])
}

package recovery

import (
	"crypto/rand"
	"encoding/base64"
	"strings"
)

// TombstonePrefix begins the encrypted_content of a tombstone: the reasoning
// item that closes a discarded one on the client's side. It is told from real
// content by this prefix alone, so that any replica recognises it.
const TombstonePrefix = "doomproxy-tombstone-v1:"

// newTombstone returns the encrypted_content of a new tombstone. Each is
// different, so that no client takes two of them for one.
func newTombstone() string {
	var b [16]byte
	rand.Read(b[:]) //nolint:errcheck // never fails, by its documentation
	return TombstonePrefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// Scrub drops from the `input` and `items` arrays of a request body the
// tombstones that a client sends back, and returns the number of items dropped.
// If there are none, or the body is no JSON, it comes back as it is; else all
// other bytes do.
func Scrub(body string) (scrubbed string, dropped int) {
	if !strings.Contains(body, TombstonePrefix) || !ValidJSON(body) {
		return body, 0
	}
	var cuts []span
	members(body, 0, func(key string, value span) {
		if key == "input" || key == "items" {
			cuts = append(cuts, cutElements(body, value.lo, isTombstone, &dropped)...)
		}
	})
	var out strings.Builder
	at := 0
	for _, c := range cuts {
		out.WriteString(body[at:c.lo])
		at = c.hi
	}
	out.WriteString(body[at:])
	return out.String(), dropped
}

func isTombstone(item string) bool {
	return strings.Contains(item, TombstonePrefix) &&
		unquote(member(item, 0, "type").of(item)) == "reasoning" &&
		strings.HasPrefix(unquote(member(item, 0, "encrypted_content").of(item)), TombstonePrefix)
}

// cutElements returns the parts of s to leave out so that the array at the
// given place loses the elements that drop names, with the commas they need.
// It adds their number to dropped.
func cutElements(s string, at int, drop func(element string) bool, dropped *int) []span {
	var cuts []span
	kept, run, last := 0, span{}, 0 // end of the last element kept; elements dropped behind it; end of all
	elements(s, at, func(value span) {
		last = value.hi
		switch {
		case drop(value.of(s)):
			*dropped++
			if !run.present() {
				run = span{value.lo, value.hi}
			}
		default:
			if run.present() {
				cuts = append(cuts, span{run.lo, value.lo})
				run = span{}
			}
			kept = value.hi
		}
	})
	if run.present() {
		if kept > 0 {
			run.lo = kept // with the comma behind the last element kept
		}
		cuts = append(cuts, span{run.lo, last})
	}
	return cuts
}

package recovery

import (
	"crypto/rand"
	"encoding/base64"
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

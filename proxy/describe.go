package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/sseframe"
)

// maxDescription bounds what is logged of an error, in bytes.
const maxDescription = 300

// quoted are the parts of an error's text that others wrote: net/http quotes
// what it got from the upstream and did not understand.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"?`)

// told are errors that are a text alone, and ours or the standard library's.
var told = []error{
	errNoAnswer, errUnfinished, errSilent, errNoStream, errBroke, errPanic, errRefusedInBand, sseframe.ErrFrameTooLong,
	io.EOF, io.ErrUnexpectedEOF, context.Canceled, net.ErrClosed,
}

// origins are how others of the standard library begin.
var origins = []string{"http: ", "http2: ", "net/http: ", "net: ", "tls: ", "x509: ", "stream error: ", "connection error: "}

// plainText is the type of errors that are a text and nothing else.
var plainText = reflect.TypeOf(errors.New(""))

// describe returns what may be logged of an error, without what others wrote. One
// that is a text alone may be: a proxy's answer to CONNECT becomes such an error.
func describe(err error) string {
	text := err.Error()
	for leaf := err; leaf != nil; leaf = errors.Unwrap(leaf) {
		if reflect.TypeOf(leaf) != plainText || slices.Contains(told, leaf) {
			continue
		}
		if !slices.ContainsFunc(origins, func(o string) bool { return strings.HasPrefix(leaf.Error(), o) }) {
			text = strings.ReplaceAll(text, leaf.Error(), "…")
		}
	}
	text = quoted.ReplaceAllString(text, `"…"`)
	if len(text) > maxDescription {
		text = strings.ToValidUTF8(text[:maxDescription], "") + "…"
	}
	return text
}

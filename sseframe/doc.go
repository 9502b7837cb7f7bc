// Package sseframe splits a server-sent event stream into frames without
// changing a byte of it.
//
// A frame is the raw text up to and including the blank line that dispatches
// an event; a blank line alone, or comments and a blank line, are frames too.
// The frames of a stream, one after the other, followed by what [Scanner.Rest]
// returns, are exactly the bytes that were read. A proxy can so forward what it
// received, and look into a frame only where it has to decide something.
//
// Line ends may be LF, CRLF, CR or any mixture, as the event stream format of
// the HTML standard allows (https://html.spec.whatwg.org/multipage/server-sent-events.html).
package sseframe

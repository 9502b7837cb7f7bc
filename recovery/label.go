package recovery

import (
	"strconv"
	"strings"
)

// Kind is the kind of loop a signal reports.
type Kind uint8

// The kinds of the wire contract. A label that fits none of them is unknown.
const (
	KindUnknown Kind = iota
	KindTailRepetition
	KindExactRepetition
	KindLowLogprob
)

// String returns the kind as it stands in a label and in metrics; unknown
// kinds are "other".
func (k Kind) String() string {
	switch k {
	case KindTailRepetition:
		return "tail_repetition"
	case KindExactRepetition:
		return "exact_repetition"
	case KindLowLogprob:
		return "low_logprob"
	case KindUnknown:
	}
	return "other"
}

// Source is who found a loop.
type Source uint8

// The sources.
const (
	SourceUpstream Source = iota // the upstream, which reported it
	SourceLocal                  // a detector on this side
)

// String returns the source as it stands in metrics.
func (s Source) String() string {
	if s == SourceLocal {
		return "local"
	}
	return "upstream"
}

// Signal is one label of a report, taken apart.
type Signal struct {
	// Label is the label as it came. With the two that follow it is the identity
	// of the signal.
	Label  string
	Source Source
	// WarnOnly keeps the signal from being confident, whatever its label says.
	WarnOnly bool

	Kind    Kind
	Channel string // what stands behind the first @; may be empty
	// Threshold is the detector's threshold, of tail_repetition only. Lower
	// means a tighter loop.
	Threshold uint32
	// Tokens and Copies are the length of the repeated unit and how often it
	// came, of exact_repetition only.
	Tokens, Copies uint32
}

// ParseLabel takes a label apart. It never fails: what does not fit the
// contract is a signal of KindUnknown.
func ParseLabel(label string) Signal {
	s := Signal{Label: label}
	head, channel, _ := strings.Cut(label, "@")
	s.Channel = channel
	name, args, hasArgs := strings.Cut(head, ":")
	switch name {
	case "tail_repetition":
		if n, ok := parseNumber(args); ok {
			s.Kind, s.Threshold = KindTailRepetition, n
		}
	case "exact_repetition":
		tokens, copies, _ := strings.Cut(args, "x")
		t, okT := parseNumber(tokens)
		c, okC := parseNumber(copies)
		if okT && okC {
			s.Kind, s.Tokens, s.Copies = KindExactRepetition, t, c
		}
	case "low_logprob":
		if !hasArgs {
			s.Kind = KindLowLogprob
		}
	}
	return s
}

// parseNumber accepts a whole decimal uint32, digits only.
func parseNumber(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	return uint32(n), err == nil
}

// ChannelLabel returns the channel for use in metrics: one of the channels of
// the contract, or "other".
func (s Signal) ChannelLabel() string {
	switch s.Channel {
	case "thinking", "response", "tool":
		return s.Channel
	}
	return "other"
}

// SanitizeLabel reduces a label, which comes from outside, to the characters
// that may go into a log or a comment line: letters, digits and _:.@- alone.
func SanitizeLabel(label string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9',
			strings.ContainsRune("_:.@-", r):
			return r
		}
		return -1
	}, label)
}

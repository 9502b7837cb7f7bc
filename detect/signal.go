package detect

import "strconv"

// Channel is what a text is: the name stands in labels.
type Channel uint8

// The channels of the wire contract that carry text.
const (
	// Thinking is reasoning and its summaries. Nobody has to read all of it, so
	// its thresholds are the lowest.
	Thinking Channel = iota
	// Response is what the user reads, refusals included.
	Response
	// Tool is the arguments of a tool call, where a file may be written.
	Tool
)

// String returns the channel as it stands in a label.
func (c Channel) String() string {
	switch c {
	case Response:
		return "response"
	case Tool:
		return "tool"
	default:
		return "thinking"
	}
}

// Part is a part of a Detector, or a set of them joined with |.
type Part uint8

// The parts, from the surest to the widest.
const (
	// Exact finds text that repeats byte for byte.
	Exact Part = 1 << iota
	// Counter finds prose that repeats but for numbers, case and white space.
	Counter
	// Saturation finds prose whose phrases were all said before, in any order.
	Saturation
)

// String returns the part's name, of a set that of its surest part.
func (p Part) String() string {
	switch {
	case p&Exact != 0:
		return "exact"
	case p&Counter != 0:
		return "counter"
	case p&Saturation != 0:
		return "saturation"
	}
	return "none"
}

// Signal says that a loop was found. It holds numbers only, none of the text.
type Signal struct {
	Part    Part
	Channel Channel
	// Offset is how many bytes of the channel's text had come when the loop
	// became certain. What lies behind it is what a cut at once would save.
	Offset int64
	// Repeated is the length of the repetition up to Offset in bytes, its first
	// copy included. Counter and Saturation count bytes of folded text, which is
	// shorter than the text.
	Repeated int64
	// Period is the length of the unit in bytes, counted as Repeated is; zero
	// for Saturation, which knows no unit.
	Period int
	// Copies is the number of whole units in Repeated. For Saturation it is how
	// often each of the phrases has come at least.
	Copies int
	// Tokens estimates the length of the unit: a token for each four ASCII
	// bytes, and for each other character. Zero for Saturation.
	Tokens int
	// Threshold is the t of tail_repetition:{t}, between 2 and 64: the lower,
	// the tighter the loop. Exact alone goes below 32.
	Threshold int
}

// Start returns the offset at which the repetition began. What Counter and
// Saturation found began there or before.
func (s Signal) Start() int64 { return s.Offset - s.Repeated }

// TailLabel returns the signal as tail_repetition:{t}@{channel}.
func (s Signal) TailLabel() string {
	return "tail_repetition:" + strconv.Itoa(s.Threshold) + "@" + s.Channel.String()
}

// exactTokens is the shortest unit that exact_repetition is raised for. It is
// what x-grok-exact-repetition-check asks the upstream's own detector for.
const exactTokens = 64

// ExactLabel returns the signal as exact_repetition:{tokens}x{copies}@{channel}.
// It returns "" if the signal is not one of Exact or its unit is shorter than
// 64 tokens.
func (s Signal) ExactLabel() string {
	if s.Part != Exact || s.Tokens < exactTokens {
		return ""
	}
	return "exact_repetition:" + strconv.Itoa(s.Tokens) + "x" + strconv.Itoa(s.Copies) + "@" + s.Channel.String()
}

// before orders signals by offset, then by part.
func (s *Signal) before(t *Signal) bool {
	return s.Offset < t.Offset || s.Offset == t.Offset && s.Part < t.Part
}

// warnOnly is the lowest threshold of what only warns by default.
const warnOnly = 32

// tightness returns the power of two at or above 128/copies, kept between
// lowest and 64. The upstream's detector calls a loop of 64 and less one to
// act on; here that is two copies or more.
func tightness(copies, lowest int) int {
	t := 64
	for t > lowest && t/2*copies >= 128 {
		t /= 2
	}
	return t
}

// Package corpus makes texts to measure a loop detector with: loops of many
// shapes, legitimate texts that look like loops, loops that end by themselves,
// and repetitions just too short to be one. A shape that is modelled on a public
// report names it. A seed decides everything that varies.
package corpus

import "hash/fnv"

// Shape is a kind of text, of which each seed makes another one.
type Shape struct {
	// Name is unique and fit for a subtest's name.
	Name string
	// Group joins loops that should be found after about the same length.
	Group Group
	// Source is the public report that the shape is modelled on, as
	// owner/repository#number, or empty.
	Source string

	write func(*page)
}

// Group is a group of loops.
type Group string

// The groups, with what they repeat.
const (
	Phrases    Group = "phrases"    // up to 128 bytes, with words
	Floods     Group = "floods"     // punctuation, white space, a token
	Data       Group = "data"       // digits, base64, records
	Paragraphs Group = "paragraphs" // about 300 bytes
	Blocks     Group = "blocks"     // 2 to 15 KiB
	Counters   Group = "counters"   // all but a number, or the spacing
	Drifts     Group = "drifts"     // phrases in changing order
	None       Group = ""           // no loop
)

// Sample is a text.
type Sample struct {
	Text []byte
	// Onset is the offset at which the first copy of what is repeated begins,
	// or len(Text) if nothing is.
	Onset int
}

// Sample makes the shape's text for a seed.
func (s Shape) Sample(seed uint64) Sample {
	h := fnv.New64a()
	h.Write([]byte(s.Name)) //nolint:errcheck // never fails
	p := newPage(seed, h.Sum64())
	s.write(p)
	if p.onset < 0 {
		p.onset = len(p.text)
	}
	return Sample{Text: p.text, Onset: p.onset}
}

// Loops returns the shapes that a detector should find in thinking.
func Loops() []Shape {
	var all []Shape
	for _, shapes := range [][]Shape{phrases(), floods(), paragraphs(), blocks(), counters(), drifts()} {
		all = append(all, shapes...)
	}
	return all
}

// Legitimate returns the shapes that no detector should take for loops, in
// whatever channel they come.
func Legitimate() []Shape {
	var all []Shape
	for _, shapes := range [][]Shape{lists(), tables(), code(), records(), writing()} {
		all = append(all, shapes...)
	}
	return all
}

// Cut cuts a text into pieces as a stream would: most of them a few bytes long,
// some empty, many inside a UTF-8 character.
func Cut(text []byte, seed uint64) [][]byte {
	r := newPage(seed, 0).r
	var pieces [][]byte
	for len(text) > 0 {
		n := r.IntN(12)
		if r.IntN(50) == 0 {
			n = r.IntN(5000)
		}
		n = min(n, len(text))
		pieces = append(pieces, text[:n])
		text = text[n:]
	}
	return pieces
}

package corpus

import (
	"fmt"
	"strings"
)

// Recovering returns shapes that repeat something and then go on: now and then
// a model says a thing a few times over and recovers. Each text has several such
// places, all of them shorter than what makes a loop of thinking.
func Recovering() []Shape {
	var all []Shape
	for _, c := range []struct {
		name     string
		unit     func(p *page) string
		repeated int
	}{
		{"recovers-words", func(p *page) string { return p.noun() + " " + p.adjective() + " " }, 740},
		{"recovers-sentence", func(p *page) string { return exactly(p.sentences(90), 90) + "\n" }, 740},
		{"recovers-paragraph", func(p *page) string { return exactly(p.sentences(300), 299) + "\n" }, 1750},
		{"recovers-page", func(p *page) string { return exactly(p.sentences(2000), 1999) + "\n" }, 5950},
		{"recovers-long-page", func(p *page) string { return exactly(p.sentences(9000), 8999) + "\n" }, 26900},
		{"recovers-flood", func(p *page) string { return p.pick("=", "/", "?!", " ", "\n", "ha") }, 1000},
		{"recovers-zeros", func(p *page) string { return p.pick("0", "0, ", "00 ") }, 2020},
		{"recovers-base64", func(*page) string { return strings.Repeat("A", 76) + "\n" }, 2000},
	} {
		all = append(all, Shape{Name: c.name, write: func(p *page) {
			for range 3 {
				p.thoughts(p.between(500, 3000))
				p.repeat(c.unit(p), c.repeated-p.r.IntN(40))
				p.add(".\n")
			}
			p.thoughts(2000)
		}})
	}
	return all
}

// NearMiss is a text just too short to be a loop, and the same text when it has
// become one.
type NearMiss struct {
	Name string
	// Written is set if the thresholds of answers and tool calls are meant, not
	// those of thinking.
	Written   bool
	Miss, Hit []byte
}

// near describes a near miss: unit repeated in all, which is when a detector
// has to find it.
type near struct {
	name     string
	unit     string
	repeated int
}

func (n near) miss(written bool) NearMiss {
	text := "Before the loop, there is a sentence.#"
	onset := len(text)
	for len(text) < onset+n.repeated {
		text += n.unit
	}
	text = text[:onset+n.repeated]
	return NearMiss{Name: n.name, Written: written, Miss: []byte(text[:len(text)-1]), Hit: []byte(text)}
}

// ExactMisses returns a near miss for each threshold of exact repetition: each
// kind of unit, and each length of a unit at both ends. Hit is Miss and one byte
// more.
func ExactMisses() []NearMiss {
	p := newPage(1, 0)
	text := func(n int) string { return exactly(p.sentences(n), n) }
	var all []NearMiss
	for _, n := range []near{
		{"words-short-by-bytes", "one two ", 768},
		{"words-63", text(63), 768},
		{"words-64", text(64), 768},
		{"words-200", text(200), 1200},
		{"words-511", text(511), 6 * 511},
		{"words-512", text(512), 3 * 512},
		{"words-4000", text(4000), 12000},
		{"words-8000", text(8000), 24000},
		{"han", "我需要再次检查这个文件。", 768},
		{"marks-1", "=", 1024},
		{"marks-4", "?!. ", 1024},
		{"marks-token", "lol", 1024},
		{"marks-rows", "|---|----|-----|------|\n" + "| | | | | |\n\n\n", 1024},
		{"data-1", "0", 2048},
		{"data-records", `{"7": 13, "8": "4711"}, `, 2048},
		{"data-base64", p.noise(120, base64Alphabet), 2048},
		{"data-base64-long", p.noise(700, base64Alphabet), 2100},
	} {
		all = append(all, n.miss(false))
	}
	for _, n := range []near{
		{"words-short-by-bytes", "one two ", 2048},
		{"words-100", text(100), 2048},
		{"words-200", text(200), 2400},
		{"words-511", text(511), 12 * 511},
		{"words-512", text(512), 5 * 512},
		{"words-4000", text(4000), 20000},
		{"marks-1", "=", 8192},
		{"data-1", "0", 16384},
		{"data-records", `{"7": 13, "8": "4711"}, `, 16384},
	} {
		all = append(all, n.miss(true))
	}
	return all
}

// CounterMisses returns near misses of what repeats but for its numbers. The
// length counts a number as one byte.
func CounterMisses() []NearMiss {
	p := newPage(2, 0)
	text := func(n int) string { return strings.TrimRight(exactly(p.sentences(n), n-1), " ") + "x" }
	var all []NearMiss
	for _, c := range []struct {
		name     string
		written  bool
		unit     string
		repeated int
	}{
		{"short", false, text(40), 1536},
		{"medium", false, text(250), 12 * 253},
		{"long", false, text(600), 8 * 603},
		{"short", true, text(40), 6144},
		{"medium", true, text(300), 24 * 303},
		{"long", true, text(900), 16 * 903},
	} {
		var b strings.Builder
		b.WriteString("Before the loop, there is a sentence.")
		folded := 0
		for i := 0; ; i++ {
			// " 0 " in folded text, and the unit is not of the wished length but for
			// what was trimmed.
			next := fmt.Sprintf(" %d %s", 1000+i, c.unit)
			length := len(c.unit) + 3
			if folded+length >= c.repeated {
				b.WriteString(next[:len(next)-(folded+length-c.repeated)])
				break
			}
			folded += length
			b.WriteString(next)
		}
		hit := b.String()
		all = append(all, NearMiss{Name: c.name, Written: c.written, Miss: []byte(hit[:len(hit)-1]), Hit: []byte(hit)})
	}
	return all
}

// SaturationMisses returns near misses of text whose phrases were all said
// before: not often enough, and not all of them.
func SaturationMisses() []NearMiss {
	p := newPage(3, 0)
	page := strings.Fields(p.sentences(9000))[:1040]
	before := p.sentences(30000)
	copies := func(n, words int) []byte {
		return []byte(before + strings.Repeat(strings.Join(page[:words], " ")+" ", n))
	}
	// newWord puts a new word into each so many words; each of them makes five
	// new phrases.
	newWord := func(each int) []byte {
		var b strings.Builder
		for i := range 9000 {
			if i%each == 0 {
				fmt.Fprintf(&b, "%s%s ", p.noise(4, "bcdfghjkl"), p.noise(4, "aeiouy"))
			}
			b.WriteString(page[i%200] + " ")
		}
		return []byte(b.String())
	}
	return []NearMiss{
		{Name: "seen-three-times", Miss: copies(4, 600), Hit: copies(5, 600)},
		{Name: "seen-five-times", Written: true, Miss: copies(7, 520), Hit: copies(8, 530)},
		{Name: "88-percent", Miss: newWord(41), Hit: newWord(70)},
		{Name: "95-percent", Written: true, Miss: newWord(99), Hit: newWord(200)},
	}
}

package config

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// given is a value as it was given: a text, a list, or a section of a list. The
// layers of a configuration are made of them, so that the place of a value comes
// along with it. Its fields are exported for koanf, which copies it.
type given struct {
	Source string // where it stands; empty: nowhere, it is the default
	Odd    string // what it is, if it can be none of these
	Text   string
	List   []given          // nil for what is no list
	Fields map[string]given // nil for what is no section
}

type shape int

const (
	scalar shape = iota + 1
	list
	section
	odd
)

func (g given) kind() shape {
	switch {
	case g.Odd != "":
		return odd
	case g.List != nil:
		return list
	case g.Fields != nil:
		return section
	}
	return scalar
}

// field returns a value of a section, in the section's place if it is missing.
func (g given) field(key string) given {
	if f, ok := g.Fields[key]; ok {
		return f
	}
	return given{Source: g.Source}
}

// maxShown is how much of a text a message repeats, in bytes.
const maxShown = 120

func shorten(text string) string {
	if len(text) <= maxShown {
		return text
	}
	n := maxShown
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + hidden
}

// refused is the error of a value that is not allowed.
func refused(key string, g given, k kind) error {
	what := ""
	switch g.kind() {
	case scalar:
		text := g.Text
		if k.shown != nil {
			text = k.shown(text)
		}
		what = strconv.Quote(shorten(text))
	case list:
		what = "a list"
	case section:
		what = "a section"
	case odd:
		what = g.Odd
	}
	return fmt.Errorf("%s%s: %s is not allowed, want %s", key, place(g.Source), what, k.allowed)
}

// place writes where a value stands, behind its key.
func place(source string) string {
	if source == "" {
		return ""
	}
	return " (" + source + ")"
}

// read returns what a value of the field means. For a number that was brought
// into its range, instead is what it became.
func (f *Field) read(key string, g given) (v any, instead string, err error) {
	switch {
	case g.kind() == scalar:
		v, instead, ok := f.kind.parse(g.Text)
		if !ok {
			return nil, "", refused(key, g, f.kind)
		}
		return v, instead, nil
	case g.kind() == list && f.kind.elements != nil:
		v, err := f.kind.elements(key, g.List)
		return v, "", err
	}
	return nil, "", refused(key, g, f.kind)
}

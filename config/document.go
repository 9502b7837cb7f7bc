package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDocument is the most that is read of a configuration file, in bytes.
const maxDocument = 1 << 20

// document is a YAML file: where koanf gets its text, and what parses it. All
// mistakes in it are found at once.
type document struct {
	name      string // of the file, in messages
	text      []byte
	upstreams []string // names, in their order
	errs      []error
}

// ReadBytes implements koanf.Provider.
func (d *document) ReadBytes() ([]byte, error) { return d.text, nil }

// errUnsupported is returned by what koanf does not call.
var errUnsupported = errors.New("not supported")

// Read implements koanf.Provider.
func (d *document) Read() (map[string]any, error) { return nil, errUnsupported }

// Marshal implements koanf.Parser.
func (d *document) Marshal(map[string]any) ([]byte, error) { return nil, errUnsupported }

// Unmarshal implements koanf.Parser. Its leaves are of type given. Mistakes go
// to errs, and their keys are left out.
func (d *document) Unmarshal(text []byte) (map[string]any, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return map[string]any{}, nil // empty, or nothing but comments
	case err != nil:
		d.fail(d.syntax(err))
		return map[string]any{}, nil
	}
	switch err := decoder.Decode(&more); {
	case errors.Is(err, io.EOF):
	case err != nil:
		d.fail(d.syntax(err))
	default:
		d.fail(fmt.Errorf("%s: a second document begins here, want one", d.at(&more)))
	}
	return d.section(doc.Content[0], newSchema(), ""), nil
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)`)

// syntax is the error of a text that is no YAML.
func (d *document) syntax(err error) error {
	m := yamlLine.FindStringSubmatch(err.Error())
	line, _ := strconv.Atoi(m[1]) //nolint:errcheck // none is 0: the parser says nothing of the first line
	what := m[2]
	if strings.HasPrefix(what, "unknown anchor") {
		// The rest of it may be a secret. The parser does not say where it is.
		return fmt.Errorf("%s: this is no YAML: a text that begins with * needs quotes", d.name)
	}
	if line == 0 || strings.HasPrefix(what, "did not find expected") { // for these it counts from 0
		line++
	}
	return fmt.Errorf("%s:%d: this is no YAML: %s", d.name, line, what)
}

// maxErrors is how many mistakes of a file are told: it may be one of another kind.
const maxErrors = 20

// fail takes down a mistake. After too many no more keys are looked at.
func (d *document) fail(err error) {
	if len(d.errs) == maxErrors {
		err = fmt.Errorf("%s: there is more that cannot be understood", d.name)
	}
	d.errs = append(d.errs, err)
}

func (d *document) hopeless() bool { return len(d.errs) > maxErrors }

// at is the place of a node.
func (d *document) at(n *yaml.Node) string { return fmt.Sprintf("%s:%d", d.name, n.Line) }

// schema is what may stand in a place of a document.
type schema struct {
	keys map[string]*schema // of a section
	each *schema            // below any name, in place of keys
	leaf bool
}

// newSchema returns the schema of a whole document.
func newSchema() *schema {
	root := &schema{keys: map[string]*schema{}}
	for _, f := range Fields() {
		s := root
		for part := range strings.SplitSeq(f.Key, ".") {
			if part == anyName {
				if s.each == nil {
					s.each = &schema{keys: map[string]*schema{}}
				}
				s = s.each
				continue
			}
			if s.keys[part] == nil {
				s.keys[part] = &schema{keys: map[string]*schema{}}
			}
			s = s.keys[part]
		}
		s.leaf = true
	}
	return root
}

// section reads a section. prefix is its key, with a dot behind it.
func (d *document) section(n *yaml.Node, s *schema, prefix string) map[string]any {
	n = target(n)
	all := map[string]any{}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return all // all in it is commented out
	}
	if n.Kind != yaml.MappingNode {
		want := "the keys " + strings.Join(slices.Sorted(maps.Keys(s.keys)), ", ")
		if s.each != nil {
			want = "a section for each name"
		}
		key := strings.TrimSuffix(prefix, ".")
		if key == "" {
			key = "the file"
		}
		g := d.value(n, "", nil)
		d.fail(refused(key, g, kind{allowed: want, shown: hide}))
		return all
	}
	for key, value := range d.pairs(n, prefix) {
		inner := s.keys[key.Value]
		switch {
		case s.each != nil && !name.MatchString(key.Value):
			d.fail(fmt.Errorf("%s: %q is no name of an upstream, want %s", d.at(key), shorten(key.Value), allowedName))
			continue
		case s.each != nil:
			inner = s.each
			d.upstreams = append(d.upstreams, key.Value)
		case inner == nil:
			d.fail(fmt.Errorf("%s: there is no key %q; did you mean %s?", d.at(key), prefix+shorten(key.Value), nearestKey(s, prefix, shorten(key.Value))))
			continue
		}
		if inner.leaf {
			all[key.Value] = d.value(value, prefix+key.Value, listKeys[prefix+key.Value])
			continue
		}
		all[key.Value] = d.section(value, inner, prefix+key.Value+".")
	}
	return all
}

// pairs yields the keys and values of a mapping. Keys that are there twice, or
// are no text, are mistakes.
func (d *document) pairs(n *yaml.Node, prefix string) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, value *yaml.Node) bool) {
		lines := map[string]int{}
		for i := 0; i+1 < len(n.Content) && !d.hopeless(); i += 2 {
			key, value := target(n.Content[i]), n.Content[i+1]
			if key.Kind != yaml.ScalarNode {
				d.fail(fmt.Errorf("%s: this is no key, want a word", d.at(key)))
				continue
			}
			if line := lines[key.Value]; line > 0 {
				d.fail(fmt.Errorf("%s: %s is there twice, first in line %d", d.at(key), prefix+key.Value, line))
				continue
			}
			lines[key.Value] = key.Line
			if !yield(key, value) {
				return
			}
		}
	}
}

// listKeys are the keys of the sections in lists.
var listKeys = map[string][]string{
	"auth.tokens":     {"name", "file"},
	"splice.profiles": {"user_agent_prefix", "close"},
}

// value reads what stands at a key. keys are those of the sections in it, if it
// is a list of such.
func (d *document) value(n *yaml.Node, path string, keys []string) given {
	g := given{Source: d.at(n)}
	n = target(n)
	switch n.Kind {
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!null":
			g.Odd = "no value"
		case "!!str", "!!int", "!!bool", "!!float", "!!timestamp":
			g.Text = n.Value
		default:
			g.Odd = "a value with a tag"
		}
	case yaml.SequenceNode:
		g.List = []given{}
		for i, item := range n.Content {
			g.List = append(g.List, d.element(item, fmt.Sprintf("%s[%d]", path, i), keys))
		}
	default:
		g.Fields = map[string]given{}
	}
	return g
}

// element reads an element of a list.
func (d *document) element(n *yaml.Node, path string, keys []string) given {
	source := d.at(n)
	n = target(n)
	if n.Kind != yaml.MappingNode {
		if n.Kind == yaml.SequenceNode {
			return given{Source: source, Odd: "a list"} // whatever is in it
		}
		return d.value(n, path, nil)
	}
	g := given{Source: source, Fields: map[string]given{}}
	for key, value := range d.pairs(n, path+".") {
		if keys != nil && !slices.Contains(keys, key.Value) {
			d.fail(fmt.Errorf("%s: there is no key %q; did you mean %s?", d.at(key), path+"."+shorten(key.Value), nearest(shorten(key.Value), keys)))
			continue
		}
		if v := target(value); v.Kind != yaml.ScalarNode {
			g.Fields[key.Value] = given{Source: d.at(value), Odd: "a list or a section"}
			continue
		}
		g.Fields[key.Value] = d.value(value, path+"."+key.Value, nil)
	}
	return g
}

// target is what an alias stands for, or the node itself.
func target(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// nearestKey returns the key that may be meant by word, which is none in its
// section: one that is much like it there, one of the same name elsewhere, or
// the one that is most like it.
func nearestKey(s *schema, prefix, word string) string {
	if near := slices.Sorted(maps.Keys(s.keys)); len(near) > 0 {
		if w := nearest(word, near); distance(word, w) <= max(2, len(word)/3) {
			return prefix + w
		}
	}
	var all []string
	for _, f := range Fields() {
		if f.leaf() == word {
			return f.Key
		}
		all = append(all, f.Key)
	}
	return nearest(prefix+word, all)
}

package config

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// YAML writes the configuration as a file that could be loaded again, were it not
// for secrets, of which only a mark is shown. Behind a value that is not the
// default stands where it came from.
func (l *Loaded) YAML() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	def := Default()
	names := slices.Sorted(maps.Keys(l.Upstreams))
	if i := slices.Index(names, l.DefaultUpstream); i > 0 { // the first one is the default
		names = slices.Insert(slices.Delete(names, i, i+1), 0, l.DefaultUpstream)
	}
	for _, name := range names {
		u := l.Upstreams[name]
		for _, f := range Fields() {
			if f.ofUpstream() {
				l.add(root, f, f.key(name), reflect.ValueOf(&u).Elem(), reflect.ValueOf(&Upstream{}).Elem())
			}
		}
	}
	for _, f := range Fields() {
		if !f.ofUpstream() {
			l.add(root, f, f.Key, reflect.ValueOf(&l.Config).Elem(), reflect.ValueOf(&def).Elem())
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	err := e.Encode(root)
	return b.Bytes(), err
}

// add puts the value of a key in its place.
func (l *Loaded) add(root *yaml.Node, f *Field, key string, in, def reflect.Value) {
	parts := strings.Split(key, ".")
	at := root
	for _, part := range parts[:len(parts)-1] {
		at = child(at, part)
	}
	word := &yaml.Node{Kind: yaml.ScalarNode, Value: parts[len(parts)-1]}
	v := f.in(in).Interface()
	value := f.node(v)
	if !reflect.DeepEqual(v, f.in(def).Interface()) {
		comment := value
		if len(value.Content) > 0 && value.Style != yaml.FlowStyle {
			comment = word // a list goes on below
		}
		comment.LineComment = l.origins[key]
	}
	at.Content = append(at.Content, word, value)
}

// child returns the section of some name, which it makes if it is not there yet.
func child(at *yaml.Node, name string) *yaml.Node {
	for i := 0; i < len(at.Content); i += 2 {
		if at.Content[i].Value == name {
			return at.Content[i+1]
		}
	}
	section := &yaml.Node{Kind: yaml.MappingNode}
	at.Content = append(at.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, section)
	return section
}

// node is a value as it stands in a file.
func (f *Field) node(v any) *yaml.Node {
	n := new(yaml.Node)
	switch v := v.(type) {
	case []string:
		n.Encode(v) //nolint:errcheck // texts can be encoded
		n.Style = yaml.FlowStyle
	case []Token:
		for _, t := range v {
			n.Content = append(n.Content, mapping("name", t.Name, "file", t.File))
		}
	case []Profile:
		for _, p := range v {
			n.Content = append(n.Content, mapping("user_agent_prefix", p.UserAgentPrefix, "close", p.Close))
		}
	case int, bool:
		n.Encode(v) //nolint:errcheck // likewise
		return n
	case string:
		if f.kind.shown != nil {
			v = f.kind.shown(v)
		}
		n.SetString(v)
		return n
	case Secret:
		n.SetString(f.kind.format(v))
		return n
	default: // a size or a time, which need no quotes
		return &yaml.Node{Kind: yaml.ScalarNode, Value: f.kind.format(v)}
	}
	n.Kind = yaml.SequenceNode
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// mapping is a section of texts.
func mapping(pairs ...string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, text := range pairs {
		c := new(yaml.Node)
		c.SetString(text)
		n.Content = append(n.Content, c)
	}
	return n
}

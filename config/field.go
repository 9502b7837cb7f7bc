package config

import (
	"reflect"
	"slices"
	"strings"
)

const (
	envPrefix  = "DOOMPROXY_"
	fileSuffix = "_FILE"

	// anyName stands for the name of an upstream in a Field.
	anyName = "<name>"
	// defaultName is the name of an upstream that was given none.
	defaultName = "default"
)

// Field is one key of the configuration, and what is known about it.
type Field struct {
	Key     string // for a key of an upstream, with <name> in place of its name
	Section string // what the section is for, if this is its first key
	Flag    string // empty: there is none
	Arg     string // what the flag's value is called; empty: it needs none
	Default string // as it would be given
	Allowed string // what may be given
	Doc     string
	Clamp   string   // what becomes of a number out of range; empty: it is an error
	Words   []string // the words that may be given, if it is one of them
	Restart bool     // a change has no effect before the next start
	// Variables are its environment variables, the one that follows from the key
	// first. Each has a companion with _FILE behind it, which names a file that
	// holds the value.
	Variables []string

	kind  kind
	empty bool  // empty text in the environment is a value
	index []int // in Config, or in Upstream
}

// Fields returns all keys, in the order of the struct.
func Fields() []*Field {
	return fields(reflect.TypeFor[Config](), "", nil)
}

func fields(t reflect.Type, prefix string, index []int) []*Field {
	var all []*Field
	for f := range t.Fields() {
		tag := f.Tag
		key, ok := tag.Lookup("key")
		if !ok {
			continue
		}
		key = prefix + key
		at := append(slices.Clip(index), f.Index...)
		var inner []*Field
		switch {
		case f.Type == reflect.TypeFor[map[string]Upstream]():
			inner = fields(reflect.TypeFor[Upstream](), key+"."+anyName+".", nil)
		case f.Type.Kind() == reflect.Struct:
			inner = fields(f.Type, key+".", at)
		default:
			all = append(all, newField(f, key, at))
			continue
		}
		inner[0].Section = tag.Get("doc")
		all = append(all, inner...)
	}
	return all
}

func newField(f reflect.StructField, key string, index []int) *Field {
	tag := f.Tag
	field := &Field{
		Key: key, Flag: tag.Get("flag"), Arg: tag.Get("arg"), Default: tag.Get("default"), Doc: tag.Get("doc"),
		Restart: tag.Get("restart") != "", Variables: []string{variable(key)},
		kind: newKind(f), empty: tag.Get("optional") != "", index: index,
	}
	field.Allowed = field.kind.allowed
	switch clamp := tag.Get("clamp"); clamp {
	case "":
	case "nearest":
		field.Clamp = "else the nearest of these"
	default:
		field.Clamp = "else " + clamp
	}
	if f.Type.Kind() == reflect.String {
		field.Words = strings.Fields(tag.Get("words"))
	}
	if short := tag.Get("env"); short != "" {
		field.Variables = append(field.Variables, short)
	}
	return field
}

// variable is the environment variable of a key.
func variable(key string) string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// ofUpstream reports whether the field is one of each upstream.
func (f *Field) ofUpstream() bool { return strings.Contains(f.Key, anyName) }

// key is the key of the field for the upstream of some name.
func (f *Field) key(upstream string) string { return strings.Replace(f.Key, anyName, upstream, 1) }

// leaf is the last part of the key.
func (f *Field) leaf() string { return f.Key[strings.LastIndexByte(f.Key, '.')+1:] }

// in is where the field's value is.
func (f *Field) in(c reflect.Value) reflect.Value { return c.FieldByIndex(f.index) }

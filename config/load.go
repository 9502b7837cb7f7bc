package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"

	"github.com/knadh/koanf/v2"
)

// Sources are what a configuration is read from. The zero value leaves the
// defaults.
type Sources struct {
	// File is the file that --config names; empty means that it was not given.
	// Places are where it is looked for if neither that nor DOOMPROXY_CONFIG is.
	File   string
	Places []string
	// Env is the environment, as os.Environ gives it.
	Env []string
	// Flags are the texts that each flag was given, by its name.
	Flags map[string][]string
}

// Note logs one thing that was noticed while a configuration was read.
type Note func(*slog.Logger)

// Loaded is a configuration, with what is known about where it came from.
type Loaded struct {
	Config
	// File is the file that was read, empty if there was none.
	File string
	// Notes are to be logged.
	Notes []Note

	origins map[string]string // where values stand that are not the default, by key
}

// layer is a part of the configuration for koanf: nested, with leaves of type
// given.
type layer map[string]any

// Read implements koanf.Provider.
func (l layer) Read() (map[string]any, error) { return l, nil }

// ReadBytes implements koanf.Provider.
func (l layer) ReadBytes() ([]byte, error) { return nil, errUnsupported }

func (l layer) set(key string, g given) {
	at := map[string]any(l)
	parts := strings.Split(key, ".")
	for _, part := range parts[:len(parts)-1] {
		inner, ok := at[part].(map[string]any)
		if !ok {
			inner = map[string]any{}
			at[part] = inner
		}
		at = inner
	}
	at[parts[len(parts)-1]] = g
}

// Default returns the configuration that nothing was said about. It has no
// upstream.
func Default() Config {
	l, err := Load(&Sources{})
	if err != nil {
		panic(err) // a mistake in the tags of Config
	}
	return l.Config
}

// Load reads a configuration. With an error it still returns what could be
// understood, and the defaults for the rest. The error tells of every mistake but
// those that several values make together: Check finds these.
func Load(src *Sources) (*Loaded, error) {
	l := &Loaded{origins: map[string]string{}}
	k := koanf.New(".")
	var errs []error
	load := func(p koanf.Provider, parser koanf.Parser) { errs = append(errs, k.Load(p, parser)) }

	load(defaults(), nil)
	doc, err := l.open(src)
	load(doc, doc)
	errs = append(append(errs, err), doc.errs...)
	flags, order, err := src.flags()
	env := readEnvironment(src.Env, append(doc.upstreams, order...))
	load(env, nil)
	load(flags, nil)
	errs = append(append(errs, err), env.errs...)
	l.Notes = append(l.Notes, env.notes...)

	errs = append(errs, l.decode(k)...)
	order = append(order, env.short, defaultName)
	order = append(append(order, doc.upstreams...), slices.Sorted(maps.Keys(l.Upstreams))...)
	for _, name := range order {
		if _, ok := l.Upstreams[name]; ok {
			l.DefaultUpstream = name
			break
		}
	}
	l.obeySwitch(src)
	return l, errors.Join(errs...)
}

// defaults returns the layer below all others.
func defaults() layer {
	all := layer{}
	for _, f := range Fields() {
		if !f.ofUpstream() {
			all.set(f.Key, given{Text: f.Default})
		}
	}
	return all
}

// open reads the file. The document is empty if there is none.
func (l *Loaded) open(src *Sources) (*document, error) {
	doc := &document{}
	path, source, err := src.find()
	if err != nil || path == "" {
		return doc, err
	}
	doc.name = path
	if doc.text, err = readFile(path, maxDocument); err == nil {
		l.File = path
	} else if source != "" {
		err = fmt.Errorf("%s: %w", source, err)
	}
	return doc, err
}

// flags returns the layer above all others, and the names of the upstreams in it,
// in their order.
func (src *Sources) flags() (all layer, upstreams []string, err error) {
	all = layer{}
	var errs []error
	for _, f := range Fields() {
		texts := src.Flags[f.Flag]
		if len(texts) == 0 {
			continue
		}
		source := "--" + f.Flag
		if !f.ofUpstream() {
			all.set(f.Key, given{Source: source, Text: texts[len(texts)-1]})
			continue
		}
		for _, text := range texts {
			name, text := splitUpstream(text)
			if slices.Contains(upstreams, name) {
				errs = append(errs, fmt.Errorf("%s: there are two upstreams with the name %s; give each its own: %s NAME=URL", source, name, source))
			}
			upstreams = append(upstreams, name)
			all.set(f.key(name), given{Source: source, Text: text})
		}
	}
	return all, upstreams, errors.Join(errs...)
}

// decode takes the values out of all layers.
func (l *Loaded) decode(k *koanf.Koanf) (errs []error) {
	take := func(f *Field, key string, into reflect.Value) {
		g, ok := k.Get(key).(given)
		if !ok {
			g = given{Text: f.Default}
		}
		v, instead, err := f.read(key, g)
		if err != nil {
			errs = append(errs, err)
			v, _, _ = f.kind.parse(f.Default)
		} else if g.Source != "" {
			l.origins[key] = g.Source
		}
		if instead != "" {
			l.Notes = append(l.Notes, func(log *slog.Logger) {
				log.Warn("setting out of range", "key", key, "value", g.Text, "range", f.Allowed, "used", instead)
			})
		}
		f.in(into).Set(reflect.ValueOf(v))
	}
	names := k.MapKeys("upstreams")
	if len(names) > 0 {
		l.Upstreams = map[string]Upstream{}
	}
	upstreams := make([]Upstream, len(names))
	for _, f := range Fields() {
		if !f.ofUpstream() {
			take(f, f.Key, reflect.ValueOf(&l.Config).Elem())
			continue
		}
		for i, name := range names {
			take(f, f.key(name), reflect.ValueOf(&upstreams[i]).Elem())
		}
	}
	for i, name := range names {
		l.Upstreams[name] = upstreams[i]
	}
	return errs
}

// obeySwitch turns the recovery off if its known switch says so and no flag says
// otherwise.
func (l *Loaded) obeySwitch(src *Sources) {
	text, off := switched(src.Env)
	if !off || len(src.Flags["mode"]) > 0 {
		return
	}
	l.Recovery.Mode = "off"
	l.origins["recovery.mode"] = switchVariable
	l.Notes = append(l.Notes, func(log *slog.Logger) {
		log.Warn("recovery is off", "because", switchVariable, "value", text)
	})
}

// named returns the file that was named, and by what; empty if none was.
func (src *Sources) named() (path, source string) {
	path, source = src.File, "--config"
	if path == "" {
		source = fileVariable
		for _, entry := range src.Env {
			if name, value, _ := strings.Cut(entry, "="); name == fileVariable {
				path = value
			}
		}
	}
	return path, source
}

// Files returns the files whose change may change what is loaded: the one that was
// named, or all places where it is looked for, and those that variables name.
func (src *Sources) Files() []string {
	files := slices.Clone(src.Places)
	if path, _ := src.named(); path != "" {
		files = []string{path}
	}
	for _, entry := range src.Env {
		name, path, _ := strings.Cut(entry, "=")
		value, ok := strings.CutSuffix(name, fileSuffix)
		if ok && path != "" && strings.HasPrefix(name, envPrefix) && !strings.HasSuffix(value, "_CA") { // that one is a path itself
			files = append(files, path)
		}
	}
	return files
}

// find returns the file to read, empty if there is none, and what named it.
func (src *Sources) find() (path, source string, err error) {
	if path, source = src.named(); path != "" {
		return path, source, nil
	}
	for _, place := range src.Places {
		_, err := os.Stat(place)
		switch {
		case err == nil:
			return place, "", nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrPermission):
			// A folder that may not be looked into is as good as none.
		default:
			return "", "", err
		}
	}
	return "", "", nil
}

// Source returns where the value of a key stands, or otherwise if it is the
// default.
func (l *Loaded) Source(key, otherwise string) string {
	return cmp.Or(l.origins[key], otherwise)
}

package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
)

const (
	// fileVariable names the configuration file.
	fileVariable = "DOOMPROXY_CONFIG"
	// upstreamVariable is a second one for the URL of one upstream.
	upstreamVariable = "DOOMPROXY_UPSTREAM"
	// switchVariable is how users of the agent that knows loop reports turn its
	// recovery off. They expect it to work here too.
	switchVariable = "GROK_DOOM_LOOP_RECOVERY"

	// maxText is the most that is read from the file of a value, in bytes.
	maxText = 64 << 10
)

// environment is what the environment says.
type environment struct {
	values map[string]given // by key
	short  string           // name of the upstream that upstreamVariable tells of
	notes  []Note
	errs   []error
}

// readEnvironment reads the variables that belong to keys. Others with their
// prefix are noted: a typing error, or something that an orchestrator adds for
// every service it knows. upstreams are the names that are known from elsewhere.
func readEnvironment(env, upstreams []string) *environment {
	vars := map[string]string{}
	for _, entry := range env {
		if name, text, ok := strings.Cut(entry, "="); ok && strings.HasPrefix(name, envPrefix) {
			vars[name] = text
		}
	}
	e := &environment{values: map[string]given{}}
	known := map[string]bool{fileVariable: true, upstreamVariable: true, upstreamVariable + fileSuffix: true}
	var each []*Field // of those that there are for every upstream
	for _, f := range Fields() {
		if f.ofUpstream() {
			each = append(each, f)
			continue
		}
		e.take(vars, known, f, f.Key, f.Variables)
	}
	names := e.names(vars, each, upstreams)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, f := range each {
			variables := []string{variable(f.key(name))}
			if f.leaf() == "url" && names[name] == e.short {
				variables = append(variables, upstreamVariable)
			}
			e.take(vars, known, f, f.key(names[name]), variables)
		}
	}
	words := slices.Sorted(maps.Keys(known))
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if !known[name] {
			e.notes = append(e.notes, func(log *slog.Logger) {
				log.Warn("unknown environment variable", "name", name, "nearest", nearest(shorten(name), words))
			})
		}
	}
	return e
}

// Read implements koanf.Provider.
func (e *environment) Read() (map[string]any, error) {
	all := layer{}
	for key, g := range e.values {
		all.set(key, g)
	}
	return all, nil
}

// ReadBytes implements koanf.Provider.
func (e *environment) ReadBytes() ([]byte, error) { return nil, errUnsupported }

// take finds the text of a key in its variables.
func (e *environment) take(vars map[string]string, known map[string]bool, f *Field, key string, variables []string) {
	var found []string
	for _, v := range variables {
		known[v], known[v+fileSuffix] = true, true
		if text, ok := vars[v]; ok && (text != "" || f.empty) {
			found = append(found, v)
		}
		if vars[v+fileSuffix] != "" {
			found = append(found, v+fileSuffix)
		}
	}
	if len(found) > 1 {
		e.errs = append(e.errs, fmt.Errorf("%s: both %s and %s are set, want one of them", key, found[0], found[1]))
	}
	if len(found) != 1 {
		return
	}
	source := found[0]
	text := vars[source]
	if !slices.Contains(variables, source) {
		var err error
		if text, err = ReadText(text); err != nil {
			e.errs = append(e.errs, fmt.Errorf("%s: %s: %w", key, source, err))
			return
		}
	}
	if source == upstreamVariable || source == upstreamVariable+fileSuffix {
		_, text = splitUpstream(text)
	}
	e.values[key] = given{Source: source, Text: text}
}

// names returns the names of all upstreams that variables may be about, by how
// they stand in these.
func (e *environment) names(vars map[string]string, each []*Field, upstreams []string) map[string]string {
	short := vars[upstreamVariable]
	if file := vars[upstreamVariable+fileSuffix]; short == "" && file != "" {
		short, _ = ReadText(file) //nolint:errcheck // take tells of it
	}
	if short != "" || vars[upstreamVariable+fileSuffix] != "" {
		e.short, _ = splitUpstream(short)
		upstreams = append(slices.Clone(upstreams), e.short)
	}
	names := map[string]string{}
	for _, name := range append([]string{defaultName}, upstreams...) {
		v := inVariable(name)
		if other, ok := names[v]; ok && other != name {
			e.errs = append(e.errs, fmt.Errorf("upstreams.%s: variables cannot tell it from upstreams.%s, want another name", name, other))
			continue
		}
		names[v] = name
	}
	for v := range vars {
		name, ok := upstreamIn(v, each)
		if ok && names[name] == "" {
			names[name] = strings.ToLower(name)
		}
	}
	return names
}

// inVariable is how the name of an upstream stands in a variable.
func inVariable(name string) string { return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) }

// upstreamIn returns the name of the upstream in a variable that is about one.
func upstreamIn(variable string, each []*Field) (upstream string, ok bool) {
	rest, ok := strings.CutPrefix(variable, envPrefix+"UPSTREAMS_")
	if !ok {
		return "", false
	}
	for _, f := range each {
		suffix := "_" + strings.ToUpper(f.leaf())
		upstream, ok := strings.CutSuffix(rest, suffix)
		if !ok {
			upstream, ok = strings.CutSuffix(rest, suffix+fileSuffix)
		}
		if ok && name.MatchString(upstream) {
			return upstream, true
		}
	}
	return "", false
}

// splitUpstream parts [NAME=]URL. No URL begins like a name.
func splitUpstream(text string) (upstream, url string) {
	before, after, ok := strings.Cut(text, "=")
	if ok && name.MatchString(before) {
		return before, after
	}
	return defaultName, text
}

// switched returns the text of the switch, and whether it turns the recovery off.
func switched(env []string) (text string, off bool) {
	for _, entry := range env {
		if name, value, _ := strings.Cut(entry, "="); name == switchVariable {
			text = value
		}
	}
	return text, slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(text))
}

// ReadText returns what a small file holds, without the line end behind it.
func ReadText(path string) (string, error) {
	b, err := readFile(path, maxText)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

// ErrTooLarge is the error of a file that is not read for its size.
var ErrTooLarge = errors.New("the file is larger than")

// readFile reads a file of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s: %w %d KiB", path, ErrTooLarge, most>>10)
	}
	return b, nil
}

package config_test

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/config"
)

var update = flag.Bool("update", false, "write the reference and the example anew")

const (
	referenceFile = "../docs/configuration.md"
	exampleFile   = "../doomproxy.example.yaml"
	exampleURL    = "https://api.x.ai/v1"
)

// same compares a file with what it should hold, or writes it.
func same(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the tags of Config say: go test ./config -update writes it", path)
	}
}

// sections are the keys by their first part, those without a section first.
func sections() (names []string, of map[string][]*config.Field) {
	of = map[string][]*config.Field{}
	for _, f := range config.Fields() {
		name, _, ok := strings.Cut(f.Key, ".")
		if !ok {
			name = ""
		}
		if of[name] == nil && name != "" {
			names = append(names, name)
		}
		of[name] = append(of[name], f)
	}
	return append([]string{""}, names...), of
}

const referenceHead = `# Configuration

<!-- Written by: go test ./config -update. The words are those of the tags in config/config.go. -->

Every setting of ` + "`doomproxy serve`" + ` is a key of a YAML file, a variable of the environment and, for some, a flag.
A flag wins over a variable, a variable over the file, and the file over the default.
[doomproxy.example.yaml](../doomproxy.example.yaml) has every key with its default, and
` + "`doomproxy check-config`" + ` says what is wrong with a configuration, or what holds and where it comes from.

The file is the first of these that there is; only one is read:

1. what ` + "`--config`" + ` names, else what ` + "`DOOMPROXY_CONFIG`" + ` names: that one has to be there;
2. ` + "`doomproxy/config.yaml`" + ` in the user's configuration folder: ` + "`$XDG_CONFIG_HOME`" + ` or ` + "`~/.config`" + `, on macOS
   ` + "`~/Library/Application Support`" + `, on Windows ` + "`%AppData%`" + `;
3. ` + "`/etc/doomproxy/config.yaml`" + `.

Unknown keys in it are errors, with the line and the key that may be meant. Values that are not allowed are
errors, too, but for some numbers that are brought into their range, with a warning.

**In the environment** an empty variable says nothing, but for ` + "`DOOMPROXY_ADMIN_LISTEN`" + ` and ` + "`DOOMPROXY_RETRY_ON`" + `:
none. ` + "`VARIABLE_FILE`" + ` names a file that holds the value instead. Lists are written with commas between. A
variable that begins with ` + "`DOOMPROXY_`" + ` and is none of these is warned about.
` + "`GROK_DOOM_LOOP_RECOVERY=false`" + ` turns the recovery off, too, unless there is the flag ` + "`--mode`" + `.

**While it runs** a changed file is taken in within a few seconds, or at once at SIGHUP where the system has
it. Requests that begin after that use the new values, running ones keep theirs. If anything is wrong with the
file nothing changes, and that is logged and counted (` + "`doomproxy_config_reloads_total`" + `,
` + "`doomproxy_config_last_reload_successful`" + `). Keys that are marked with ↻ need a restart; a change of theirs is
logged. Certificates, keys and tokens in files that the configuration names are read again by themselves.

**Values.** A size is a number of bytes, or one with KiB, MiB, GiB or TiB behind it. A time is written as in
` + "`250ms`, `30s`, `4m` or `720h`" + `, and is ten years at most. Lists are lists in the file; the example shows their form.
`

func reference() string {
	var b strings.Builder
	b.WriteString(referenceHead)
	names, of := sections()
	for _, name := range names {
		title := name
		if name == "" {
			title = "At the top"
		}
		fmt.Fprintf(&b, "\n## %s\n", title)
		if doc := of[name][0].Section; doc != "" {
			fmt.Fprintf(&b, "\n%s\n", doc)
		}
		b.WriteString("\n| key | environment | flag | default | allowed | meaning |\n|---|---|---|---|---|---|\n")
		for _, f := range of[name] {
			key := code(f.Key)
			if f.Restart {
				key += " ↻"
			}
			flag := ""
			if f.Flag != "" {
				flag = code("--" + f.Flag)
			}
			var variables []string
			for _, v := range f.Variables {
				variables = append(variables, code(v))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n",
				key, strings.Join(variables, ", "), flag, code(f.Default), cell(short(f)), cell(f.Doc))
		}
	}
	return b.String()
}

var (
	numbers = regexp.MustCompile(`^(a whole number|bytes from|a time such as 30s or 12h),? ?(from )?`)
	endless = regexp.MustCompile(` and at most 87600h$|, such as 1048576, 512KiB or 64MiB$|, or nothing$`)
)

// short is what is allowed, without what is said of all values of that kind.
func short(f *config.Field) string {
	text := endless.ReplaceAllString(numbers.ReplaceAllString(f.Allowed, ""), "")
	if f.Clamp != "" {
		text += " (" + f.Clamp + ")"
	}
	return text
}

func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + cell(text) + "`"
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func TestReference(t *testing.T) { same(t, referenceFile, reference()) }

const exampleHead = `# The configuration of doomproxy: every key with its default, but for the URL of the
# upstream, which has none. What you leave out is the default.
#
#	doomproxy check-config doomproxy.example.yaml
#	doomproxy serve --config doomproxy.example.yaml
#
# docs/configuration.md has the same as tables, with the variables of the environment.
# (Written by: go test ./config -update)

`

func example() string {
	var b strings.Builder
	b.WriteString(exampleHead)
	last := []string{}
	for _, f := range config.Fields() {
		parts := strings.Split(strings.Replace(f.Key, "<name>", "default", 1), ".")
		if parts[0] != "upstreams" && (len(parts) == 1 || len(last) == 0 || parts[0] != last[0]) {
			b.WriteString("\n")
		}
		if len(last) == 0 || parts[0] != last[0] {
			for line := range wrap(f.Section) {
				fmt.Fprintf(&b, "# %s\n", line)
			}
		}
		indent := ""
		for i, part := range parts[:len(parts)-1] {
			if len(last) <= i+1 || !slices.Equal(last[:i+1], parts[:i+1]) {
				fmt.Fprintf(&b, "%s%s:\n", indent, part)
			}
			indent += "  "
		}
		last = parts
		fmt.Fprintf(&b, "%s# %s\n", indent, f.Doc)
		allowed := short(f)
		if other, ok := exampleAllowed[f.Key]; ok {
			allowed = other
		}
		if allowed != "" {
			fmt.Fprintf(&b, "%s#   %s\n", indent, allowed)
		}
		fmt.Fprintf(&b, "%s%s:%s\n", indent, parts[len(parts)-1], exampleValue(f, indent))
		if f.Key == "upstreams.<name>.signals" {
			b.WriteString("  # openai:\n  #   url: https://api.openai.com/v1\n")
		}
	}
	return b.String()
}

// exampleAllowed is what is allowed where the file has another form than the
// environment, or where it goes without saying.
var exampleAllowed = map[string]string{
	"upstreams.<name>.ca_file": "", "upstreams.<name>.client_cert": "", "upstreams.<name>.client_key": "",
	"tls.cert": "", "tls.key": "", "ledger.path": "", "capture.dir": "", "recovery.reminder": "",
	"recovery.mode": "", "delivery": "",
	"auth.tokens":       "- {name: laptop, file: /run/secrets/laptop-token}",
	"splice.profiles":   "the first that fits holds; close: tombstone or dangling",
	"retry.on":          "connect, rate_limit, server, drop, failed_event, empty, idle",
	"admin.hosts":       "HOST or HOST:PORT",
	"detector.channels": "thinking, response, tool", "detector.act": "exact, counter, saturation",
	"stationarity.tight_tools": "names of tools",
}

// exampleValue is the default of a key as it stands behind it in a file.
func exampleValue(f *config.Field, indent string) string {
	switch f.Key {
	case "upstreams.<name>.url":
		return " " + exampleURL
	case "auth.tokens", "admin.hosts":
		return " []"
	case "retry.on", "detector.channels", "detector.act":
		return " [" + strings.ReplaceAll(f.Default, ",", ", ") + "]"
	case "stationarity.tight_tools":
		text := ""
		for line := range wrap("[" + strings.ReplaceAll(f.Default, ",", ", ") + "]") {
			text += "\n" + indent + "  " + line
		}
		return text
	case "splice.profiles":
		text := ""
		for entry := range strings.SplitSeq(f.Default, ",") {
			prefix, closing, _ := strings.Cut(entry, "=")
			text += fmt.Sprintf("\n%s  - {user_agent_prefix: %q, close: %s}", indent, prefix, closing)
		}
		return text
	}
	if f.Default == "" {
		return ` ""`
	}
	return " " + f.Default
}

// wrap yields the lines of a text.
func wrap(text string) func(func(string) bool) {
	return func(yield func(string) bool) {
		line := ""
		for word := range strings.FieldsSeq(text) {
			if len(line)+len(word) > 80 {
				if !yield(line) {
					return
				}
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		if line != "" {
			yield(line)
		}
	}
}

// The example has every key, with its default, whoever wrote it.
func TestExample(t *testing.T) {
	same(t, exampleFile, example())
	l, logged, err := load(t, &config.Sources{File: exampleFile})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check(); err != nil || logged != "" {
		t.Errorf("got %v and the log %q, want neither", err, logged)
	}
	if got, want := l.Upstreams, map[string]config.Upstream{"default": {URL: exampleURL}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got the upstreams %v, want %v", got, want)
	}
	for _, f := range config.Fields() {
		key := strings.Replace(f.Key, "<name>", "default", 1)
		if got := l.Source(key, "nowhere"); !strings.HasPrefix(got, exampleFile+":") {
			t.Errorf("%s comes from %s, want a line of the example", key, got)
		}
	}
	got, want := l.Config, config.Default()
	got.Upstreams, got.DefaultUpstream = nil, ""
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want the defaults %+v; they differ in %s", got, want, config.Changed(&want, &got))
	}
}

package main

import (
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// options are the flags of a command that are settings.
type options struct {
	file  *texts
	flags map[string]*texts
}

// texts is a flag as it was given, each time.
type texts struct {
	arg, def string
	given    []string
}

func (t *texts) String() string     { return t.def }
func (t *texts) Type() string       { return t.arg }
func (t *texts) Set(s string) error { t.given = append(t.given, s); return nil }

// register adds the flags of the settings to a command, or some of them.
func register(cmd *cobra.Command, some ...string) *options {
	o := &options{file: &texts{arg: "FILE"}, flags: map[string]*texts{}}
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, f := range config.Fields() {
		if f.Flag == "" || len(some) > 0 && !slices.Contains(some, f.Flag) {
			continue
		}
		t := &texts{arg: f.Arg, def: f.Default}
		o.flags[f.Flag] = t
		flag := flags.VarPF(t, f.Flag, "", f.Doc+allowed(f))
		if f.Arg == "" { // it is given, or not
			t.arg, flag.NoOptDefVal = "bool", "true"
		}
		complete(cmd, f.Flag, f.Words...)
	}
	flags.Var(o.file, "config", "read a configuration from this file")
	cmd.MarkFlagFilename("config", "yaml", "yml") //nolint:errcheck // there is such a flag
	return o
}

// allowed says in a help text what may be given, if the rest of it does not.
func allowed(f *config.Field) string {
	if numbers, ok := strings.CutPrefix(f.Allowed, "a whole number"); ok {
		return "," + strings.TrimPrefix(strings.TrimPrefix(numbers, " from"), ",")
	}
	for _, word := range f.Words {
		if !strings.Contains(f.Doc, word) {
			return ": " + f.Allowed
		}
	}
	return ""
}

// complete tells a shell the words that a flag may be given, none if that is no
// file either.
func complete(cmd *cobra.Command, flag string, words ...string) {
	cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) //nolint:errcheck // there is such a flag
}

// sources are what the options say, and the environment.
func (a *app) sources(o *options) (*config.Sources, error) {
	src := &config.Sources{Env: a.env, Flags: map[string][]string{}, Places: a.places()}
	for name, t := range o.flags {
		src.Flags[name] = t.given
	}
	if n := len(o.file.given); n > 0 {
		src.File = o.file.given[n-1]
		if src.File == "" {
			return nil, errors.New(`--config: "" is not allowed, want the path of a file`)
		}
	}
	return src, nil
}

// checked reads a configuration that can be served with.
func checked(src *config.Sources) (*config.Loaded, error) {
	l, err := config.Load(src)
	if err == nil {
		err = l.Check()
	}
	return l, err
}

var _ pflag.Value = (*texts)(nil)

// places are where a configuration file is looked for, the first one first.
func (a *app) places() (list []string) {
	if dir := a.configDirectory(); dir != "" {
		list = append(list, filepath.Join(dir, "doomproxy", "config.yaml"))
	}
	if a.systemFile != "" {
		list = append(list, a.systemFile)
	}
	return list
}

// configDirectory is os.UserConfigDir for the environment of a.
func (a *app) configDirectory() string {
	switch runtime.GOOS {
	case "windows":
		return a.getenv("AppData")
	case "darwin":
		if home := a.getenv("HOME"); home != "" {
			return filepath.Join(home, "Library", "Application Support")
		}
		return ""
	}
	if dir := a.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if home := a.getenv("HOME"); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}

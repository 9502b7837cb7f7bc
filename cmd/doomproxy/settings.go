package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/spf13/pflag"
)

// settings are what serve runs with.
type settings struct {
	listen        string
	tls           tlsFiles
	tokens        []tokenFile // empty: agents need none
	header        int         // most bytes of a request's headers
	headerTimeout time.Duration
	// responseHeaderTimeout is how long an upstream may take to begin its answer;
	// zero means that there is no limit.
	responseHeaderTimeout time.Duration
	adminListen           string // empty: there is no admin listener
	logLevel              slog.Level
	logFormat             string
	proxy                 proxy.Config // its part of the settings alone
	upstreamTLS           proxy.TLSFiles
	ledger                ledgerSettings
	shutdown              shutdownSettings

	notes []note // what was noticed while they were read
}

// note logs one thing that was noticed before there was a logger.
type note func(*slog.Logger)

// setting is one key of the configuration.
type setting struct {
	key   string
	flag  string // empty: there is none
	short string // a second environment variable; empty: there is none
	def   string
	usage string
	value
	given texts
}

// variable is the environment variable of a setting.
func (st *setting) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(st.key))
}

// variables are the environment variables of a setting. Each has a companion
// with fileSuffix, which names a file that holds the value.
func (st *setting) variables() []string {
	names := []string{st.variable()}
	if st.short != "" {
		names = append(names, st.short)
	}
	return names
}

// texts is a flag as it was given, each time.
type texts struct {
	def   string
	given []string
}

func (t *texts) String() string     { return t.def }
func (t *texts) Type() string       { return "text" }
func (t *texts) Set(s string) error { t.given = append(t.given, s); return nil }

// register adds the flags of the settings.
func register(flags *pflag.FlagSet, table []*setting) {
	flags.SortFlags = false
	for _, st := range table {
		if st.flag != "" {
			st.given.def = st.def
			flags.Var(&st.given, st.flag, st.usage)
		}
	}
}

// read takes all settings of the table, in which the flags are registered, from
// flags, environment or defaults, the first that says something.
func (s *settings) read(table []*setting, env []string) error {
	vars, notes := readEnvironment(table, env)
	s.notes = notes
	for _, st := range table {
		text, source, err := st.source(vars)
		if err != nil {
			return fmt.Errorf("%s: %w", st.key, err)
		}
		if source == "" && text == "" && !st.empty {
			continue // the zero value is the default
		}
		if source != "" {
			source = " (" + source + ")"
		}
		instead, ok := st.set(text)
		shown := text
		if st.shown != nil {
			shown = st.shown(text)
		}
		if !ok {
			return fmt.Errorf("%s%s: %q is not allowed, want %s", st.key, source, shown, st.allowed)
		}
		if instead != "" {
			s.notes = append(s.notes, func(log *slog.Logger) {
				log.Warn("setting out of range", "key", st.key, "value", shown, "range", st.allowed, "used", instead)
			})
		}
	}
	s.obeySwitch(table, env)
	return nil
}

// complete reports which setting is missing.
func (s *settings) complete() error {
	switch {
	case s.proxy.Upstream == nil:
		return errors.New("--upstream is required: the base URL that the agent would use without the proxy")
	case (s.tls.cert == "") != (s.tls.key == ""):
		return errors.New("only one of tls.cert and tls.key is set, want both or neither")
	case (s.upstreamTLS.ClientCert == "") != (s.upstreamTLS.ClientKey == ""):
		return errors.New("only one of upstreams.default.client_cert and upstreams.default.client_key is set, want both or neither")
	}
	return nil
}

// source finds the text of a setting and where it stands; the default stands
// nowhere.
func (st *setting) source(vars map[string]string) (text, source string, err error) {
	switch n := len(st.given.given); {
	case n > 1 && st.flag == "upstream":
		return "", "", fmt.Errorf("--upstream was given %d times, but several upstreams are not supported yet", n)
	case n > 0:
		return st.given.given[n-1], "--" + st.flag, nil
	}
	text, source, err = st.fromEnvironment(vars)
	if source == "" {
		text = st.def
	}
	return text, source, err
}

package main

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/spf13/pflag"
)

// settings are what serve runs with.
type settings struct {
	listen      string
	adminListen string // empty: there is no admin listener
	logLevel    slog.Level
	logFormat   string
	proxy       proxy.Config // its part of the settings alone
	ledger      ledgerSettings

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

// table returns all settings, in the order of the help text. They are read into s.
func (s *settings) table() []*setting {
	p := &s.proxy
	return []*setting{
		{
			key: "upstreams.default.url", flag: "upstream", short: "DOOMPROXY_UPSTREAM",
			value: upstreamURL(p),
			usage: "`[NAME=]URL` that the agent would use without the proxy (required)",
		},
		{
			key: "listen", flag: "listen", def: "127.0.0.1:3666",
			value: hostPort(&s.listen),
			usage: "`ADDRESS` for agents",
		},
		{
			key: "admin_listen", flag: "admin-listen", def: "127.0.0.1:3667",
			value: optional(hostPort(&s.adminListen)),
			usage: "`ADDRESS` for metrics and health checks; empty: none",
		},
		{
			key: "recovery.mode", flag: "mode", def: string(proxy.ModeEnforce),
			value: oneOf(&p.Mode, proxy.ModeEnforce, proxy.ModeObserve, proxy.ModeOff),
			usage: "`MODE`: enforce cuts loops, observe only counts them, off looks into nothing",
		},
		{
			key: "delivery", flag: "delivery", def: string(proxy.DeliveryLive),
			value: oneOf(&p.Delivery, proxy.DeliveryLive, proxy.DeliveryHold),
			usage: "`DELIVERY`: live sends thinking as it comes, hold once it leads to an answer",
		},
		{
			key: "recovery.max_threshold", flag: "max-threshold", def: strconv.Itoa(recovery.DefaultMaxThreshold),
			value: whole(&p.Policy.MaxThreshold, recovery.MinMaxThreshold, recovery.MaxMaxThreshold),
			usage: "loosest tail_repetition threshold `N` that is acted on, 2 to 64",
		},
		{
			key: "recovery.max_retries", flag: "max-retries", def: strconv.Itoa(recovery.DefaultMaxRetries),
			value: whole(&p.Policy.MaxRetries, 0, recovery.MaxMaxRetries),
			usage: "at most `N` new attempts for a request that loops, 0 to 5",
		},
		{
			key: "recovery.window_tokens", flag: "window-tokens", def: strconv.Itoa(proxy.DefaultWindowTokens),
			value: wholeOr(&p.WindowTokens, 512, 4096, 4096),
			usage: "window of the upstream's detector, `N` tokens, 512 to 4096",
		},
		{
			key: "recovery.exact_repetition_min_tokens", flag: "exact-repetition-min-tokens", def: strconv.Itoa(proxy.DefaultExactRepetitionMinTokens),
			value: whole(&p.ExactRepetitionMinTokens, 1, math.MaxInt32),
			usage: "smallest repeated unit that is reported, `N` tokens, at least 1",
		},
		{
			key: "recovery.client_opt_in", def: string(proxy.OptInDefer),
			value: oneOf(&p.ClientOptIn, proxy.OptInDefer, proxy.OptInOwn),
			usage: "defer or own: leave clients that ask for reports alone?",
		},
		{
			key: "recovery.non_streaming", def: string(proxy.NonStreamingProtect),
			value: oneOf(&p.NonStreaming, proxy.NonStreamingProtect, proxy.NonStreamingPassthrough),
			usage: "protect or passthrough: requests that ask for no stream",
		},
		{
			key: "hold.max_bytes", def: "8MiB",
			value: size(&p.HoldMaxBytes),
			usage: "most that is held back for one client",
		},
		{
			key:   "recovery.reminder",
			value: anyText(&p.Reminder),
			usage: "what an attempt is told of the one cut before",
		},
		{
			key: "signals.headers", def: string(proxy.SignalHeadersAuto),
			value: oneOf(&p.SignalHeaders, proxy.SignalHeadersAuto, proxy.SignalHeadersAlways, proxy.SignalHeadersNever),
			usage: "auto, always or never: ask upstreams for reports",
		},
		{
			key: "limits.body", def: "64MiB",
			value: size(&p.MaxBody),
			usage: "largest request body (64MiB)",
		},
		{
			key: "limits.frame", def: "16MiB",
			value: size(&p.MaxFrame),
			usage: "largest event that is looked into (16MiB)",
		},
		{
			key: "ledger.store", def: storeFile,
			value: oneOf(&s.ledger.store, storeFile, storeMemory, storeRedis),
			usage: "file, memory or redis: remembers what cut attempts sent",
		},
		{
			key:   "ledger.path",
			value: anyText(&s.ledger.path),
			usage: "its file (one for each port, in the state directory)",
		},
		{
			key:   "ledger.redis_url",
			value: secret(&s.ledger.redisURL, "redis://HOST:PORT/DATABASE"),
			usage: "its Redis, shared by several proxies",
		},
		{
			key: "ledger.ttl", def: ledger.DefaultTTL.String(),
			value: duration(&s.ledger.ttl, time.Minute),
			usage: "how long it remembers (720h)",
		},
		{
			key: "ledger.max_entries", def: strconv.Itoa(ledger.DefaultMaxEntries),
			value: whole(&s.ledger.maxEntries, 1000, 10_000_000),
			usage: "how much it remembers (200000)",
		},
		{
			key: "log.level", flag: "log-level", def: "info",
			value: level(&s.logLevel),
			usage: "`LEVEL`: debug, info, warn or error",
		},
		{
			key: "log.format", flag: "log-format", def: "text",
			value: oneOf(&s.logFormat, "text", "json"),
			usage: "`FORMAT`: text or json",
		},
	}
}

// variable is the environment variable of a setting.
func (st *setting) variable() string {
	return envPrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(st.key))
}

// variables are all environment variables of a setting.
func (st *setting) variables() []string {
	names := []string{st.variable()}
	if st.short != "" {
		names = append(names, st.short)
	}
	for _, name := range names {
		names = append(names, name+fileSuffix)
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

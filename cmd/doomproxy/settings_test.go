package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/spf13/pflag"
)

// read reads settings from flags and environment, and returns what was logged.
func read(t *testing.T, args, env []string) (s settings, logged string, err error) {
	t.Helper()
	table := s.table()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	register(flags, table)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if err = s.read(table, env); err != nil {
		return s, "", err
	}
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	for _, n := range s.notes {
		n(log)
	}
	return s, b.String(), nil
}

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSettings(t *testing.T) {
	type get func(*settings) any
	mode := func(s *settings) any { return s.proxy.Mode }
	retries := func(s *settings) any { return s.proxy.Policy.MaxRetries }
	threshold := func(s *settings) any { return s.proxy.Policy.MaxThreshold }
	window := func(s *settings) any { return s.proxy.WindowTokens }
	exact := func(s *settings) any { return s.proxy.ExactRepetitionMinTokens }
	body := func(s *settings) any { return s.proxy.MaxBody }
	upstream := func(s *settings) any {
		if s.proxy.Upstream == nil {
			return nil
		}
		return s.proxy.UpstreamName + "=" + s.proxy.Upstream.String()
	}
	reminder := func(s *settings) any { return s.proxy.Reminder }
	adminListen := func(s *settings) any { return s.adminListen }

	for name, test := range map[string]struct {
		args []string
		env  []string
		get  get
		want any
		log  string // part of what is logged; empty: nothing is
	}{
		"default":                {get: retries, want: 2},
		"environment":            {env: []string{"DOOMPROXY_RECOVERY_MAX_RETRIES=4"}, get: retries, want: 4},
		"flag over environment":  {args: []string{"--max-retries=0"}, env: []string{"DOOMPROXY_RECOVERY_MAX_RETRIES=4"}, get: retries, want: 0},
		"last flag":              {args: []string{"--mode", "off", "--mode", "observe"}, get: mode, want: proxy.ModeObserve},
		"empty variable":         {env: []string{"DOOMPROXY_RECOVERY_MAX_RETRIES="}, get: retries, want: 2},
		"admin default":          {get: adminListen, want: "127.0.0.1:3667"},
		"admin off by variable":  {env: []string{"DOOMPROXY_ADMIN_LISTEN="}, get: adminListen, want: ""},
		"admin off by flag":      {args: []string{"--admin-listen="}, env: []string{"DOOMPROXY_ADMIN_LISTEN=:1"}, get: adminListen, want: ""},
		"any address":            {env: []string{"DOOMPROXY_LISTEN=:80"}, get: func(s *settings) any { return s.listen }, want: ":80"},
		"no upstream":            {get: upstream, want: nil},
		"upstream":               {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_URL=https://h/v1?k=v"}, get: upstream, want: "=https://h/v1?k=v"},
		"upstream for short":     {env: []string{"DOOMPROXY_UPSTREAM=http://[::1]:11434/v1"}, get: upstream, want: "=http://[::1]:11434/v1"},
		"named upstream":         {args: []string{"--upstream", "x-ai=https://h"}, get: upstream, want: "x-ai=https://h"},
		"threshold below":        {args: []string{"--max-threshold=1"}, get: threshold, want: 2, log: `key=recovery.max_threshold value=1 range="a whole number from 2 to 64" used=2`},
		"threshold above":        {args: []string{"--max-threshold=65"}, get: threshold, want: 64, log: "used=64"},
		"threshold at the bound": {args: []string{"--max-threshold=2"}, get: threshold, want: 2},
		"retries below":          {env: []string{"DOOMPROXY_RECOVERY_MAX_RETRIES=-1"}, get: retries, want: 0, log: "key=recovery.max_retries value=-1"},
		"retries above":          {args: []string{"--max-retries=6"}, get: retries, want: 5, log: "used=5"},
		"beyond int64":           {args: []string{"--max-retries=99999999999999999999"}, get: retries, want: 5, log: "used=5"},
		"window below":           {args: []string{"--window-tokens=511"}, get: window, want: 4096, log: `value=511 range="a whole number from 512 to 4096" used=4096`},
		"window above":           {args: []string{"--window-tokens=4097"}, get: window, want: 4096, log: "used=4096"},
		"window":                 {args: []string{"--window-tokens=512"}, get: window, want: 512},
		"exact below":            {args: []string{"--exact-repetition-min-tokens=0"}, get: exact, want: 1, log: `range="a whole number, at least 1" used=1`},
		"exact":                  {env: []string{"DOOMPROXY_RECOVERY_EXACT_REPETITION_MIN_TOKENS=9000"}, get: exact, want: 9000},
		"client opt-in":          {env: []string{"DOOMPROXY_RECOVERY_CLIENT_OPT_IN=own"}, get: func(s *settings) any { return s.proxy.ClientOptIn }, want: proxy.OptInOwn},
		"signal headers":         {env: []string{"DOOMPROXY_SIGNALS_HEADERS=never"}, get: func(s *settings) any { return s.proxy.SignalHeaders }, want: proxy.SignalHeadersNever},
		"body":                   {env: []string{"DOOMPROXY_LIMITS_BODY=2MiB"}, get: body, want: int64(2 << 20)},
		"body in bytes":          {env: []string{"DOOMPROXY_LIMITS_BODY=1073741824"}, get: body, want: int64(1 << 30)},
		"frame":                  {env: []string{"DOOMPROXY_LIMITS_FRAME=1KiB"}, get: func(s *settings) any { return s.proxy.MaxFrame }, want: 1024},
		"log level":              {env: []string{"DOOMPROXY_LOG_LEVEL=debug"}, get: func(s *settings) any { return s.logLevel }, want: slog.LevelDebug},
		"log format":             {args: []string{"--log-format", "json"}, get: func(s *settings) any { return s.logFormat }, want: "json"},

		"file":               {env: []string{"DOOMPROXY_RECOVERY_REMINDER_FILE=" + file(t, "two\nlines\r\n")}, get: reminder, want: "two\nlines"},
		"file for short":     {env: []string{"DOOMPROXY_UPSTREAM_FILE=" + file(t, "http://h\n")}, get: upstream, want: "=http://h"},
		"flag over file":     {args: []string{"--mode=observe"}, env: []string{"DOOMPROXY_RECOVERY_MODE_FILE=" + file(t, "off")}, get: mode, want: proxy.ModeObserve},
		"file not named":     {env: []string{"DOOMPROXY_ADMIN_LISTEN_FILE="}, get: adminListen, want: "127.0.0.1:3667"},
		"unknown":            {env: []string{"DOOMPROXY_RECOVERY_MAX_RETRY=4", "HOME=/"}, get: retries, want: 2, log: "name=DOOMPROXY_RECOVERY_MAX_RETRY nearest=DOOMPROXY_RECOVERY_MAX_RETRIES"},
		"of an orchestrator": {env: []string{"DOOMPROXY_PORT=tcp://10.0.0.1:80"}, get: mode, want: proxy.ModeEnforce, log: "unknown environment variable"},

		"switch":                  {env: []string{"GROK_DOOM_LOOP_RECOVERY=false"}, get: mode, want: proxy.ModeOff, log: "because=GROK_DOOM_LOOP_RECOVERY"},
		"switch in other words":   {env: []string{"GROK_DOOM_LOOP_RECOVERY=OFF"}, get: mode, want: proxy.ModeOff, log: "recovery is off"},
		"switch on":               {env: []string{"GROK_DOOM_LOOP_RECOVERY=true"}, get: mode, want: proxy.ModeEnforce},
		"switch over environment": {env: []string{"GROK_DOOM_LOOP_RECOVERY=0", "DOOMPROXY_RECOVERY_MODE=enforce"}, get: mode, want: proxy.ModeOff, log: "recovery is off"},
		"flag over switch":        {args: []string{"--mode=enforce"}, env: []string{"GROK_DOOM_LOOP_RECOVERY=no"}, get: mode, want: proxy.ModeEnforce},
	} {
		t.Run(name, func(t *testing.T) {
			s, logged, err := read(t, test.args, test.env)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.get(&s); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !strings.Contains(logged, test.log) || test.log == "" && logged != "" {
				t.Errorf("got log %q, want %q", logged, test.log)
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	large := file(t, strings.Repeat("x", maxFileText+1))
	for name, test := range map[string]struct {
		args []string
		env  []string
		want []string
	}{
		"mode":               {env: []string{"DOOMPROXY_RECOVERY_MODE=Enforce"}, want: []string{"recovery.mode (DOOMPROXY_RECOVERY_MODE)", `"Enforce"`, "enforce, observe or off"}},
		"number":             {args: []string{"--max-retries=two"}, want: []string{"recovery.max_retries (--max-retries)", `"two"`, "0 to 5"}},
		"fraction":           {args: []string{"--max-threshold=8.5"}, want: []string{`"8.5"`, "2 to 64"}},
		"empty flag":         {args: []string{"--window-tokens="}, want: []string{`""`, "512 to 4096"}},
		"address":            {args: []string{"--listen=3666"}, want: []string{"listen (--listen)", `"3666"`, "HOST:PORT"}},
		"port":               {args: []string{"--listen=localhost:70000"}, want: []string{"HOST:PORT"}},
		"admin address":      {args: []string{"--admin-listen=off"}, want: []string{"admin_listen", "or nothing"}},
		"size":               {env: []string{"DOOMPROXY_LIMITS_BODY=64MB"}, want: []string{"limits.body", `"64MB"`, "1 to 1GiB"}},
		"size of nothing":    {env: []string{"DOOMPROXY_LIMITS_FRAME=0"}, want: []string{"limits.frame"}},
		"size beyond":        {env: []string{"DOOMPROXY_LIMITS_FRAME=2GiB"}, want: []string{"limits.frame"}},
		"level":              {env: []string{"DOOMPROXY_LOG_LEVEL=trace"}, want: []string{"log.level", "debug, info, warn or error"}},
		"scheme":             {args: []string{"--upstream=api.x.ai/v1"}, want: []string{"upstreams.default.url (--upstream)", `"api.x.ai/v1"`, "https://"}},
		"scheme of no web":   {args: []string{"--upstream=localhost:11434"}, want: []string{`"localhost:11434"`}},
		"missing file":       {env: []string{"DOOMPROXY_RECOVERY_MODE_FILE=/nonexistent/mode"}, want: []string{"recovery.mode: DOOMPROXY_RECOVERY_MODE_FILE", "/nonexistent/mode"}},
		"large file":         {env: []string{"DOOMPROXY_RECOVERY_REMINDER_FILE=" + large}, want: []string{"larger than 64 KiB"}},
		"value in a file":    {env: []string{"DOOMPROXY_RECOVERY_MODE_FILE=" + file(t, "on\n")}, want: []string{"(DOOMPROXY_RECOVERY_MODE_FILE)", `"on"`}},
		"value and file":     {env: []string{"DOOMPROXY_LISTEN=:1", "DOOMPROXY_LISTEN_FILE=x"}, want: []string{"both DOOMPROXY_LISTEN and DOOMPROXY_LISTEN_FILE are set"}},
		"two names":          {env: []string{"DOOMPROXY_UPSTREAM=http://a", "DOOMPROXY_UPSTREAMS_DEFAULT_URL=http://b"}, want: []string{"both DOOMPROXY_UPSTREAMS_DEFAULT_URL and DOOMPROXY_UPSTREAM"}},
		"password":           {args: []string{"--upstream=https://user:hunter2@h/v1?key=hunter2"}, want: []string{`"…@h/v1?…"`, "without user name"}},
		"secret in the path": {args: []string{"--upstream=https://h:port/v1?key=hunter2"}, want: []string{`"https://h:port/v1?…"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(t, test.args, test.env)
			if err == nil {
				t.Fatal("got no error")
			}
			wantText(t, err.Error(), test.want...)
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"ab", "", 2}, {"MODE", "MODE", 0}, {"kitten", "sitting", 3}, {"LOGLEVEL", "LOG_LEVEL", 1}, {"LOG_LEVEL", "LOGLEVEL", 1}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance of %q and %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

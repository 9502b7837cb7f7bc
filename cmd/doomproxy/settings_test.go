package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	retry := func(s *settings) any {
		r := s.proxy.Retry
		return fmt.Sprint(r.MaxRetries, " ", r.MaxWait, " ", r.Backoff, " ", joined(r.On), " ", r.IdleTimeout)
	}
	noRetryOn := func(s *settings) any { return s.proxy.Retry.On != nil && len(s.proxy.Retry.On) == 0 }
	limits := func(s *settings) any {
		p := s.proxy
		return fmt.Sprint(p.MaxMemory, p.MaxConcurrent, p.ClientTimeout, p.Silence, s.header, s.headerTimeout)
	}
	upstreamTLS := func(s *settings) any { return s.upstreamTLS }
	tokens := func(s *settings) any { return fmt.Sprint(s.tokens) }

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

		"retry default":       {get: retry, want: "2 30s exponential connect,rate_limit,server,drop,failed_event,empty 4m0s"},
		"retry":               {env: []string{"DOOMPROXY_RETRY_MAX_RETRIES=10", "DOOMPROXY_RETRY_MAX_WAIT=1m", "DOOMPROXY_RETRY_BACKOFF=fixed", "DOOMPROXY_RETRY_ON=drop, idle", "DOOMPROXY_RETRY_IDLE_TIMEOUT=90s"}, get: retry, want: "10 1m0s fixed drop,idle 1m30s"},
		"no retries":          {env: []string{"DOOMPROXY_RETRY_MAX_RETRIES=0"}, get: func(s *settings) any { return s.proxy.Retry.MaxRetries }, want: 0},
		"retry on nothing":    {env: []string{"DOOMPROXY_RETRY_ON="}, get: noRetryOn, want: true},
		"retry on none":       {env: []string{"DOOMPROXY_RETRY_ON=none"}, get: noRetryOn, want: true},
		"limits default":      {get: limits, want: "1073741824 0 1m0s 10m0s 1048576 10s"},
		"limits":              {env: []string{"DOOMPROXY_LIMITS_MEMORY=3GiB", "DOOMPROXY_LIMITS_CONCURRENT=7", "DOOMPROXY_LIMITS_CLIENT_TIMEOUT=5s", "DOOMPROXY_LIMITS_SILENCE=2m", "DOOMPROXY_LIMITS_HEADER=64KiB", "DOOMPROXY_LIMITS_HEADER_TIMEOUT=3s"}, get: limits, want: "3221225472 7 5s 2m0s 65536 3s"},
		"most memory":         {env: []string{"DOOMPROXY_LIMITS_MEMORY=1TiB"}, get: func(s *settings) any { return s.proxy.MaxMemory }, want: int64(1 << 40)},
		"shutdown default":    {get: func(s *settings) any { return s.shutdown }, want: shutdownSettings{0, 30 * time.Second}},
		"shutdown":            {env: []string{"DOOMPROXY_SHUTDOWN_DELAY=5s", "DOOMPROXY_SHUTDOWN_GRACE=15m"}, get: func(s *settings) any { return s.shutdown }, want: shutdownSettings{5 * time.Second, 15 * time.Minute}},
		"TLS":                 {env: []string{"DOOMPROXY_TLS_CERT=a.pem", "DOOMPROXY_TLS_KEY=b.pem"}, get: func(s *settings) any { return s.tls }, want: tlsFiles{"a.pem", "b.pem"}},
		"TLS of the upstream": {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE=ca.pem", "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_CERT=a.pem", "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_KEY=b.pem"}, get: upstreamTLS, want: proxy.TLSFiles{CA: "ca.pem", ClientCert: "a.pem", ClientKey: "b.pem"}},
		"path in a file":      {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE_FILE=" + file(t, "ca.pem\n")}, get: upstreamTLS, want: proxy.TLSFiles{CA: "ca.pem"}},
		"no tokens":           {get: tokens, want: "[]"},
		"tokens":              {env: []string{"DOOMPROXY_AUTH_TOKENS=a=/run/a, b-2=/run/b=c"}, get: tokens, want: "[{a /run/a} {b-2 /run/b=c}]"},

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

		"retries":              {env: []string{"DOOMPROXY_RETRY_MAX_RETRIES=11"}, want: []string{"retry.max_retries (DOOMPROXY_RETRY_MAX_RETRIES)", `"11"`, "0 to 10"}},
		"negative retries":     {env: []string{"DOOMPROXY_RETRY_MAX_RETRIES=-1"}, want: []string{"retry.max_retries", `"-1"`, "0 to 10"}},
		"wait":                 {env: []string{"DOOMPROXY_RETRY_MAX_WAIT=30"}, want: []string{"retry.max_wait (DOOMPROXY_RETRY_MAX_WAIT)", `"30"`, "30s", "at least 10ms"}},
		"no wait":              {env: []string{"DOOMPROXY_RETRY_MAX_WAIT=0s"}, want: []string{"retry.max_wait", "at least 10ms"}},
		"backoff":              {env: []string{"DOOMPROXY_RETRY_BACKOFF=random"}, want: []string{"retry.backoff (DOOMPROXY_RETRY_BACKOFF)", `"random"`, "exponential, linear or fixed"}},
		"failure":              {env: []string{"DOOMPROXY_RETRY_ON=connect,timeout"}, want: []string{"retry.on (DOOMPROXY_RETRY_ON)", `"connect,timeout"`, "none, or some of these with commas between: connect,rate_limit,server,drop,failed_event,empty,idle"}},
		"none and a failure":   {env: []string{"DOOMPROXY_RETRY_ON=none,drop"}, want: []string{"retry.on", `"none,drop"`}},
		"failure without name": {env: []string{"DOOMPROXY_RETRY_ON=drop,"}, want: []string{"retry.on", `"drop,"`}},
		"idle time-out":        {env: []string{"DOOMPROXY_RETRY_IDLE_TIMEOUT=-1s"}, want: []string{"retry.idle_timeout (DOOMPROXY_RETRY_IDLE_TIMEOUT)", `"-1s"`, "at least 10ms"}},
		"memory":               {env: []string{"DOOMPROXY_LIMITS_MEMORY=2TiB"}, want: []string{"limits.memory (DOOMPROXY_LIMITS_MEMORY)", `"2TiB"`, "1 to 1TiB"}},
		"much more memory":     {env: []string{"DOOMPROXY_LIMITS_MEMORY=9223372036854775807GiB"}, want: []string{"limits.memory"}},
		"body beyond":          {env: []string{"DOOMPROXY_LIMITS_BODY=1TiB"}, want: []string{"limits.body", "1 to 1GiB"}},
		"concurrent":           {env: []string{"DOOMPROXY_LIMITS_CONCURRENT=-1"}, want: []string{"limits.concurrent (DOOMPROXY_LIMITS_CONCURRENT)", `"-1"`, "0 to 1000000"}},
		"client time-out":      {env: []string{"DOOMPROXY_LIMITS_CLIENT_TIMEOUT=0"}, want: []string{"limits.client_timeout (DOOMPROXY_LIMITS_CLIENT_TIMEOUT)", `"0"`, "at least 10ms"}},
		"silence":              {env: []string{"DOOMPROXY_LIMITS_SILENCE=off"}, want: []string{"limits.silence (DOOMPROXY_LIMITS_SILENCE)", `"off"`, "at least 10ms"}},
		"endless silence":      {env: []string{"DOOMPROXY_LIMITS_SILENCE=2000000h"}, want: []string{"limits.silence", `"2000000h"`, "at most 87600h"}},
		"header":               {env: []string{"DOOMPROXY_LIMITS_HEADER=17MiB"}, want: []string{"limits.header (DOOMPROXY_LIMITS_HEADER)", `"17MiB"`, "1 to 16MiB"}},
		"header time-out":      {env: []string{"DOOMPROXY_LIMITS_HEADER_TIMEOUT=ten"}, want: []string{"limits.header_timeout (DOOMPROXY_LIMITS_HEADER_TIMEOUT)", `"ten"`, "at least 10ms"}},
		"delay of the end":     {env: []string{"DOOMPROXY_SHUTDOWN_DELAY=-5s"}, want: []string{"shutdown.delay (DOOMPROXY_SHUTDOWN_DELAY)", `"-5s"`, "at least 0s"}},
		"grace":                {env: []string{"DOOMPROXY_SHUTDOWN_GRACE=long"}, want: []string{"shutdown.grace (DOOMPROXY_SHUTDOWN_GRACE)", `"long"`, "at least 0s"}},
		"certificate itself":   {env: []string{"DOOMPROXY_TLS_CERT_FILE=" + file(t, "-----BEGIN CERTIFICATE-----\nhunter2\n")}, want: []string{"tls.cert (DOOMPROXY_TLS_CERT_FILE)", `"…"`, "the path of a file"}},
		"key itself":           {env: []string{"DOOMPROXY_TLS_KEY=-----BEGIN PRIVATE KEY-----hunter2"}, want: []string{"tls.key (DOOMPROXY_TLS_KEY)", `"…"`, "the path of a file"}},
		"CA itself":            {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE=hunter2\n"}, want: []string{"upstreams.default.ca_file (DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE)", "the path of a file"}},
		"client key itself":    {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_KEY=hunter2\n"}, want: []string{"upstreams.default.client_key (", "the path of a file"}},
		"client certificate":   {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_CERT=hunter2\n"}, want: []string{"upstreams.default.client_cert (", "the path of a file"}},
		"token itself":         {env: []string{"DOOMPROXY_AUTH_TOKENS=hunter2"}, want: []string{"auth.tokens (DOOMPROXY_AUTH_TOKENS)", `"…"`, "NAME=FILE"}},
		"token in base64":      {env: []string{"DOOMPROXY_AUTH_TOKENS=a=/run/a,hunter2=="}, want: []string{`"a=/run/a,…"`, "NAME=FILE"}},
		"token in a file":      {env: []string{"DOOMPROXY_AUTH_TOKENS_FILE=" + file(t, "hunter2\n")}, want: []string{"auth.tokens (DOOMPROXY_AUTH_TOKENS_FILE)", `"…"`}},
		"token name twice":     {env: []string{"DOOMPROXY_AUTH_TOKENS=a=/run/a,a=/run/b"}, want: []string{`"a=/run/a,a=/run/b"`, "each name is another one"}},
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

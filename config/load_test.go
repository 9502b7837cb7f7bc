package config_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/config"
)

// read loads a configuration from flags and environment, and returns what was
// logged.
func read(t *testing.T, args, env []string) (l *config.Loaded, logged string, err error) {
	t.Helper()
	return load(t, &config.Sources{Env: env, Flags: flags(args)})
}

func load(t *testing.T, src *config.Sources) (l *config.Loaded, logged string, err error) {
	t.Helper()
	l, err = config.Load(src)
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, nil))
	for _, n := range l.Notes {
		n(log)
	}
	return l, b.String(), err
}

// flags takes flags as a command line has them: --a=b or --a b.
func flags(args []string) map[string][]string {
	all := map[string][]string{}
	for i := 0; i < len(args); i++ {
		name, value, ok := strings.Cut(strings.TrimPrefix(args[i], "--"), "=")
		if !ok {
			i++
			value = args[i]
		}
		all[name] = append(all[name], value)
	}
	return all
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

func wantText(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("got no %q in:\n%s", w, got)
		}
	}
}

func TestSettings(t *testing.T) {
	type get func(*config.Config) any
	mode := func(c *config.Config) any { return c.Recovery.Mode }
	retries := func(c *config.Config) any { return c.Recovery.MaxRetries }
	threshold := func(c *config.Config) any { return c.Recovery.MaxThreshold }
	window := func(c *config.Config) any { return c.Recovery.WindowTokens }
	exact := func(c *config.Config) any { return c.Recovery.ExactRepetitionMinTokens }
	body := func(c *config.Config) any { return c.Limits.Body }
	upstream := func(c *config.Config) any {
		if len(c.Upstreams) != 1 {
			return len(c.Upstreams)
		}
		return c.DefaultUpstream + "=" + c.Upstreams[c.DefaultUpstream].URL
	}
	reminder := func(c *config.Config) any { return c.Recovery.Reminder }
	adminListen := func(c *config.Config) any { return c.AdminListen }
	retry := func(c *config.Config) any {
		r := c.Retry
		return fmt.Sprint(r.MaxRetries, " ", r.MaxWait, " ", r.Backoff, " ", strings.Join(r.On, ","), " ", r.IdleTimeout)
	}
	noRetryOn := func(c *config.Config) any { return c.Retry.On != nil && len(c.Retry.On) == 0 }
	limits := func(c *config.Config) any {
		l := c.Limits
		return fmt.Sprint(int64(l.Memory), " ", l.Concurrent, " ", l.ClientTimeout, " ", l.Silence, " ", int64(l.Header), " ", l.HeaderTimeout)
	}
	upstreamTLS := func(c *config.Config) any { return c.Upstreams["default"] }
	tokens := func(c *config.Config) any { return fmt.Sprint(c.Auth.Tokens) }

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
		"last flag":              {args: []string{"--mode", "off", "--mode", "observe"}, get: mode, want: "observe"},
		"empty variable":         {env: []string{"DOOMPROXY_RECOVERY_MAX_RETRIES="}, get: retries, want: 2},
		"admin default":          {get: adminListen, want: "127.0.0.1:3667"},
		"admin off by variable":  {env: []string{"DOOMPROXY_ADMIN_LISTEN="}, get: adminListen, want: ""},
		"admin off by flag":      {args: []string{"--admin-listen="}, env: []string{"DOOMPROXY_ADMIN_LISTEN=:1"}, get: adminListen, want: ""},
		"any address":            {env: []string{"DOOMPROXY_LISTEN=:80"}, get: func(c *config.Config) any { return c.Listen }, want: ":80"},
		"no upstream":            {get: upstream, want: 0},
		"upstream":               {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_URL=https://h/v1?k=v"}, get: upstream, want: "default=https://h/v1?k=v"},
		"upstream for short":     {env: []string{"DOOMPROXY_UPSTREAM=http://[::1]:11434/v1"}, get: upstream, want: "default=http://[::1]:11434/v1"},
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
		"client opt-in":          {env: []string{"DOOMPROXY_RECOVERY_CLIENT_OPT_IN=own"}, get: func(c *config.Config) any { return c.Recovery.ClientOptIn }, want: "own"},
		"signal headers":         {env: []string{"DOOMPROXY_SIGNALS_HEADERS=never"}, get: func(c *config.Config) any { return c.Signals.Headers }, want: "never"},
		"body":                   {env: []string{"DOOMPROXY_LIMITS_BODY=2MiB"}, get: body, want: config.Size(2 << 20)},
		"body in bytes":          {env: []string{"DOOMPROXY_LIMITS_BODY=1073741824"}, get: body, want: config.Size(1 << 30)},
		"frame":                  {env: []string{"DOOMPROXY_LIMITS_FRAME=1KiB"}, get: func(c *config.Config) any { return c.Limits.Frame }, want: config.Size(1024)},
		"log level":              {env: []string{"DOOMPROXY_LOG_LEVEL=debug"}, get: func(c *config.Config) any { return c.Log.Level }, want: "debug"},
		"log format":             {args: []string{"--log-format", "json"}, get: func(c *config.Config) any { return c.Log.Format }, want: "json"},

		"retry default":       {get: retry, want: "2 30s exponential connect,rate_limit,server,drop,failed_event,empty 4m0s"},
		"retry":               {env: []string{"DOOMPROXY_RETRY_MAX_RETRIES=10", "DOOMPROXY_RETRY_MAX_WAIT=1m", "DOOMPROXY_RETRY_BACKOFF=fixed", "DOOMPROXY_RETRY_ON=drop, idle", "DOOMPROXY_RETRY_IDLE_TIMEOUT=90s"}, get: retry, want: "10 1m0s fixed drop,idle 1m30s"},
		"no retries":          {env: []string{"DOOMPROXY_RETRY_MAX_RETRIES=0"}, get: func(c *config.Config) any { return c.Retry.MaxRetries }, want: 0},
		"retry on nothing":    {env: []string{"DOOMPROXY_RETRY_ON="}, get: noRetryOn, want: true},
		"retry on none":       {env: []string{"DOOMPROXY_RETRY_ON=none"}, get: noRetryOn, want: true},
		"limits default":      {get: limits, want: "1073741824 0 1m0s 10m0s 1048576 10s"},
		"limits":              {env: []string{"DOOMPROXY_LIMITS_MEMORY=3GiB", "DOOMPROXY_LIMITS_CONCURRENT=7", "DOOMPROXY_LIMITS_CLIENT_TIMEOUT=5s", "DOOMPROXY_LIMITS_SILENCE=2m", "DOOMPROXY_LIMITS_HEADER=64KiB", "DOOMPROXY_LIMITS_HEADER_TIMEOUT=3s"}, get: limits, want: "3221225472 7 5s 2m0s 65536 3s"},
		"most memory":         {env: []string{"DOOMPROXY_LIMITS_MEMORY=1TiB"}, get: func(c *config.Config) any { return c.Limits.Memory }, want: config.Size(1 << 40)},
		"shutdown default":    {get: func(c *config.Config) any { return c.Shutdown }, want: config.Shutdown{Delay: 0, Grace: 30 * time.Second}},
		"shutdown":            {env: []string{"DOOMPROXY_SHUTDOWN_DELAY=5s", "DOOMPROXY_SHUTDOWN_GRACE=15m"}, get: func(c *config.Config) any { return c.Shutdown }, want: config.Shutdown{Delay: 5 * time.Second, Grace: 15 * time.Minute}},
		"TLS":                 {env: []string{"DOOMPROXY_TLS_CERT=a.pem", "DOOMPROXY_TLS_KEY=b.pem"}, get: func(c *config.Config) any { return c.TLS }, want: config.TLS{Cert: "a.pem", Key: "b.pem"}},
		"TLS of the upstream": {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE=ca.pem", "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_CERT=a.pem", "DOOMPROXY_UPSTREAMS_DEFAULT_CLIENT_KEY=b.pem"}, get: upstreamTLS, want: config.Upstream{CAFile: "ca.pem", ClientCert: "a.pem", ClientKey: "b.pem"}},
		"path in a file":      {env: []string{"DOOMPROXY_UPSTREAMS_DEFAULT_CA_FILE_FILE=" + file(t, "ca.pem\n")}, get: upstreamTLS, want: config.Upstream{CAFile: "ca.pem"}},
		"no tokens":           {get: tokens, want: "[]"},
		"tokens":              {env: []string{"DOOMPROXY_AUTH_TOKENS=a=/run/a, b-2=/run/b=c"}, get: tokens, want: "[{a /run/a} {b-2 /run/b=c}]"},

		"file":               {env: []string{"DOOMPROXY_RECOVERY_REMINDER_FILE=" + file(t, "two\nlines\r\n")}, get: reminder, want: "two\nlines"},
		"file for short":     {env: []string{"DOOMPROXY_UPSTREAM_FILE=" + file(t, "http://h\n")}, get: upstream, want: "default=http://h"},
		"flag over file":     {args: []string{"--mode=observe"}, env: []string{"DOOMPROXY_RECOVERY_MODE_FILE=" + file(t, "off")}, get: mode, want: "observe"},
		"file not named":     {env: []string{"DOOMPROXY_ADMIN_LISTEN_FILE="}, get: adminListen, want: "127.0.0.1:3667"},
		"unknown":            {env: []string{"DOOMPROXY_RECOVERY_MAX_RETRY=4", "HOME=/"}, get: retries, want: 2, log: "name=DOOMPROXY_RECOVERY_MAX_RETRY nearest=DOOMPROXY_RECOVERY_MAX_RETRIES"},
		"of an orchestrator": {env: []string{"DOOMPROXY_PORT=tcp://10.0.0.1:80"}, get: mode, want: "enforce", log: "unknown environment variable"},

		"switch":                  {env: []string{"GROK_DOOM_LOOP_RECOVERY=false"}, get: mode, want: "off", log: "because=GROK_DOOM_LOOP_RECOVERY"},
		"switch in other words":   {env: []string{"GROK_DOOM_LOOP_RECOVERY=OFF"}, get: mode, want: "off", log: "recovery is off"},
		"switch on":               {env: []string{"GROK_DOOM_LOOP_RECOVERY=true"}, get: mode, want: "enforce"},
		"switch over environment": {env: []string{"GROK_DOOM_LOOP_RECOVERY=0", "DOOMPROXY_RECOVERY_MODE=enforce"}, get: mode, want: "off", log: "recovery is off"},
		"flag over switch":        {args: []string{"--mode=enforce"}, env: []string{"GROK_DOOM_LOOP_RECOVERY=no"}, get: mode, want: "enforce"},
	} {
		t.Run(name, func(t *testing.T) {
			l, logged, err := read(t, test.args, test.env)
			if err != nil {
				t.Fatal(err)
			}
			if got := test.get(&l.Config); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if !strings.Contains(logged, test.log) || test.log == "" && logged != "" {
				t.Errorf("got log %q, want %q", logged, test.log)
			}
		})
	}
}

func TestSettingsRefused(t *testing.T) {
	large := file(t, strings.Repeat("x", 64<<10+1))
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
		"password":           {args: []string{"--upstream=https://user:hunter2@h/v1?key=hunter2"}, want: []string{`"https://…@h/v1?…"`, "without user name"}},
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

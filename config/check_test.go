package config_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/doomproxy/doomproxy/config"
)

func TestCheck(t *testing.T) {
	const url = "upstreams: {default: {url: http://h/base/v1}"
	for name, test := range map[string]struct {
		text string
		want string // empty: nothing is wrong
	}{
		"all that is needed":   {url + "}", ""},
		"nothing":              {"", "--upstream is required: the base URL that the agent would use without the proxy"},
		"no URL":               {url + ", b: {ca_file: /ca}}", "upstreams.b.url is required: the base URL"},
		"empty URL":            {url + `, b: {url: ""}}`, "upstreams.b.url is required"},
		"empty upstream":       {url + ", b: }", "upstreams.b.url is required"},
		"certificate":          {url + "}\ntls: {cert: /c}", "only one of tls.cert and tls.key is set, want both or neither"},
		"key":                  {url + "}\ntls: {key: /k}", "only one of tls.cert and tls.key is set, want both or neither"},
		"pair":                 {url + "}\ntls: {cert: /c, key: /k}", ""},
		"client's certificate": {url + ", b: {url: http://b, client_cert: /c}}", "only one of upstreams.b.client_cert and upstreams.b.client_key is set"},
		"client's key":         {url + ", b: {url: http://b, client_key: /c}}", "only one of upstreams.b.client_cert and upstreams.b.client_key is set"},
		"client's pair":        {url + ", b: {url: http://b, client_cert: /c, client_key: /k}}", ""},
		"Redis without URL":    {url + "}\nledger: {store: redis}", "ledger.redis_url is required with ledger.store redis: redis://HOST:PORT"},
		"Redis":                {url + "}\nledger: {store: redis, redis_url: 'redis://h'}", ""},
		"URL without Redis":    {url + "}\nledger: {redis_url: 'redis://h'}", ""},
		"name like a version":  {url + ", v1: {url: http://b}}", "upstreams.v1: requests for the default upstream may begin with /v1/, want another name"},
		"name like a resource": {url + ", responses: {url: http://b}}", "upstreams.responses: requests for the default upstream may begin with /responses/"},
		"name like its path":   {url + ", base: {url: http://b}}", "upstreams.base: requests for the default upstream may begin with /base/"},
		"its own path":         {"upstreams: {base: {url: http://h/base/v1}}", ""},
		"path of another":      {url + ", other: {url: http://b/third}, third: {url: http://c}}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, _, err := load(t, &config.Sources{File: file(t, test.text)})
			if err != nil {
				t.Fatal(err)
			}
			switch err := l.Check(); {
			case test.want == "":
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
			case err == nil:
				t.Error("got no error")
			default:
				wantText(t, err.Error(), test.want)
			}
		})
	}
	both := config.Config{Ledger: config.Ledger{Store: "redis"}}
	err := both.Check()
	if err == nil {
		t.Fatal("got no error")
	}
	wantText(t, err.Error(), "--upstream is required", "ledger.redis_url is required")
}

func TestChanged(t *testing.T) {
	before, _, err := load(t, &config.Sources{File: file(t, "upstreams: {a: {url: http://a}, b: {url: http://b}}\nretry: {on: [drop]}")})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]string{
		"upstreams: {a: {url: http://a}, b: {url: http://b}}\nretry: {on: [drop]}":                     nil,
		"upstreams: {a: {url: http://c}, b: {url: http://b}}\nretry: {on: [drop]}":                     {"upstreams.a.url"},
		"upstreams: {a: {url: http://a}}\nretry: {on: [drop]}":                                         {"upstreams.b.url"},
		"upstreams: {b: {url: http://b}, a: {url: http://a}}\nretry: {on: [drop]}":                     {"upstreams"},
		"upstreams: {a: {url: http://a}, b: {url: http://b}, c: {url: http://c}}\nretry: {on: [drop]}": {"upstreams.c.url"},
		"upstreams: {a: {url: http://a}, b: {url: http://b}}\nlisten: 'x:1'":                           {"listen", "retry.on"},
	} {
		after, _, err := load(t, &config.Sources{File: file(t, text)})
		if err != nil {
			t.Fatal(err)
		}
		if got := config.Changed(&before.Config, &after.Config); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// What needs a restart keeps its value, and is named; all else changes.
func TestKeepUntilRestart(t *testing.T) {
	running := config.Default()
	next, _, err := load(t, &config.Sources{File: file(t, `
listen: 127.0.0.1:1
admin_listen: ""
tls: {cert: /c, key: /k}
recovery: {max_threshold: 8}
limits: {header: 2MiB, header_timeout: 3s, silence: 1m}
ledger: {store: redis, path: /p, redis_url: "redis://h", ttl: 1h, max_entries: 1000}
log: {level: debug, format: json}
`)})
	if err != nil {
		t.Fatal(err)
	}
	got := next.KeepUntilRestart(&running)
	want := []string{
		"listen", "tls.cert", "tls.key", "admin_listen", "limits.header", "limits.header_timeout",
		"ledger.store", "ledger.path", "ledger.redis_url", "ledger.ttl", "ledger.max_entries", "log.format",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := config.Changed(&running, &next.Config), []string{"recovery.max_threshold", "limits.silence", "log.level"}; !slices.Equal(got, want) {
		t.Errorf("got changes of %q, want of %q", got, want)
	}
	if again := next.KeepUntilRestart(&running); again != nil {
		t.Errorf("got %q from what was put back, want nothing", again)
	}
}

// The fields are what other packages rely on.
func TestFields(t *testing.T) {
	keys, variables, flags := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, f := range config.Fields() {
		if keys[f.Key] || f.Flag != "" && flags[f.Flag] {
			t.Errorf("%s or its flag %q is there twice", f.Key, f.Flag)
		}
		keys[f.Key], flags[f.Flag] = true, true
		for _, v := range f.Variables {
			if variables[v] {
				t.Errorf("%s is there twice", v)
			}
			variables[v] = true
		}
		if f.Doc == "" || f.Allowed == "" {
			t.Errorf("%s: got no doc or nothing that is allowed", f.Key)
		}
	}
	if len(keys) < 50 {
		t.Errorf("got %d keys, want all", len(keys))
	}
	if a, b := config.Default(), config.Default(); !reflect.DeepEqual(a, b) {
		t.Error("two defaults differ")
	}
}

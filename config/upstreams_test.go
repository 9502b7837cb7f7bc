package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/config"
)

func TestUpstreams(t *testing.T) {
	const two = "upstreams:\n  zed: {url: http://zed}\n  ant: {url: http://ant, ca_file: /ca}\n"
	const withDefault = two + "  default: {url: http://default}\n"
	for name, test := range map[string]struct {
		file string
		args []string
		env  []string
		want string // NAME=URL of each, the default one first
	}{
		"first in the file":            {file: two, want: "zed=http://zed ant=http://ant"},
		"default in the file":          {file: withDefault, want: "default=http://default ant=http://ant zed=http://zed"},
		"one in the environment":       {env: []string{"DOOMPROXY_UPSTREAMS_XAI_URL=http://x"}, want: "xai=http://x"},
		"several in the environment":   {env: []string{"DOOMPROXY_UPSTREAMS_B_URL=http://b", "DOOMPROXY_UPSTREAMS_A_URL=http://a"}, want: "a=http://a b=http://b"},
		"default in the environment":   {env: []string{"DOOMPROXY_UPSTREAMS_A_URL=http://a", "DOOMPROXY_UPSTREAMS_DEFAULT_URL=http://b"}, want: "default=http://b a=http://a"},
		"short variable":               {file: withDefault, env: []string{"DOOMPROXY_UPSTREAM=http://x"}, want: "default=http://x ant=http://ant zed=http://zed"},
		"short variable with a name":   {file: withDefault, env: []string{"DOOMPROXY_UPSTREAM=ant=http://x"}, want: "ant=http://x default=http://default zed=http://zed"},
		"new name in the short one":    {file: two, env: []string{"DOOMPROXY_UPSTREAM=new=http://x"}, want: "new=http://x ant=http://ant zed=http://zed"},
		"short variable, name as is":   {env: []string{"DOOMPROXY_UPSTREAM=X-ai=http://x", "DOOMPROXY_UPSTREAMS_X_AI_SIGNALS=never"}, want: "X-ai=http://x"},
		"short variable from a file":   {env: []string{"DOOMPROXY_UPSTREAM_FILE=" + file(t, "x=http://x\n")}, want: "x=http://x"},
		"one flag":                     {args: []string{"--upstream", "http://x"}, want: "default=http://x"},
		"flags in their order":         {args: []string{"--upstream", "z=http://z", "--upstream", "http://d", "--upstream", "a=http://a?q=1"}, want: "z=http://z a=http://a?q=1 default=http://d"},
		"flag over variables and file": {file: withDefault, env: []string{"DOOMPROXY_UPSTREAM=http://x"}, args: []string{"--upstream", "http://f"}, want: "default=http://f ant=http://ant zed=http://zed"},
		"flag with a name":             {file: withDefault, env: []string{"DOOMPROXY_UPSTREAM=ant=http://x"}, args: []string{"--upstream", "zed=http://f"}, want: "zed=http://f ant=http://x default=http://default"},
		"variable of a name in a file": {file: two, env: []string{"DOOMPROXY_UPSTREAMS_ZED_URL=http://e"}, want: "zed=http://e ant=http://ant"},
		"empty variables":              {file: two, env: []string{"DOOMPROXY_UPSTREAM=", "DOOMPROXY_UPSTREAMS_ZED_URL=", "DOOMPROXY_UPSTREAMS_NEW_URL="}, want: "zed=http://zed ant=http://ant"},
		"query that looks like a name": {args: []string{"--upstream", "http://h?a=b"}, want: "default=http://h?a=b"},
		"none":                         {want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := config.Sources{Env: test.env, Flags: flags(test.args)}
			if test.file != "" {
				src.File = file(t, test.file)
			}
			l, logged, err := load(t, &src)
			if err != nil || logged != "" {
				t.Fatalf("got %v and the log %q, want neither", err, logged)
			}
			var got []string
			for _, name := range slices.Sorted(maps.Keys(l.Upstreams)) {
				entry := name + "=" + l.Upstreams[name].URL
				if name == l.DefaultUpstream {
					got = slices.Insert(got, 0, entry)
				} else {
					got = append(got, entry)
				}
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// The keys of one upstream may stand in several layers.
func TestUpstreamOfLayers(t *testing.T) {
	l, logged, err := load(t, &config.Sources{
		File: file(t, "upstreams: {x-ai: {ca_file: /file, client_cert: /cert, client_key: /key}}"),
		Env: []string{
			"DOOMPROXY_UPSTREAMS_X_AI_CA_FILE=/env", "DOOMPROXY_UPSTREAMS_X_AI_SIGNALS_FILE=" + file(t, "never"),
			"DOOMPROXY_UPSTREAMS_X_AI_CLIENT_KEY_FILE=" + file(t, "/env-key\n"),
		},
		Flags: flags([]string{"--upstream", "x-ai=http://h"}),
	})
	if err != nil || logged != "" {
		t.Fatalf("got %v and the log %q, want neither", err, logged)
	}
	want := config.Upstream{URL: "http://h", CAFile: "/env", ClientCert: "/cert", ClientKey: "/env-key", Signals: "never"}
	if got := l.Upstreams["x-ai"]; got != want || len(l.Upstreams) != 1 {
		t.Errorf("got %+v of %d upstreams, want %+v", got, len(l.Upstreams), want)
	}
}

func TestUpstreamsRefused(t *testing.T) {
	for name, test := range map[string]struct {
		file string
		args []string
		env  []string
		want []string
	}{
		"two flags without a name":  {args: []string{"--upstream", "http://a", "--upstream", "http://b"}, want: []string{"--upstream: there are two upstreams with the name default; give each its own: --upstream NAME=URL"}},
		"two flags of one name":     {args: []string{"--upstream", "a=http://a", "--upstream", "a=http://b"}, want: []string{"two upstreams with the name a"}},
		"URL of the second":         {args: []string{"--upstream", "http://a", "--upstream", "b=h?hunter2"}, want: []string{`upstreams.b.url (--upstream): "h?…" is not allowed`}},
		"URL in a variable":         {env: []string{"DOOMPROXY_UPSTREAMS_B_URL=http://u:hunter2@h"}, want: []string{`upstreams.b.url (DOOMPROXY_UPSTREAMS_B_URL): "http://…@h"`}},
		"password with ?":           {args: []string{"--upstream", "http://u:hunter2?x@h"}, want: []string{`upstreams.default.url (--upstream): "…" is not allowed`}},
		"two variables of a name":   {env: []string{"DOOMPROXY_UPSTREAM=b=http://a", "DOOMPROXY_UPSTREAMS_B_URL=http://b"}, want: []string{"upstreams.b.url: both DOOMPROXY_UPSTREAMS_B_URL and DOOMPROXY_UPSTREAM are set"}},
		"variable and file":         {env: []string{"DOOMPROXY_UPSTREAM=http://a", "DOOMPROXY_UPSTREAM_FILE=x"}, want: []string{"both DOOMPROXY_UPSTREAM and DOOMPROXY_UPSTREAM_FILE are set"}},
		"file that is missing":      {env: []string{"DOOMPROXY_UPSTREAM_FILE=/nonexistent/url"}, want: []string{"upstreams.default.url: DOOMPROXY_UPSTREAM_FILE: ", "/nonexistent/url"}},
		"names alike in variables":  {file: "upstreams: {a-b: {url: http://a}, a_b: {url: http://b}}", want: []string{"upstreams.a_b: variables cannot tell it from upstreams.a-b, want another name"}},
		"names alike but for cases": {file: "upstreams: {a: {url: http://a}, A: {url: http://b}}", want: []string{"upstreams.A: variables cannot tell it from upstreams.a"}},
		"signals":                   {env: []string{"DOOMPROXY_UPSTREAMS_B_SIGNALS=maybe"}, want: []string{`upstreams.b.signals (DOOMPROXY_UPSTREAMS_B_SIGNALS): "maybe" is not allowed, want auto, always or never`}},
	} {
		t.Run(name, func(t *testing.T) {
			src := config.Sources{Env: test.env, Flags: flags(test.args)}
			if test.file != "" {
				src.File = file(t, test.file)
			}
			_, _, err := load(t, &src)
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

// Variables that are about no key are told, with the nearest one that is.
func TestUnknownVariables(t *testing.T) {
	for variable, nearest := range map[string]string{
		"DOOMPROXY_UPSTREAMS_A_URI=http://h":    "DOOMPROXY_UPSTREAMS_A_URL",
		"DOOMPROXY_UPSTREAMS__URL=http://h":     "DOOMPROXY_UPSTREAMS_A_URL",
		"DOOMPROXY_UPSTREAMS_a_URL=http://h":    "DOOMPROXY_UPSTREAMS_A_URL",
		"DOOMPROXY_UPSTREAMS_URL=http://h":      "DOOMPROXY_UPSTREAM",
		"DOOMPROXY_CONFIGS=x":                   "DOOMPROXY_CONFIG",
		"DOOMPROXY_CONFIG_FILE=x":               "DOOMPROXY_CONFIG",
		"DOOMPROXY_UPSTREAMS_A_URLS_FILE=hello": "DOOMPROXY_UPSTREAMS_A_URL_FILE",
	} {
		l, logged, err := read(t, nil, []string{"DOOMPROXY_UPSTREAMS_A_URL=http://a", variable})
		if err != nil {
			t.Errorf("%s: got %v, want no error", variable, err)
		}
		name, _, _ := strings.Cut(variable, "=")
		wantText(t, logged, "level=WARN", "name="+name+" nearest="+nearest)
		if len(l.Upstreams) != 1 {
			t.Errorf("%s: got %d upstreams, want the one", variable, len(l.Upstreams))
		}
	}
}

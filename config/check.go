package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Check returns what is wrong although each value is allowed.
func (c *Config) Check() error {
	var errs []error
	pair := func(a, b, one, other string) {
		if (a == "") != (b == "") {
			errs = append(errs, fmt.Errorf("only one of %s and %s is set, want both or neither", one, other))
		}
	}
	if len(c.Upstreams) == 0 {
		errs = append(errs, errors.New("--upstream is required: the base URL that the agent would use without the proxy"))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Upstreams)) {
		u, key := c.Upstreams[name], "upstreams."+name
		if u.URL == "" {
			errs = append(errs, fmt.Errorf("%s.url is required: the base URL that the agent would use without the proxy", key))
		}
		if first := c.ambiguous(name); first != "" {
			errs = append(errs, fmt.Errorf("%s: requests for the default upstream may begin with /%s/, want another name", key, first))
		}
		pair(u.ClientCert, u.ClientKey, key+".client_cert", key+".client_key")
	}
	pair(c.TLS.Cert, c.TLS.Key, "tls.cert", "tls.key")
	if c.Ledger.Store == "redis" && c.Ledger.RedisURL == "" {
		errs = append(errs, errors.New("ledger.redis_url is required with ledger.store redis: redis://HOST:PORT"))
	}
	return errors.Join(errs...)
}

// ambiguous returns the name of an upstream if the path of a request that means
// none may begin with it, else "".
func (c *Config) ambiguous(name string) string {
	taken := []string{"v1", "responses"}
	if u, err := url.Parse(c.Upstreams[c.DefaultUpstream].URL); err == nil && name != c.DefaultUpstream {
		first, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		taken = append(taken, first)
	}
	if slices.Contains(taken, name) {
		return name
	}
	return ""
}

// KeepUntilRestart puts back the values that cannot change while the proxy runs,
// from the configuration that it runs with, and returns their keys.
func (c *Config) KeepUntilRestart(running *Config) (changed []string) {
	to, from := reflect.ValueOf(c).Elem(), reflect.ValueOf(running).Elem()
	for _, f := range Fields() {
		if !f.Restart {
			continue
		}
		if now, then := f.in(to), f.in(from); !reflect.DeepEqual(now.Interface(), then.Interface()) {
			changed = append(changed, f.Key)
			now.Set(then)
		}
	}
	return changed
}

// Changed returns the keys that differ between two configurations.
func Changed(a, b *Config) (keys []string) {
	x, y := reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem()
	differ := func(f *Field, key string, x, y reflect.Value) {
		if !reflect.DeepEqual(f.in(x).Interface(), f.in(y).Interface()) {
			keys = append(keys, key)
		}
	}
	if a.DefaultUpstream != b.DefaultUpstream {
		keys = append(keys, "upstreams")
	}
	names := slices.Concat(slices.Collect(maps.Keys(a.Upstreams)), slices.Collect(maps.Keys(b.Upstreams)))
	slices.Sort(names)
	names = slices.Compact(names)
	for _, f := range Fields() {
		if !f.ofUpstream() {
			differ(f, f.Key, x, y)
			continue
		}
		for _, name := range names {
			before, after := a.Upstreams[name], b.Upstreams[name]
			differ(f, f.key(name), reflect.ValueOf(&before).Elem(), reflect.ValueOf(&after).Elem())
		}
	}
	return keys
}

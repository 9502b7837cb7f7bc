package main

import (
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/config"
	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/stationarity"
)

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// loaded is a configuration from the text of a file.
func loaded(t *testing.T, text string) *config.Loaded {
	t.Helper()
	l, err := config.Load(&config.Sources{File: file(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// What the configuration has for defaults is what the packages have.
func TestDefaultsAreThoseOfThePackages(t *testing.T) {
	c := config.Default()
	got := proxyConfig(&c)
	want := proxy.Config{
		Mode: proxy.ModeEnforce, Detector: proxy.Detector{
			Mode: proxy.ModeEnforce, Channels: []detect.Channel{detect.Thinking, detect.Response, detect.Tool}, Act: detect.Exact,
		},
		Stationarity: proxy.Stationarity{Mode: proxy.ModeEnforce, Config: stationarity.Config{
			TightTools: stationarity.DefaultTightTools(),
			Tight:      stationarity.Thresholds{Nudge: 4, Stop: 8}, Loose: stationarity.Thresholds{Nudge: 8, Stop: 12}, NoOp: stationarity.Thresholds{Stop: 4},
		}},
		ClientOptIn: proxy.OptInDefer, SignalHeaders: proxy.SignalHeadersAuto,
		WindowTokens: proxy.DefaultWindowTokens, ExactRepetitionMinTokens: proxy.DefaultExactRepetitionMinTokens,
		Policy:         recovery.Policy{MaxThreshold: recovery.DefaultMaxThreshold, MaxRetries: recovery.DefaultMaxRetries},
		ReasoningBytes: recovery.DefaultReasoningBytes, TextBytes: recovery.DefaultTextBytes,
		Profiles: proxy.DefaultProfiles(),
		Delivery: proxy.DeliveryLive, HoldMaxBytes: proxy.DefaultHoldMaxBytes, NonStreaming: proxy.NonStreamingProtect,
		Retry: proxy.Retry{
			MaxRetries: proxy.DefaultTransportRetries, MaxWait: proxy.DefaultRetryMaxWait, Backoff: proxy.BackoffExponential,
			On: proxy.DefaultRetryOn(), IdleTimeout: proxy.DefaultRetryIdleTimeout,
		},
		MaxBody: proxy.DefaultMaxBody, MaxFrame: 16 << 20, MaxMemory: proxy.DefaultMaxMemory,
		ClientTimeout: proxy.DefaultClientTimeout, Silence: proxy.DefaultSilence, KeepAlive: proxy.DefaultKeepAlive,
		Capture: proxy.Capture{MaxBytes: proxy.DefaultCaptureMaxBytes},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c.Ledger.TTL != ledger.DefaultTTL || c.Ledger.MaxEntries != ledger.DefaultMaxEntries || c.Ledger.Store != storeFile {
		t.Errorf("got the ledger %+v, want the defaults of its package", c.Ledger)
	}
	if c.Shutdown.Grace != shutdownGrace || c.Limits.HeaderTimeout != readHeaderTimeout || c.Limits.Header != maxHeaderBytes {
		t.Errorf("got %v, %v and %v, want the limits of any server", c.Shutdown.Grace, c.Limits.HeaderTimeout, c.Limits.Header)
	}
}

// Each word that may be given is one that the proxy knows.
func TestWordsAreThoseOfTheProxy(t *testing.T) {
	for key, want := range map[string][]string{
		"delivery":                 {string(proxy.DeliveryLive), string(proxy.DeliveryHold)},
		"recovery.mode":            {string(proxy.ModeEnforce), string(proxy.ModeObserve), string(proxy.ModeOff)},
		"recovery.non_streaming":   {string(proxy.NonStreamingProtect), string(proxy.NonStreamingPassthrough)},
		"recovery.client_opt_in":   {string(proxy.OptInDefer), string(proxy.OptInOwn)},
		"detector.mode":            {string(proxy.ModeEnforce), string(proxy.ModeObserve), string(proxy.ModeOff)},
		"stationarity.mode":        {string(proxy.ModeEnforce), string(proxy.ModeObserve), string(proxy.ModeOff)},
		"signals.headers":          {string(proxy.SignalHeadersAuto), string(proxy.SignalHeadersAlways), string(proxy.SignalHeadersNever)},
		"upstreams.<name>.signals": {string(proxy.SignalHeadersAuto), string(proxy.SignalHeadersAlways), string(proxy.SignalHeadersNever)},
		"retry.backoff":            {string(proxy.BackoffExponential), string(proxy.BackoffLinear), string(proxy.BackoffFixed)},
		"ledger.store":             {storeFile, storeMemory, storeRedis},
	} {
		i := slices.IndexFunc(config.Fields(), func(f *config.Field) bool { return f.Key == key })
		if i < 0 {
			t.Errorf("there is no %s", key)
		} else if got := config.Fields()[i].Words; !slices.Equal(got, want) {
			t.Errorf("%s: got the words %q, want %q", key, got, want)
		}
	}
	all := ""
	for _, f := range proxy.Failures() {
		all += "," + string(f)
	}
	l := loaded(t, "retry: {on: ["+all[1:]+"]}")
	if got := proxyConfig(&l.Config).Retry.On; !slices.Equal(got, proxy.Failures()) {
		t.Errorf("got %q, want all failures", got)
	}
}

// Each setting of the proxy arrives there.
func TestProxyConfigs(t *testing.T) {
	l := loaded(t, `
upstreams:
  another: {url: https://one/v1}
  default: {url: "https://two/v1?k=v", signals: always}
  three: {url: https://three}
delivery: hold
recovery:
  mode: observe
  non_streaming: passthrough
  max_threshold: 3
  max_retries: 4
  window_tokens: 555
  exact_repetition_min_tokens: 66
  client_opt_in: own
  reminder: text
  replay: {reasoning_bytes: 7, text_bytes: 8}
  drill: true
stationarity: {mode: observe, on_stop: end, results: ignore, tight_tools: [a, b], tight_nudge: 3, tight_stop: 0, loose_nudge: 0, loose_stop: 5, no_op_stop: 6}
detector: {mode: observe, channels: [tool, thinking], act: [counter, exact]}
signals: {headers: never}
splice:
  profiles:
    - {user_agent_prefix: "a ", close: dangling}
    - {user_agent_prefix: b, close: tombstone}
hold: {max_bytes: 9, keepalive: 10s}
retry: {max_retries: 1, on: [drop], backoff: fixed, max_wait: 11s, idle_timeout: 12s}
limits: {body: 13, frame: 14, memory: 15, concurrent: 16, client_timeout: 17s, silence: 18s}
capture: {dir: /d, max_bytes: 19}
`)
	got, err := proxyConfigs(&l.Config)
	if err != nil {
		t.Fatal(err)
	}
	common := proxy.Config{
		Mode: proxy.ModeObserve, Detector: proxy.Detector{
			Mode: proxy.ModeObserve, Channels: []detect.Channel{detect.Thinking, detect.Tool}, Act: detect.Exact | detect.Counter,
		}, Stationarity: proxy.Stationarity{Mode: proxy.ModeObserve, Config: stationarity.Config{
			TightTools: []string{"a", "b"}, OnStop: stationarity.OnStopEnd, Results: stationarity.ResultsIgnore,
			Tight: stationarity.Thresholds{Nudge: 3, Stop: -1}, Loose: stationarity.Thresholds{Nudge: -1, Stop: 5}, NoOp: stationarity.Thresholds{Stop: 6},
		}}, ClientOptIn: proxy.OptInOwn, SignalHeaders: proxy.SignalHeadersNever,
		WindowTokens: 555, ExactRepetitionMinTokens: 66,
		Policy: recovery.Policy{MaxThreshold: 3, MaxRetries: 4}, Reminder: "text", ReasoningBytes: 7, TextBytes: 8,
		Profiles: []proxy.Profile{{UserAgentPrefix: "a ", Close: recovery.CloseDangling}, {UserAgentPrefix: "b", Close: recovery.CloseTombstone}},
		Delivery: proxy.DeliveryHold, HoldMaxBytes: 9, NonStreaming: proxy.NonStreamingPassthrough,
		Retry:   proxy.Retry{MaxRetries: 1, MaxWait: 11 * time.Second, Backoff: proxy.BackoffFixed, On: []proxy.Failure{proxy.FailureDrop}, IdleTimeout: 12 * time.Second},
		MaxBody: 13, MaxFrame: 14, MaxMemory: 15, MaxConcurrent: 16, ClientTimeout: 17 * time.Second, Silence: 18 * time.Second,
		KeepAlive: 10 * time.Second, Drill: true, Capture: proxy.Capture{Dir: "/d", MaxBytes: 19},
	}
	var want []proxy.Config
	for _, u := range []struct {
		name, url string
		signals   proxy.SignalHeaders
	}{{"default", "https://two/v1?k=v", proxy.SignalHeadersAlways}, {"another", "https://one/v1", proxy.SignalHeadersNever}, {"three", "https://three", proxy.SignalHeadersNever}} {
		c := common
		c.UpstreamName, c.SignalHeaders = u.name, u.signals
		if c.Upstream, err = url.Parse(u.url); err != nil {
			t.Fatal(err)
		}
		want = append(want, c)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// Nothing is a choice of its own in the lists that have defaults.
func TestEmptyLists(t *testing.T) {
	l := loaded(t, "retry: {on: []}\nsplice: {profiles: []}")
	got := proxyConfig(&l.Config)
	if got.Retry.On == nil || len(got.Retry.On) > 0 || got.Profiles == nil || len(got.Profiles) > 0 {
		t.Errorf("got %q and %v, want lists that are empty, not nil", got.Retry.On, got.Profiles)
	}
}

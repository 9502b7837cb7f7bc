package main

import (
	"maps"
	"net/url"
	"slices"

	"github.com/doomproxy/doomproxy/config"
	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/stationarity"
)

// proxyConfigs returns what the configuration says about the proxies of all
// upstreams, that of the default one first.
func proxyConfigs(c *config.Config) ([]proxy.Config, error) {
	names := slices.Sorted(maps.Keys(c.Upstreams))
	slices.SortStableFunc(names, func(a, b string) int {
		switch c.DefaultUpstream {
		case a:
			return -1
		case b:
			return 1
		}
		return 0
	})
	list := make([]proxy.Config, len(names))
	for i, name := range names {
		u, err := url.Parse(c.Upstreams[name].URL)
		if err != nil {
			return nil, err
		}
		p := proxyConfig(c)
		p.Upstream, p.UpstreamName = u, name
		if own := c.Upstreams[name].Signals; own != "" {
			p.SignalHeaders = proxy.SignalHeaders(own)
		}
		list[i] = p
	}
	return list, nil
}

// proxyConfig is what the proxies of all upstreams have in common.
func proxyConfig(c *config.Config) proxy.Config {
	return proxy.Config{
		Mode:                     proxy.Mode(c.Recovery.Mode),
		Detector:                 detector(c.Detector),
		Stationarity:             repetition(c.Stationarity),
		ClientOptIn:              proxy.OptIn(c.Recovery.ClientOptIn),
		SignalHeaders:            proxy.SignalHeaders(c.Signals.Headers),
		WindowTokens:             c.Recovery.WindowTokens,
		ExactRepetitionMinTokens: c.Recovery.ExactRepetitionMinTokens,
		Policy:                   recovery.Policy{MaxThreshold: c.Recovery.MaxThreshold, MaxRetries: c.Recovery.MaxRetries},
		Reminder:                 c.Recovery.Reminder,
		ReasoningBytes:           int(c.Recovery.Replay.ReasoningBytes),
		TextBytes:                int(c.Recovery.Replay.TextBytes),
		Profiles:                 profiles(c.Splice.Profiles),
		Delivery:                 proxy.Delivery(c.Delivery),
		HoldMaxBytes:             int(c.Hold.MaxBytes),
		NonStreaming:             proxy.NonStreaming(c.Recovery.NonStreaming),
		Retry: proxy.Retry{
			MaxRetries:  c.Retry.MaxRetries,
			MaxWait:     c.Retry.MaxWait,
			Backoff:     proxy.Backoff(c.Retry.Backoff),
			On:          failures(c.Retry.On),
			IdleTimeout: c.Retry.IdleTimeout,
		},
		MaxBody:       int64(c.Limits.Body),
		MaxFrame:      int(c.Limits.Frame),
		MaxMemory:     int64(c.Limits.Memory),
		MaxConcurrent: c.Limits.Concurrent,
		ClientTimeout: c.Limits.ClientTimeout,
		Silence:       c.Limits.Silence,
		KeepAlive:     c.Hold.KeepAlive,
		Drill:         c.Recovery.Drill,
		Capture:       proxy.Capture{Dir: c.Capture.Dir, MaxBytes: int64(c.Capture.MaxBytes)},
	}
}

// modes are those of all guards.
func modes(c *config.Config) map[proxy.Guard]proxy.Mode {
	return map[proxy.Guard]proxy.Mode{
		proxy.GuardRecovery:     proxy.Mode(c.Recovery.Mode),
		proxy.GuardDetector:     proxy.Mode(c.Detector.Mode),
		proxy.GuardStationarity: proxy.Mode(c.Stationarity.Mode),
	}
}

// detector is what is done about loops that are not reported.
func detector(d config.Detector) proxy.Detector {
	p := proxy.Detector{Mode: proxy.Mode(d.Mode), Channels: []detect.Channel{}}
	for _, c := range []detect.Channel{detect.Thinking, detect.Response, detect.Tool} {
		if slices.Contains(d.Channels, c.String()) {
			p.Channels = append(p.Channels, c)
		}
	}
	for _, part := range []detect.Part{detect.Exact, detect.Counter, detect.Saturation} {
		if slices.Contains(d.Act, part.String()) {
			p.Act |= part
		}
	}
	return p
}

// repetition is what is done about agents that repeat their tool calls.
func repetition(c config.Stationarity) proxy.Stationarity {
	p := proxy.Stationarity{Mode: proxy.Mode(c.Mode), Config: stationarity.Config{
		TightTools: c.TightTools,
		Tight:      stationarity.Thresholds{Nudge: count(c.TightNudge), Stop: count(c.TightStop)},
		Loose:      stationarity.Thresholds{Nudge: count(c.LooseNudge), Stop: count(c.LooseStop)},
		NoOp:       stationarity.Thresholds{Stop: count(c.NoOpStop)},
	}}
	if p.TightTools == nil {
		p.TightTools = []string{} // nil would mean the defaults
	}
	if c.Results == "ignore" {
		p.Results = stationarity.ResultsIgnore
	}
	if c.OnStop == "end" {
		p.OnStop = stationarity.OnStopEnd
	}
	return p
}

// count is a threshold, which in package stationarity is the default if it is zero.
func count(n int) int {
	if n == 0 {
		return -1
	}
	return n
}

// profiles are not nil, for that would mean the defaults.
func profiles(list []config.Profile) []proxy.Profile {
	all := make([]proxy.Profile, len(list))
	for i, p := range list {
		all[i] = proxy.Profile{UserAgentPrefix: p.UserAgentPrefix, Close: recovery.CloseTombstone}
		if p.Close == "dangling" {
			all[i].Close = recovery.CloseDangling
		}
	}
	return all
}

// failures are not nil, likewise.
func failures(list []string) []proxy.Failure {
	all := make([]proxy.Failure, len(list))
	for i, f := range list {
		all[i] = proxy.Failure(f)
	}
	return all
}

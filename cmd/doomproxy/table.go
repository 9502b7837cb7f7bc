package main

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/recovery"
)

// table returns all settings, in the order of the help text. They are read into s.
func (s *settings) table() []*setting {
	return slices.Concat(
		s.addressTable(), s.recoveryTable(), s.retryTable(), s.limitsTable(),
		s.ledgerTable(), s.shutdownTable(), s.logTable(),
	)
}

// addressTable says who talks to whom, and what shows that they may.
func (s *settings) addressTable() []*setting {
	return []*setting{
		{
			key: "upstreams.default.url", flag: "upstream", short: "DOOMPROXY_UPSTREAM",
			value: upstreamURL(&s.proxy),
			usage: "`[NAME=]URL` that the agent would use without the proxy (required)",
		},
		{
			key:   "upstreams.default.ca_file",
			value: filePath(&s.upstreamTLS.CA),
			usage: "PEM: who vouches for it, besides those the system trusts",
		},
		{
			key:   "upstreams.default.client_cert",
			value: filePath(&s.upstreamTLS.ClientCert),
			usage: "PEM: certificate that it is shown",
		},
		{
			key:   "upstreams.default.client_key",
			value: filePath(&s.upstreamTLS.ClientKey),
			usage: "PEM: key of that certificate",
		},
		{
			key: "listen", flag: "listen", def: "127.0.0.1:3666",
			value: hostPort(&s.listen),
			usage: "`ADDRESS` for agents",
		},
		{
			key:   "tls.cert",
			value: filePath(&s.tls.cert),
			usage: "PEM: certificate that agents are shown, for HTTPS",
		},
		{
			key:   "tls.key",
			value: filePath(&s.tls.key),
			usage: "PEM: key of that certificate",
		},
		{
			key:   "auth.tokens",
			value: tokenFiles(&s.tokens),
			usage: "NAME=FILE,…: agents have to send one of these tokens",
		},
		{
			key: "admin_listen", flag: "admin-listen", def: "127.0.0.1:3667",
			value: optional(hostPort(&s.adminListen)),
			usage: "`ADDRESS` for metrics and health checks; empty: none",
		},
	}
}

// recoveryTable says what is done about loops.
func (s *settings) recoveryTable() []*setting {
	p := &s.proxy
	return []*setting{
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
			value: size(&p.HoldMaxBytes, maxSize),
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
	}
}

// retryTable says which attempts that fail are made again.
func (s *settings) retryTable() []*setting {
	r := &s.proxy.Retry
	return []*setting{
		{
			key: "retry.max_retries", def: strconv.Itoa(proxy.DefaultTransportRetries),
			value: number(&r.MaxRetries, 0, 10),
			usage: "at most so many for a request, 0 to 10 (2)",
		},
		{
			key: "retry.on", def: joined(proxy.DefaultRetryOn()),
			value: anyOf(&r.On, proxy.Failures()...),
			usage: "after which failures, or none (all but idle)",
		},
		{
			key: "retry.backoff", def: string(proxy.BackoffExponential),
			value: oneOf(&r.Backoff, proxy.BackoffExponential, proxy.BackoffLinear, proxy.BackoffFixed),
			usage: "exponential, linear or fixed: the waits between",
		},
		{
			key: "retry.max_wait", def: proxy.DefaultRetryMaxWait.String(),
			value: duration(&r.MaxWait, leastTime),
			usage: "longest wait that an upstream may ask for (30s)",
		},
		{
			key: "retry.idle_timeout", def: proxy.DefaultRetryIdleTimeout.String(),
			value: duration(&r.IdleTimeout, leastTime),
			usage: "silence that counts as the failure idle (4m)",
		},
	}
}

// limitsTable says how much is too much.
func (s *settings) limitsTable() []*setting {
	p := &s.proxy
	return []*setting{
		{
			key: "limits.body", def: "64MiB",
			value: size(&p.MaxBody, maxSize),
			usage: "largest request body (64MiB)",
		},
		{
			key: "limits.frame", def: "16MiB",
			value: size(&p.MaxFrame, maxSize),
			usage: "largest event that is looked into (16MiB)",
		},
		{
			key: "limits.memory", def: "1GiB",
			value: size(&p.MaxMemory, 1<<40),
			usage: "all bodies and held events together (1GiB)",
		},
		{
			key: "limits.concurrent", def: "0",
			value: number(&p.MaxConcurrent, 0, 1_000_000),
			usage: "protected requests at a time, 0 for any (0)",
		},
		{
			key: "limits.client_timeout", def: proxy.DefaultClientTimeout.String(),
			value: duration(&p.ClientTimeout, leastTime),
			usage: "how long an agent may send or take nothing (1m)",
		},
		{
			key: "limits.silence", def: proxy.DefaultSilence.String(),
			value: duration(&p.Silence, leastTime),
			usage: "how long an upstream may send nothing (10m)",
		},
		{
			key: "limits.response_header_timeout", def: "0s",
			value: duration(&s.responseHeaderTimeout, 0),
			usage: "until an upstream's answer begins, 0s for any (0s)",
		},
		{
			key: "limits.header", def: "1MiB",
			value: size(&s.header, 16<<20),
			usage: "largest headers of a request (1MiB)",
		},
		{
			key: "limits.header_timeout", def: readHeaderTimeout.String(),
			value: duration(&s.headerTimeout, leastTime),
			usage: "how long they may take to arrive (10s)",
		},
	}
}

// ledgerTable says where it is remembered what cut attempts sent.
func (s *settings) ledgerTable() []*setting {
	return []*setting{
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
	}
}

// shutdownTable says how it ends.
func (s *settings) shutdownTable() []*setting {
	return []*setting{
		{
			key: "shutdown.delay", def: "0s",
			value: duration(&s.shutdown.delay, 0),
			usage: "how long it is not ready but still listens (0s)",
		},
		{
			key: "shutdown.grace", def: shutdownGrace.String(),
			value: duration(&s.shutdown.grace, 0),
			usage: "how long what runs may go on after that (30s)",
		},
	}
}

// logTable says what is logged.
func (s *settings) logTable() []*setting {
	return []*setting{
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

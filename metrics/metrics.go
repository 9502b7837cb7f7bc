// Package metrics holds every Prometheus series of the proxy: what each one
// counts, in which unit, and which label values it may carry.
//
// Nothing here is high-cardinality. Labels take words from a fixed list, names
// from the configuration, or the bounded result of [Metrics.ModelLabel]; text
// from requests or from generated output never becomes a label.
package metrics

import (
	"cmp"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// durationBuckets are seconds, 0.05 to 1800: from a local upstream's first byte
// to a half-hour answer. 30, 60, 240 and 600 are the proxy's own deadlines (the
// longest Retry-After waited for, the first reminder that a response is still in
// progress, the idle time-out, the end of a silent stream), so that an alert on
// one of them reads an exact bucket.
var durationBuckets = []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 240, 600, 1200, 1800}

// gapBuckets are seconds, 0.005 to 60. 5 ms is the target for the proxy's own
// share of a gap, 250 ms the most jitter it adds, 15 s the keep-alive interval,
// and from 60 s on a waiting client is told that its response is in progress.
var gapBuckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60}

// Build identifies the running binary. An empty field is shown as "unknown".
type Build struct {
	Version string // release, such as "v1.2.0"
	Commit  string // revision it was built from
}

// Metrics are the proxy's series; create them with [New]. All methods and all
// series are safe for concurrent use.
//
// The order of a field's labels is the order of WithLabelValues. Looking a label
// up costs a hash and a lock: code that runs per frame adds its counts once per
// read or per attempt, or keeps the series that WithLabelValues returned.
type Metrics struct {
	// Requests counts finished client requests.
	// upstream: name in the configuration. protection: protected, passthrough,
	// deferred, observed. outcome: clean, retried, recovered, late,
	// accepted_after_budget, upstream_error, gave_up, rejected, cancelled,
	// client_gone. code: HTTP status in decimal, 499 when the client left.
	// model: the request's, bounded.
	Requests *prometheus.CounterVec

	// Unprotected counts requests that were relayed without recovery.
	// reason: path, body, background, conversation, deferred, off, memory,
	// oversized_frame.
	Unprotected *prometheus.CounterVec

	// Attempts counts upstream requests, which is what an upstream bills.
	// upstream: name in the configuration. kind: first, resample, retry, ladder.
	// result: accepted, cut, refused, missing, no_stream, locked, failed, dropped,
	// client_gone or, if it was made again, connect, rate_limit, server, drop,
	// failed_event, empty, idle.
	Attempts *prometheus.CounterVec

	// DoomSignals counts signals; equal labels count once per attempt.
	// source: upstream, local. kind: tail_repetition, exact_repetition,
	// low_logprob, other. channel: thinking, response, tool, other.
	// confident: true, false.
	DoomSignals *prometheus.CounterVec

	// DoomAborts counts cuts.
	// source: upstream, local, drill. kind: as for doom_signals. model: the
	// request's, bounded. mode: enforce (was cut), observe (would have been cut).
	DoomAborts *prometheus.CounterVec

	// Recoveries counts requests in which a confident signal was seen.
	// outcome: recovered, accepted_after_budget, late, gave_up, client_gone.
	Recoveries *prometheus.CounterVec

	// Replay counts resamples by what they were told about the cut attempt.
	// mode: full, reminder_only, vetoed, refused_by_upstream.
	Replay *prometheus.CounterVec

	// Frames counts SSE frames of inspected streams.
	// action: forwarded, swallowed, discarded, rewritten, synthesized.
	Frames *prometheus.CounterVec

	// MalformedChecks counts check frames whose report was not as specified, in
	// part or in whole.
	MalformedChecks prometheus.Counter

	// DiscardedBytes counts bytes received in cut attempts.
	DiscardedBytes prometheus.Counter

	// Tokens counts tokens as reported in the accepted attempt's usage.
	// type: input, output, reasoning, cached.
	Tokens *prometheus.CounterVec

	// DiscardedTokensEstimated counts tokens of cut attempts at 4 bytes a token:
	// an estimate, for a cut attempt never gets to report its usage.
	DiscardedTokensEstimated prometheus.Counter

	// ScrubbedItems counts items taken out of a request's input.
	// reason: tombstone, id, hash, text (known from a discarded attempt by one of
	// these), missing_upstream (the upstream named it as unknown).
	ScrubbedItems *prometheus.CounterVec

	// TimeToAbort observes seconds from an attempt's first byte to its cut.
	TimeToAbort prometheus.Histogram

	// ResampleGap observes seconds from a cut to the first frame forwarded from
	// the next attempt.
	ResampleGap prometheus.Histogram

	// UpstreamFirstByte observes seconds from an attempt's start to the first
	// byte of its answer. kind: as for attempts.
	UpstreamFirstByte *prometheus.HistogramVec

	// RequestDuration observes seconds from a request's arrival to its end.
	// protection, outcome: as for requests.
	RequestDuration *prometheus.HistogramVec

	// RequestsInFlight counts requests being served now.
	// phase: waiting, thinking, held, visible, backoff.
	RequestsInFlight *prometheus.GaugeVec

	// Steps counts an agent's model calls, whatever number of attempts each took.
	// position: turn_start (the last input item is a real user message),
	// continuation.
	Steps *prometheus.CounterVec

	// Incomplete counts answers that ended as incomplete.
	// reason: max_output_tokens, content_filter, other.
	Incomplete *prometheus.CounterVec

	// OversizedFrames counts frames above the frame limit. Each leaves the rest of
	// its stream unprotected.
	OversizedFrames prometheus.Counter

	// LedgerErrors counts calls of the ledger that failed.
	// store: memory, file, redis.
	LedgerErrors *prometheus.CounterVec
	// LedgerEntries counts entries in the ledger, as it was read last.
	LedgerEntries prometheus.Gauge

	// Stationarity counts requests of agents that repeat the same step, by what was
	// done; in the mode observe, by what would have been.
	// action: nudge, stop. tier: tight, loose, no_op.
	Stationarity *prometheus.CounterVec

	// ConfigReloads counts attempts to take in a changed configuration, and
	// switches of the mode. result: success, failure, mode.
	ConfigReloads *prometheus.CounterVec
	// ConfigLastReloadSuccessful is 1, or 0 if the last changed configuration could
	// not be used.
	ConfigLastReloadSuccessful prometheus.Gauge

	// BuildInfo is always 1. version, commit: of the binary, or unknown. goversion: the Go
	// release the binary was built with.
	BuildInfo *prometheus.GaugeVec

	models modelSet
}

// New creates the proxy's metrics and registers them with reg, along with the
// collectors for the Go runtime and the process. A nil reg registers nothing.
//
// It panics when reg already holds one of the names, so reg is one registry for
// each Metrics, not prometheus.DefaultRegisterer.
func New(reg prometheus.Registerer, build Build) *Metrics {
	if reg != nil {
		reg.MustRegister(
			collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
	}
	f := promauto.With(reg)
	m := &Metrics{
		Requests: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_requests_total",
			Help: "Finished client requests.",
		}, []string{"upstream", "protection", "outcome", "code", "model"}),

		Unprotected: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_unprotected_total",
			Help: "Requests relayed without recovery, by reason.",
		}, []string{"reason"}),

		Attempts: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_attempts_total",
			Help: "Upstream requests made; one client request takes one or more.",
		}, []string{"upstream", "kind", "result"}),

		DoomSignals: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_doom_signals_total",
			Help: "Distinct loop signals seen, per attempt.",
		}, []string{"source", "kind", "channel", "confident"}),

		DoomAborts: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_doom_aborts_total",
			Help: "Attempts cut because of a loop; with mode observe, those that would have been.",
		}, []string{"source", "kind", "model", "mode"}),

		Recoveries: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_recoveries_total",
			Help: "Requests with a confident loop signal, by how they ended.",
		}, []string{"outcome"}),

		Replay: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_replay_total",
			Help: "Resamples, by what the upstream was told about the cut attempt.",
		}, []string{"mode"}),

		Frames: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_frames_total",
			Help: "SSE frames of inspected streams, by what became of them.",
		}, []string{"action"}),

		MalformedChecks: f.NewCounter(prometheus.CounterOpts{
			Name: "doomproxy_malformed_checks_total",
			Help: "Check frames whose report could not be fully understood.",
		}),

		DiscardedBytes: f.NewCounter(prometheus.CounterOpts{
			Name: "doomproxy_discarded_bytes_total",
			Help: "Bytes received in cut attempts.",
		}),

		Tokens: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_tokens_total",
			Help: "Tokens as reported by the upstream for accepted attempts.",
		}, []string{"type"}),

		DiscardedTokensEstimated: f.NewCounter(prometheus.CounterOpts{
			Name: "doomproxy_discarded_tokens_estimated_total",
			Help: "Tokens of cut attempts, estimated at 4 bytes a token.",
		}),

		ScrubbedItems: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_scrubbed_items_total",
			Help: "Items of discarded attempts taken out of a request's input.",
		}, []string{"reason"}),

		TimeToAbort: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "doomproxy_time_to_abort_seconds",
			Help:    "Time from an attempt's first byte to its cut.",
			Buckets: durationBuckets,
		}),

		ResampleGap: f.NewHistogram(prometheus.HistogramOpts{
			Name:    "doomproxy_resample_gap_seconds",
			Help:    "Time from a cut to the next attempt's first forwarded frame.",
			Buckets: gapBuckets,
		}),

		UpstreamFirstByte: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "doomproxy_upstream_first_byte_seconds",
			Help:    "Time from an attempt's start to the first byte of its answer.",
			Buckets: durationBuckets,
		}, []string{"kind"}),

		RequestDuration: f.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "doomproxy_request_duration_seconds",
			Help:    "Time from a request's arrival to its end.",
			Buckets: durationBuckets,
		}, []string{"protection", "outcome"}),

		RequestsInFlight: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "doomproxy_requests_in_flight",
			Help: "Requests being served now, by phase.",
		}, []string{"phase"}),

		Steps: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_steps_total",
			Help: "Model calls of agents, by their place in the turn.",
		}, []string{"position"}),

		Incomplete: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_incomplete_total",
			Help: "Answers that the upstream ended as incomplete, by reason.",
		}, []string{"reason"}),

		LedgerErrors: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_ledger_errors_total",
			Help: "Calls of the ledger of discarded items that failed.",
		}, []string{"store"}),
		LedgerEntries: f.NewGauge(prometheus.GaugeOpts{
			Name: "doomproxy_ledger_entries",
			Help: "Entries in the ledger of discarded items.",
		}),
		OversizedFrames: f.NewCounter(prometheus.CounterOpts{
			Name: "doomproxy_oversized_frames_total",
			Help: "SSE frames above the frame limit, passed through raw.",
		}),

		Stationarity: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_stationarity_total",
			Help: "Requests of agents that repeat the same step, by what was done.",
		}, []string{"action", "tier"}),

		ConfigReloads: f.NewCounterVec(prometheus.CounterOpts{
			Name: "doomproxy_config_reloads_total",
			Help: "Changes of the configuration while running, by result.",
		}, []string{"result"}),
		ConfigLastReloadSuccessful: f.NewGauge(prometheus.GaugeOpts{
			Name: "doomproxy_config_last_reload_successful",
			Help: "1 if the configuration in use is the one in the file, 0 if that could not be used.",
		}),

		BuildInfo: f.NewGaugeVec(prometheus.GaugeOpts{
			Name: "doomproxy_build_info",
			Help: "Always 1; the labels identify the running binary.",
		}, []string{"version", "commit", "goversion"}),
	}

	// A series that first appears at 1 hides that first event from rate() and
	// increase(). Those with one label and few values start at 0 instead.
	zero(m.Unprotected, "path", "body", "background", "conversation", "deferred", "off", "memory", "oversized_frame")
	zero(m.Recoveries, "recovered", "accepted_after_budget", "late", "gave_up", "client_gone")
	zero(m.Replay, "full", "reminder_only", "vetoed", "refused_by_upstream")
	zero(m.Frames, "forwarded", "swallowed", "discarded", "rewritten", "synthesized")
	zero(m.Tokens, "input", "output", "reasoning", "cached")
	zero(m.ScrubbedItems, "tombstone", "id", "hash", "text", "missing_upstream")
	zero(m.Steps, "turn_start", "continuation")
	zero(m.ConfigReloads, "success", "failure", "mode")
	m.ConfigLastReloadSuccessful.Set(1)
	zero(m.Incomplete, "max_output_tokens", "content_filter", "other")
	for _, action := range []string{"nudge", "stop"} {
		for _, tier := range []string{"tight", "loose", "no_op"} {
			m.Stationarity.WithLabelValues(action, tier)
		}
	}
	for _, phase := range []string{"waiting", "thinking", "held", "visible", "backoff"} {
		m.RequestsInFlight.WithLabelValues(phase)
	}

	m.BuildInfo.WithLabelValues(
		cmp.Or(build.Version, "unknown"),
		cmp.Or(build.Commit, "unknown"),
		runtime.Version(),
	).Set(1)
	return m
}

func zero(vec *prometheus.CounterVec, values ...string) {
	for _, v := range values {
		vec.WithLabelValues(v)
	}
}

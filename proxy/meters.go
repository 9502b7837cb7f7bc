package proxy

import (
	"github.com/doomproxy/doomproxy/metrics"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/prometheus/client_golang/prometheus"
)

// meters are the metrics that each request changes whose labels have few values:
// looking one up by its labels costs more than changing it.
type meters struct {
	inFlight  map[phase]prometheus.Gauge
	frames    [recovery.Actions]prometheus.Counter
	firstByte map[string]prometheus.Observer // by the kind of the attempt
	turnStart prometheus.Counter             // of steps
	followUp  prometheus.Counter

	input, output, reasoning, cached prometheus.Counter // tokens
}

func newMeters(m *metrics.Metrics) *meters {
	own := &meters{
		inFlight:  make(map[phase]prometheus.Gauge),
		firstByte: make(map[string]prometheus.Observer),
		turnStart: m.Steps.WithLabelValues("turn_start"),
		followUp:  m.Steps.WithLabelValues("continuation"),
		input:     m.Tokens.WithLabelValues("input"),
		output:    m.Tokens.WithLabelValues("output"),
		reasoning: m.Tokens.WithLabelValues("reasoning"),
		cached:    m.Tokens.WithLabelValues("cached"),
	}
	for _, p := range []phase{phaseWaiting, phaseThinking, phaseHeld, phaseVisible, phaseBackoff} {
		own.inFlight[p] = m.RequestsInFlight.WithLabelValues(string(p))
	}
	for action := range own.frames {
		own.frames[action] = m.Frames.WithLabelValues(recovery.Action(action).String())
	}
	for _, kind := range []string{kindFirst, kindRetry, kindResample, kindLadder} {
		own.firstByte[kind] = m.UpstreamFirstByte.WithLabelValues(kind)
	}
	return own
}

package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/doomproxy/doomproxy/stationarity"
	"go.opentelemetry.io/otel/attribute"
)

// Stationarity says what is done about agents that make the same tool call again
// and again.
type Stationarity struct {
	// Mode is ModeEnforce (also the meaning of empty), in which they are told, and
	// stopped if Config.OnStop says so, ModeObserve, in which they are counted and
	// logged only, or ModeOff, in which no conversation is looked into.
	Mode Mode
	stationarity.Config
}

// repeats looks whether a request's conversation ends in repeated tool calls. A
// client that asks for loop reports itself has a guard of its own.
func (p *Proxy) repeats(r *http.Request, req *request, input string) {
	mode := orDefault(p.state.Mode(GuardStationarity), p.cfg.Stationarity.Mode)
	inspected := req.protection == protected || req.protection == observed
	if mode == ModeOff || !inspected || len(r.Header.Values(headerLoopCheck)) > 0 {
		return
	}
	found := stationarity.Check(input, p.cfg.Stationarity.Config)
	if found.Action == stationarity.ActionNudge && p.state.nudgeless.known(p.lesson(req.model)) {
		return
	}
	req.repeated = found
	if mode == ModeEnforce {
		req.action = found.Action
	}
}

// repeats takes down what is repeated.
func (rec *record) repeats(f stationarity.Finding) {
	if f.Action == stationarity.ActionNone {
		return
	}
	rec.p.cfg.Metrics.Stationarity.WithLabelValues(f.Action.String(), f.Tier.String()).Inc()
	rec.repeated = fmt.Sprintf("%s tier=%s count=%d cycle=%d", f.Action, f.Tier, f.Count, f.Cycle)
	rec.live.change(func(shown *Running) { shown.Repeated = rec.repeated })
	rec.event("doomproxy.stationarity", attribute.String("doomproxy.stationarity.action", f.Action.String()),
		attribute.String("doomproxy.stationarity.tier", f.Tier.String()), attribute.Int("doomproxy.stationarity.count", f.Count))
}

// endTurn answers in the place of the upstream, so that the agent stops.
func (p *Proxy) endTurn(w http.ResponseWriter, r *http.Request, rec *record, req *request) {
	a := stationarity.Answer{
		ResponseID: "resp_" + rec.id, ItemID: "msg_" + rec.id, Model: req.model,
		CreatedAt: rec.start.Unix(), Text: stationarity.StopText(req.repeated),
	}
	// The upstream does not know the message. Clients that refer to what they take
	// for stored are to send no reference to it.
	h := history{p: p}
	h.discard(r.Context(), []ledger.Key{ledger.ItemID(a.ItemID)})
	h.settle()

	rec.sent(http.StatusOK)
	rec.enter(phaseVisible)
	rec.pace.extend()
	if !req.stream {
		body := a.JSON()
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		n, _ := io.WriteString(w, body) // the answer ends here, whether or not it arrives
		rec.bytes += int64(n)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	out := sseframe.NewWriter(w, http.NewResponseController(w))
	for _, frame := range a.Frames() {
		out.Write([]byte(frame)) //nolint:errcheck // checked below
		rec.frames[recovery.Synthesized]++
	}
	err := out.Flush()
	rec.bytes += out.Written()
	if err != nil {
		rec.gone(w, r)
	}
}

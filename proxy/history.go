package proxy

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/recovery"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// ledgerWait is the longest that a request or the end of an answer waits for the
// ledger: agents notice more, and a ledger that is away must not stop them.
const ledgerWait = 100 * time.Millisecond

// maxMissing bounds how often a request is sent again without an item that the
// upstream says it does not know.
const maxMissing = 8

// maxTraces bounds what is kept of the reasoning items of one attempt. Real ones
// have a handful, with up to four keys each.
const maxTraces = 1024

// scrub drops from a body what came of attempts that were discarded, and puts
// the accepted attempt's response id in the place of the one the client saw.
func (p *Proxy) scrub(ctx context.Context, req *request) {
	items := recovery.ReturnedItems(req.body)
	previous := gjson.Get(req.body, "previous_response_id").Str
	if len(items) == 0 && previous == "" {
		return
	}
	keys := []ledger.Key{ledger.Alias(previous)}
	for _, item := range items {
		keys = append(keys, traceKeys(item.Trace)...)
	}
	found := p.look(ctx, keys)
	discarded := slices.DeleteFunc(items, func(item recovery.Returned) bool {
		reason := discardReason(item, found)
		if reason != "" {
			p.cfg.Metrics.ScrubbedItems.WithLabelValues(reason).Inc()
		}
		return reason == ""
	})
	req.body = recovery.Drop(req.body, discarded)
	req.changed = req.changed || len(discarded) > 0
	if accepted, ok := found[ledger.Alias(previous)]; ok && previous != "" {
		if body, err := sjson.Set(req.body, "previous_response_id", accepted); err == nil {
			req.body, req.changed = body, true
		}
	}
}

// discardReason says, as the metric does, how a returned item is known to be of
// a discarded attempt; "" if it is not.
func discardReason(item recovery.Returned, found map[ledger.Key]string) string {
	has := func(keys ...ledger.Key) bool {
		return slices.ContainsFunc(keys, func(k ledger.Key) bool { _, ok := found[k]; return ok && !k.IsZero() })
	}
	switch {
	case item.Tombstone:
		return "tombstone"
	case has(ledger.ItemID(item.ID)):
		return "id"
	case has(ledger.Sealed(item.Sealed)):
		return "hash"
	case has(ledger.Text(item.Text), ledger.Text(item.Summary)):
		return "text"
	}
	return ""
}

// traceKeys returns all keys that a trace may be known by.
func traceKeys(t recovery.Trace) []ledger.Key {
	return []ledger.Key{ledger.ItemID(t.ID), ledger.Sealed(t.Sealed), ledger.Text(t.Text), ledger.Text(t.Summary)}
}

// look looks keys up in one batch. A ledger that does not answer knows none.
func (p *Proxy) look(ctx context.Context, keys []ledger.Key) map[ledger.Key]string {
	ctx, cancel := context.WithTimeout(ctx, ledgerWait)
	defer cancel()
	found, err := p.cfg.Ledger.Get(ctx, keys)
	p.LedgerFailed(err)
	return found
}

// LedgerFailed counts an error of the ledger and logs it, though not each one: a
// ledger that is away fails often. It is for the ledger's own reports, too.
func (p *Proxy) LedgerFailed(err error) {
	if err == nil {
		return
	}
	p.cfg.Metrics.LedgerErrors.WithLabelValues(p.cfg.LedgerName).Inc()
	now := time.Now().Unix()
	if last := p.state.complained.Load(); now-last >= 10 && p.state.complained.CompareAndSwap(last, now) {
		p.cfg.Logger.LogAttrs(context.Background(), slog.LevelWarn, "ledger", slog.String("store", p.cfg.LedgerName), slog.String("error", err.Error()))
	}
}

// aliasPath returns u with the accepted attempt's response id in the place of
// the one that a client saw, in paths such as /v1/responses/{id}/input_items.
func (p *Proxy) aliasPath(r *http.Request) *url.URL {
	if !strings.Contains(r.URL.Path, "responses/") {
		return r.URL
	}
	path := strings.Split(r.URL.EscapedPath(), "/")
	i := slices.Index(path, "responses") + 1
	if i == 0 || i == len(path) || path[i] == "" {
		return r.URL
	}
	accepted, ok := p.look(r.Context(), []ledger.Key{ledger.Alias(path[i])})[ledger.Alias(path[i])]
	if !ok {
		return r.URL
	}
	path[i] = url.PathEscape(accepted)
	u := *r.URL
	u.RawPath = strings.Join(path, "/")
	u.Path, _ = url.PathUnescape(u.RawPath) // made of parts that were escaped
	return &u
}

// history is what a request adds to the ledger.
type history struct {
	p       *Proxy
	pending chan struct{} // closed when what was written last is durable; nil before
}

// write changes the ledger while the request goes on. What is written later
// waits for it.
func (h *history) write(ctx context.Context, entries map[ledger.Key]string, gone []ledger.Key) {
	delete(entries, ledger.Key{})
	before, done := h.pending, make(chan struct{})
	h.pending = done
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*ledgerWait)
	go func() {
		defer close(done)
		defer cancel()
		if before != nil {
			<-before
		}
		if len(entries) > 0 {
			h.p.LedgerFailed(h.p.cfg.Ledger.Set(ctx, entries))
		}
		if len(gone) > 0 {
			h.p.LedgerFailed(h.p.cfg.Ledger.Delete(ctx, gone))
		}
	}()
}

// settle waits, not for long, until what was written is durable.
func (h *history) settle() {
	if h.pending == nil {
		return
	}
	timer := time.NewTimer(ledgerWait)
	defer timer.Stop()
	select {
	case <-h.pending:
	case <-timer.C:
	}
}

// discard remembers what an attempt sent that is no part of the answer.
func (h *history) discard(ctx context.Context, traces []ledger.Key) {
	entries := make(map[ledger.Key]string)
	for _, k := range traces {
		entries[k] = ""
	}
	delete(entries, ledger.Key{})
	if len(entries) > 0 {
		h.write(ctx, entries, nil)
	}
}

// nothingKnown reports whether there can be nothing in the ledger to forget. Who
// shares one with others does not know.
func (h *history) nothingKnown() bool {
	l, ok := h.p.cfg.Ledger.(interface{ Empty() bool })
	return ok && h.pending == nil && l.Empty()
}

// accept forgets what the accepted attempt sent, in case a discarded one had
// sent the same, and remembers which response the client's id stands for.
func (h *history) accept(ctx context.Context, traces []ledger.Key, client, upstream string) {
	alias := client != "" && upstream != "" && client != upstream
	if !alias && h.nothingKnown() {
		return // as it is for a process that has not seen a loop
	}
	gone := slices.Clone(traces)
	entries := make(map[ledger.Key]string)
	if alias {
		entries[ledger.Alias(client)] = upstream
	} else if client != "" {
		gone = append(gone, ledger.Alias(client))
	}
	if len(entries) > 0 || len(gone) > 0 {
		h.write(ctx, entries, gone)
	}
	h.settle()
}

// namesMissing reports whether an answer to the client's own request says that
// the upstream does not know an item of its input, and drops that item.
func (x *exchange) namesMissing(a *attempt) bool {
	status := a.resp.StatusCode
	if a.amended || x.missing == maxMissing || status != http.StatusBadRequest && status != http.StatusNotFound {
		return false
	}
	if !recovery.ValidJSON(x.req.body) {
		return false
	}
	items := recovery.ReturnedItems(x.req.body)
	if len(items) == 0 || x.peek(a) != nil {
		return false
	}
	items = slices.DeleteFunc(items, func(item recovery.Returned) bool { return !names(string(a.said), item.ID) })
	if len(items) == 0 {
		return false
	}
	x.missing++
	x.req.body, x.req.changed, x.req.wire = recovery.Drop(x.req.body, items), true, ""
	x.p.cfg.Metrics.ScrubbedItems.WithLabelValues("missing_upstream").Add(float64(len(items)))
	return true
}

// names reports whether text holds id, and not only as a part of a longer one.
func names(text, id string) bool {
	for id != "" {
		before, after, ok := strings.Cut(text, id)
		if !ok {
			return false
		}
		if !endsInID(before) && !startsWithID(after) {
			return true
		}
		text = after
	}
	return false
}

const idCharacters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"

func endsInID(s string) bool     { return s != "" && strings.IndexByte(idCharacters, s[len(s)-1]) >= 0 }
func startsWithID(s string) bool { return s != "" && strings.IndexByte(idCharacters, s[0]) >= 0 }

package proxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doomproxy/doomproxy/ledger"
	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// sealedLoop finishes one item, with text of its own, before it loops.
func sealedLoop(kind string) simulate.Scenario {
	sc := loop()
	sc.Reasoning, sc.ReasoningItems = kind, 2
	return sc
}

// doneItems returns the finished items of a stream that are no tombstones.
func doneItems(t *testing.T, raw string) []map[string]any {
	t.Helper()
	var items []map[string]any
	for _, e := range events(t, raw) {
		if e.typ() == "response.output_item.done" && !strings.Contains(e.raw, "tombstone") {
			items = append(items, e.data["item"].(map[string]any))
		}
	}
	return items
}

// However a client keeps an item of a discarded attempt, it does not go back
// upstream; those of accepted ones do.
func TestDiscardedItemsDoNotComeBack(t *testing.T) {
	reference := func(it map[string]any) any { return map[string]any{"type": "item_reference", "id": it["id"]} }
	only := func(keys ...string) func(map[string]any) any {
		return func(it map[string]any) any {
			kept := map[string]any{"type": "reasoning"}
			for _, k := range keys {
				kept[k] = it[k]
			}
			return kept
		}
	}
	for _, tc := range []struct {
		name, kind, reason string
		send               func(map[string]any) any
	}{
		{"whole", simulate.ReasoningSummary, "id", only("id", "summary", "encrypted_content")},
		{"reference", simulate.ReasoningSummary, "id", reference},
		{"without its id", simulate.ReasoningSummary, "hash", only("summary", "encrypted_content")},
		{"summary alone", simulate.ReasoningSummary, "text", only("summary")},
		{"raw text alone", simulate.ReasoningRaw, "text", only("content")},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, nil, sealedLoop(tc.kind), simulate.Scenario{Reasoning: tc.kind, Message: "fine"}, simulate.Scenario{})
			items := doneItems(t, r.answer(streamBody))
			if len(items) != 3 {
				t.Fatalf("got %d finished items, want the discarded one, and reasoning and message of the answer", len(items))
			}
			body := func(items ...any) string {
				list, err := json.Marshal(items)
				if err != nil {
					t.Fatal(err)
				}
				return `{ "stream" : true, "input":` + string(list) + `}`
			}
			user := map[string]any{"role": "user", "content": "go on"}
			r.answer(body(tc.send(items[0]), tc.send(items[1]), user))
			if got, want := string(r.upstream(2).Body), body(tc.send(items[1]), user); got != want {
				t.Errorf("got %s upstream, want %s", got, want)
			}
			r.answer(body(tc.send(items[1]), user))
			if got, want := string(r.upstream(3).Body), body(tc.send(items[1]), user); got != want {
				t.Errorf("got %s upstream, want it unchanged: %s", got, want)
			}
			r.settled(3)
			r.wantMetric(1, "doomproxy_scrubbed_items_total", "reason", tc.reason)
			r.wantMetric(1, "doomproxy_scrubbed_items_total")
		})
	}
}

// An item that an accepted attempt sends is no discarded one any more.
func TestAcceptedItemsAreTakenOff(t *testing.T) {
	a := sealedLoop(simulate.ReasoningSummary)
	r := newRig(t, nil, a, simulate.Scenario{}, simulate.Scenario{Frames: acceptedCopy(a)}, simulate.Scenario{})
	items := doneItems(t, r.answer(streamBody))
	r.answer(streamBody) // sends the same item again, and is accepted
	item, err := json.Marshal(items[0])
	if err != nil {
		t.Fatal(err)
	}
	body := `{"stream":true,"input":[` + string(item) + `]}`
	r.answer(body)
	if got := string(r.upstream(3).Body); got != body {
		t.Errorf("got %s upstream, want it unchanged", got)
	}
}

// acceptedCopy returns a stream that finishes what a began, without its loop.
func acceptedCopy(a simulate.Scenario) []string {
	all := a.Stream(0, []byte(streamBody))
	for i, f := range all {
		if strings.Contains(f, "event: response.output_item.done") {
			return append(all[:i+1:i+1], "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"id\":\"resp_x\",\"output\":[]}}\n\n")
		}
	}
	return nil
}

// The response id that the client saw stands for the accepted attempt's, in
// bodies and in paths.
func TestResponseIDsAreTranslated(t *testing.T) {
	r := newRig(t, nil, loop(), loop(), simulate.Scenario{Message: "fine"}, simulate.Scenario{})
	evs := events(t, r.answer(streamBody))
	seen, _ := evs[0].get("response", "id").(string)
	sent := events(t, string(r.upstream(2).Reply()))
	accepted, _ := sent[0].get("response", "id").(string)
	if seen == accepted || accepted == "" {
		t.Fatalf("got ids %q and %q, want two", seen, accepted)
	}
	for _, stream := range []string{"true", "false"} {
		n := len(r.sim.Requests())
		r.answer(`{"stream":` + stream + `, "previous_response_id" : "` + seen + `","input":"more"}`)
		got := string(r.upstream(n).Body)
		if want := `{"stream":true, "previous_response_id" : "` + accepted + `","input":"more"}`; got != want {
			t.Errorf("got %s upstream, want %s", got, want)
		}
	}
	for _, tc := range []struct{ method, path string }{
		{"GET", ""}, {"DELETE", ""}, {"POST", "/cancel"}, {"GET", "/input_items?limit=3"}, {"GET", "?stream=true&starting_after=4"},
	} {
		n := len(r.sim.Requests())
		for id, want := range map[string]string{seen: accepted, "resp_unknown": "resp_unknown"} {
			req, err := http.NewRequest(tc.method, r.url+"/v1/responses/"+id+tc.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			got := r.upstream(n)
			n++
			path, query, _ := strings.Cut(tc.path, "?")
			if got.Path != "/v1/responses/"+want+path || got.RawQuery != query {
				t.Errorf("%s %s: got %s?%s upstream", tc.method, tc.path, got.Path, got.RawQuery)
			}
		}
	}
}

// Two proxies that share a ledger take over each other's sessions.
func TestSharedLedger(t *testing.T) {
	shared := ledger.NewMemory(ledger.Options{})
	share := func(c *proxy.Config) { c.Ledger = shared }
	first := newRig(t, share, sealedLoop(simulate.ReasoningSummary), simulate.Scenario{})
	items := doneItems(t, first.answer(streamBody))
	second := newRig(t, share)
	second.answer(fmt.Sprintf(`{"stream":true,"input":[{"type":"item_reference","id":%q}]}`, items[0]["id"]))
	if got := string(second.upstream(0).Body); got != `{"stream":true,"input":[]}` {
		t.Errorf("got %s upstream", got)
	}
}

// An item that the upstream does not know is dropped, and the request sent
// again.
func TestMissingItems(t *testing.T) {
	missing := func(status int, id string) simulate.Scenario {
		return simulate.Scenario{Status: status, Body: fmt.Sprintf(`{"error":{"message":"Item with id '%s' not found."}}`, id)}
	}
	const item = `{"type":"item_reference","id":"rs_%d"}`
	list := func(ids ...int) string {
		var all []string
		for _, id := range ids {
			all = append(all, fmt.Sprintf(item, id))
		}
		return `{"stream":true,"input":[` + strings.Join(all, ",") + `]}`
	}
	t.Run("some", func(t *testing.T) {
		r := newRig(t, nil, missing(404, "rs_2"), missing(400, "rs_1"), simulate.Scenario{})
		r.answer(list(1, 2, 22), "Idempotency-Key", "k")
		r.wantRequests(3)
		if r.upstream(0).Header.Get("Idempotency-Key") != "k" || r.upstream(1).Header.Get("Idempotency-Key") != "" {
			t.Error("the key of the first request is to go with that one alone")
		}
		if got, want := string(r.upstream(2).Body), list(22); got != want {
			t.Errorf("got %s upstream, want %s", got, want)
		}
		r.settled(1)
		r.wantMetric(2, "doomproxy_scrubbed_items_total", "reason", "missing_upstream")
		r.wantMetric(1, "doomproxy_requests_total", "outcome", "clean")
	})
	t.Run("not held", func(t *testing.T) {
		r := newRig(t, nil, missing(404, "rs_22"))
		resp, raw, err := r.stream(list(1, 2))
		if err != nil || resp.StatusCode != 404 || !strings.Contains(raw, "'rs_22' not found") {
			t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
		}
		r.wantRequests(1)
	})
	t.Run("more than the bound", func(t *testing.T) {
		r := newRig(t, nil)
		r.sim.Script = func(n int, _ *simulate.Request) simulate.Scenario { return missing(404, fmt.Sprintf("rs_%d", n)) }
		resp, raw, err := r.stream(list(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10))
		if err != nil || resp.StatusCode != 404 || !strings.Contains(raw, "'rs_8'") {
			t.Errorf("got %d, %s, %v", resp.StatusCode, raw, err)
		}
		r.wantRequests(9)
	})
}

// failing is a ledger that is away.
type failing struct{ ledger.Store }

var errAway = errors.New("away")

func (failing) Get(context.Context, []ledger.Key) (map[ledger.Key]string, error) { return nil, errAway }
func (failing) Set(context.Context, map[ledger.Key]string) error                 { return errAway }
func (failing) Delete(context.Context, []ledger.Key) error                       { return errAway }

// stuck is a ledger that answers nothing in time.
type stuck struct{ ledger.Store }

func (stuck) Get(ctx context.Context, _ []ledger.Key) (map[ledger.Key]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuck) Set(ctx context.Context, _ map[ledger.Key]string) error {
	<-ctx.Done()
	return ctx.Err()
}

func (stuck) Delete(ctx context.Context, _ []ledger.Key) error {
	<-ctx.Done()
	return ctx.Err()
}

// A ledger that fails stops nobody. It is counted and logged.
func TestLedgerFails(t *testing.T) {
	for name, store := range map[string]ledger.Store{"away": failing{}, "stuck": stuck{}} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			r := newRig(t, func(c *proxy.Config) { c.Ledger, c.LedgerName = store, "redis" }, sealedLoop(simulate.ReasoningSummary), simulate.Scenario{})
			raw := r.answer(`{"stream":true,"previous_response_id":"resp_1","input":[{"type":"item_reference","id":"rs_0123456789abcdef"}]}`)
			if err := checkI3(raw, events(t, raw)); err != nil {
				t.Error(err)
			}
			// One look-up and one wait at the end, of 100 ms each, and a write that
			// is given up after a second behind the answer.
			if took := time.Since(start); took > time.Second {
				t.Errorf("the client waited for %v", took)
			}
			r.settled(1)
			if got := r.metric("doomproxy_ledger_errors_total", "store", "redis"); got < 1 {
				t.Errorf("got %v errors counted", got)
			}
			if log := r.log.String(); strings.Count(log, `"msg":"ledger"`) != 1 {
				t.Errorf("got no or many records of the ledger: %s", log)
			}
		})
	}
}

// slow is a ledger that is durable a moment after something else.
type slow struct {
	ledger.Store
	after   chan struct{}
	durable atomic.Bool
}

func (s *slow) Set(ctx context.Context, entries map[ledger.Key]string) error {
	<-s.after
	<-time.After(10 * time.Millisecond) // the disk
	defer s.durable.Store(true)
	return s.Store.Set(ctx, entries)
}

// What was discarded is remembered before the client has its answer: the next
// turn may follow at once.
func TestLedgerIsWrittenBeforeTheEnd(t *testing.T) {
	store := &slow{Store: ledger.NewMemory(ledger.Options{}), after: make(chan struct{})}
	last := len(simulate.Scenario{}.Stream(1, []byte(streamBody))) - 1
	b := simulate.Scenario{Before: func(write int) {
		if write == last {
			close(store.after)
		}
	}}
	r := newRig(t, func(c *proxy.Config) { c.Ledger = store }, sealedLoop(simulate.ReasoningSummary), b)
	resp, err := r.post(t.Context(), streamBody)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	waitFor(resp.Body, "event: response.completed")
	if !store.durable.Load() {
		t.Error("the terminal event went out before the ledger was written")
	}
}

// counting is a ledger that counts the calls that change it.
type counting struct {
	*ledger.Memory
	changes atomic.Int64
}

func (c *counting) Set(ctx context.Context, entries map[ledger.Key]string) error {
	c.changes.Add(1)
	return c.Memory.Set(ctx, entries)
}

func (c *counting) Delete(ctx context.Context, keys []ledger.Key) error {
	c.changes.Add(1)
	return c.Memory.Delete(ctx, keys)
}

// Where no loop was seen there is nothing to forget: clean answers do not wait for a
// disk. Afterwards they may have sent what a discarded attempt had sent.
func TestLedgerIsLeftAloneUntilALoop(t *testing.T) {
	store := &counting{Memory: ledger.NewMemory(ledger.Options{})}
	clean := simulate.Scenario{}
	r := newRig(t, func(c *proxy.Config) { c.Ledger = store }, clean, clean, sealedLoop(simulate.ReasoningSummary), clean, clean)
	for range 2 {
		r.answer(streamBody)
	}
	r.settled(2)
	if n := store.changes.Load(); n != 0 {
		t.Errorf("the ledger was changed %d times before there was a loop", n)
	}
	r.answer(streamBody)
	r.settled(3)
	after := store.changes.Load()
	if after == 0 {
		t.Error("the ledger was not changed with the loop")
	}
	r.answer(streamBody)
	r.settled(4)
	if store.changes.Load() == after {
		t.Error("an answer behind the loop forgets nothing")
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
	"github.com/tidwall/gjson"
)

// event is a frame and what it says.
type event struct {
	at      time.Time
	typ     string
	class   recovery.Class
	data    gjson.Result
	comment string // of a frame without data
}

func parse(f frame) event {
	ev := new(recovery.Parser).Parse(sseframe.Frame{Raw: f.raw})
	if ev.Class == recovery.ClassNone {
		return event{at: f.at, class: ev.Class, comment: strings.TrimSpace(string(f.raw))}
	}
	return event{at: f.at, typ: ev.Type, class: ev.Class, data: gjson.Parse(ev.Data)}
}

// text is what the event adds to a text of the model's.
func (ev event) text() string { return ev.data.Get("delta").Str }

// story tells a demo while it plays, and keeps what has to be checked.
type story struct {
	*account
	plan plan
	*stage

	client   *client
	attempts []*attempt
	labels   []string  // reported by the first attempt
	reported time.Time // when it last reported
	deltas   int       // of the first attempt
	answer   answer
	counters counters
}

// tell plays the demo and returns what of it did not happen as it should.
func tell(ctx context.Context, acc *account, p plan, st *stage) (missing []string) {
	s := &story{account: acc, plan: p, stage: st}
	acc.start = time.Now()
	acc.printf("%s\n", acc.paint.heading("A doom loop, and what doomproxy makes of it"))
	acc.fact("upstream", st.upstream+"  (simulated)")
	acc.fact("proxy", st.proxy)
	acc.fact("admin", st.admin)
	acc.fact("client", quote(p.question, width-len(indent)-gutter))

	question, _ := json.Marshal(p.question) //nolint:errchkjson // a string always marshals
	s.client = ask(ctx, st.proxy, `{"model":"demo","stream":true,"input":`+string(question)+`}`)
	s.upstreamLoops(ctx)
	s.proxyCuts()
	s.secondRequest(ctx)
	s.clientReads()
	s.countersTell(ctx)
	st.seen.over.Store(true)
	<-s.client.ended
	return s.missing()
}

// nextAttempt returns the next request that the upstream gets, or nil if there
// is none.
func (s *story) nextAttempt(ctx context.Context) *attempt {
	var a *attempt
	select {
	case a = <-s.seen.attempts:
	case <-ctx.Done():
	case <-s.client.ended:
		select {
		case a = <-s.seen.attempts:
		default:
		}
	}
	if a != nil {
		s.attempts = append(s.attempts, a)
	}
	return a
}

// upstreamLoops tells what the upstream sends first.
func (s *story) upstreamLoops(ctx context.Context) {
	s.step(1, "The upstream thinks, runs into a loop, and reports it")
	a := s.nextAttempt(ctx)
	if a == nil {
		s.fact("nothing", fmt.Sprintf("the upstream got no request (%v)", s.client.err))
		return
	}
	var row repeats
	for f := range a.frames {
		ev := parse(f)
		switch {
		case ev.class == recovery.ClassCheck:
			row.end(s)
			s.report(ev)
		case ev.class == recovery.ClassLifecycle || ev.class == recovery.ClassTerminal:
			row.end(s)
			s.event(ev.at, "response", strings.TrimPrefix(ev.typ, "response."))
		case ev.text() != "":
			s.deltas++
			kind := "text"
			if strings.Contains(ev.typ, "reasoning") {
				kind = "thinking"
			}
			row.add(s, ev.at, kind, ev.text())
		}
	}
	row.end(s)
}

// report tells of a check frame: what is new in it.
func (s *story) report(ev event) {
	for _, trigger := range ev.data.Get("doom_loop_check.triggers").Array() {
		label := trigger.Str
		if slices.Contains(s.labels, label) {
			continue
		}
		s.labels = append(s.labels, label)
		s.reported = ev.at
		comment, paint := s.weigh(label), s.paint.faint
		if s.policy.Confident(recovery.ParseLabel(label)) {
			paint = s.paint.bad
		}
		s.event(ev.at, "report", s.paint.loop(pad(label, 34))+paint(comment))
	}
}

// weigh says what a label means for the attempt.
func (s *story) weigh(label string) string {
	sig := recovery.ParseLabel(label)
	switch {
	case s.policy.Confident(sig):
		return fmt.Sprintf("confident: %d is within %d", sig.Threshold, s.policy.MaxThreshold)
	case sig.Kind != recovery.KindTailRepetition:
		return "a warning: this kind never cuts"
	case sig.Channel != "thinking":
		return "a warning: not in the thinking"
	default:
		return fmt.Sprintf("a warning: %d is looser than %d", sig.Threshold, s.policy.MaxThreshold)
	}
}

// repeats are equal deltas, one after the other.
type repeats struct {
	at         time.Time
	kind, text string
	n          int
}

func (r *repeats) add(s *story, at time.Time, kind, text string) {
	if r.n > 0 && r.kind == kind && r.text == text {
		r.n++
		return
	}
	r.end(s)
	*r = repeats{at, kind, text, 1}
}

// end writes them, if there are any.
func (r *repeats) end(s *story) {
	if r.n == 0 {
		return
	}
	times := ""
	if r.n > 1 {
		times = fmt.Sprintf(" × %d", r.n)
	}
	text := quote(strings.TrimSpace(r.text), width-len(indent)-gutter-column-len(times))
	if r.n > 1 {
		text = s.paint.loop(text + times)
	}
	s.event(r.at, r.kind, text)
	*r = repeats{}
}

// proxyCuts tells what the proxy did about it.
func (s *story) proxyCuts() {
	s.step(2, "The proxy cuts this attempt")
	var tightest recovery.Signal
	for _, label := range s.labels {
		sig := recovery.ParseLabel(label)
		if s.policy.Confident(sig) && (tightest.Label == "" || sig.Threshold < tightest.Threshold) {
			tightest = sig
		}
	}
	if len(s.attempts) == 0 || s.attempts[0].gone.IsZero() {
		s.fact("no cut", "the upstream could send its answer to the end")
		return
	}
	if tightest.Label != "" {
		s.fact("why", tightest.Label+" is confident: the thinking repeats itself")
		s.fact("in time", fmt.Sprintf("the client was sent thinking only so far, %d deltas: that can be taken back", s.deltas))
	}
	after := ""
	if !s.reported.IsZero() {
		after = fmt.Sprintf(" %.1f ms after it sent this report", s.attempts[0].gone.Sub(s.reported).Seconds()*1000)
	}
	s.fact("closed", "the upstream saw its connection closed"+after)
}

// secondRequest tells what the next attempt is told.
func (s *story) secondRequest(ctx context.Context) {
	s.step(3, "It asks again, and says what happened")
	b := s.nextAttempt(ctx)
	if b == nil {
		s.fact("nothing", "the upstream got no second request")
		return
	}
	first, second := gjson.GetBytes(s.attempts[0].Body, "input"), gjson.GetBytes(b.Body, "input")
	own := 1 // text becomes one message
	if first.IsArray() {
		own = len(first.Array())
	}
	items := second.Array()
	appended := items[min(own, len(items)):]
	s.fact("request 1", fmt.Sprintf("%d bytes: the client's own", len(s.attempts[0].Body)))
	s.fact("request 2", fmt.Sprintf("%d bytes: the same, and %d more items in its input", len(b.Body), len(appended)))
	for _, item := range appended {
		kind := item.Get("type").Str
		var text strings.Builder
		for _, part := range append(item.Get("summary").Array(), item.Get("content").Array()...) {
			text.WriteString(part.Get("text").Str)
		}
		size := fmt.Sprintf("%d bytes", len(item.Raw))
		if kind == "message" {
			s.fact("+ "+kind, size+", from the user:")
			s.fact("", `"`+text.String()+`"`)
			continue
		}
		s.fact("+ "+kind, size+": "+quote(text.String(), width-len(indent)-gutter-len(size)-2))
	}
}

// missing returns what did not happen as it should, the cause before its
// consequences.
func (s *story) missing() (missing []string) {
	check := func(ok bool, format string, args ...any) {
		if !ok {
			missing = append(missing, fmt.Sprintf(format, args...))
		}
	}
	confident := slices.ContainsFunc(s.labels, func(l string) bool { return s.policy.Confident(recovery.ParseLabel(l)) })
	check(confident, "the upstream reported no loop that may be cut")
	check(len(s.attempts) > 0 && !s.attempts[0].gone.IsZero(), "the first attempt was not cut")
	requests := len(s.attempts) + len(s.seen.attempts)
	check(requests == 2, "the upstream got %d requests, want 2", requests)
	check(s.client.err == nil, "the client's answer ended with an error: %v", s.client.err)
	a := &s.answer
	check(a.created == 1, "the client got response.created %d times, want once", a.created)
	check(a.completed == 1 && a.terminal == 1, "the client got response.completed %d times among %d terminal events, want one", a.completed, a.terminal)
	check(len(a.ids) == 1, "the client got %d response ids, want one", len(a.ids))
	check(a.ordered, "the client got sequence numbers out of order")
	check(a.checks == 0, "the client got %d reports, want none", a.checks)
	check(a.text.String() == s.plan.want, "the client got the text %q, want %q", a.text.String(), s.plan.want)
	recovered := s.counters.value("doomproxy_recoveries_total", `outcome="recovered"`)
	check(recovered == 1, "doomproxy_recoveries_total{outcome=\"recovered\"} is %v, want 1", recovered)
	return missing
}

package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// traced returns a change that records spans.
func traced() (func(*proxy.Config), *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(recorder))
	return func(c *proxy.Config) { retries(c); c.Tracer = provider.Tracer("test") }, recorder
}

func attributes(s sdktrace.ReadOnlySpan) map[string]string {
	all := map[string]string{}
	for _, kv := range s.Attributes() {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A request is a span below the client's, each attempt one below that; the
// upstream is told of the attempt's.
func TestTracing(t *testing.T) {
	change, recorder := traced()
	looping := loop()
	looping.Thinking, looping.Message = []string{"CANARY "}, "CANARY"
	r := newRig(t, change, looping, status(503), simulate.Scenario{Message: "CANARY"})
	r.answer(`{"model":"m-1","stream":true,"input":"CANARY"}`, "traceparent", parent, "Authorization", "CANARY")
	r.settled(1)
	spans := recorder.Ended()
	if len(spans) != 4 {
		t.Fatalf("got %d spans, want three attempts and the request", len(spans))
	}
	request := spans[3]
	if request.Name() != "chat m-1" || request.SpanKind() != trace.SpanKindServer ||
		request.Parent().SpanID().String() != "b7ad6b7169203331" || request.SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("got %s of %v", request.Name(), request.Parent())
	}
	got := attributes(request)
	for key, want := range map[string]string{
		"gen_ai.operation.name": "chat", "gen_ai.request.model": "m-1", "gen_ai.provider.name": "127.0.0.1",
		"doomproxy.outcome": "recovered", "doomproxy.attempts": "3", "doomproxy.cuts": "1", "doomproxy.retries": "1",
		"doomproxy.protection": "protected", "http.response.status_code": "200", "http.request.method": "POST",
	} {
		if got[key] != want {
			t.Errorf("got %s %q, want %q", key, got[key], want)
		}
	}
	if got["gen_ai.usage.output_tokens"] == "" || got["gen_ai.usage.output_tokens"] == "0" {
		t.Errorf("got %q output tokens", got["gen_ai.usage.output_tokens"])
	}
	var happened []string
	for _, e := range request.Events() {
		happened = append(happened, e.Name)
	}
	if want := "[doomproxy.signal doomproxy.cut doomproxy.resample doomproxy.retry]"; fmt.Sprint(happened) != want {
		t.Errorf("got events %v, want %s", happened, want)
	}
	for i, want := range []struct{ kind, result, status string }{{"first", "cut", "200"}, {"resample", "server", "503"}, {"retry", "accepted", "200"}} {
		s, got := spans[i], attributes(spans[i])
		if s.Parent().SpanID() != request.SpanContext().SpanID() || s.SpanKind() != trace.SpanKindClient ||
			got["doomproxy.attempt.kind"] != want.kind || got["doomproxy.attempt.result"] != want.result || got["http.response.status_code"] != want.status ||
			got["gen_ai.request.model"] != "m-1" || (s.Status().Code == codes.Error) != (want.result != "accepted") {
			t.Errorf("attempt %d: got %v below %v, want %v", i+1, got, s.Parent().SpanID(), want)
		}
		header := "00-" + request.SpanContext().TraceID().String() + "-" + s.SpanContext().SpanID().String() + "-01"
		if got := r.upstream(i).Header.Get("traceparent"); got != header {
			t.Errorf("attempt %d: the upstream got %q, want %q", i+1, got, header)
		}
	}
	if all := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(spans)); strings.Contains(all, "CANARY") {
		t.Errorf("the spans tell too much: %s", all)
	}
}

// What passes through is traced, too.
func TestTracingOfOtherRequests(t *testing.T) {
	change, recorder := traced()
	r := newRig(t, change)
	resp, err := client.Get(r.url + "/v1/models?key=CANARY")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body) //nolint:errcheck // the test looks at the spans
	resp.Body.Close()
	r.settled(1)
	spans := recorder.Ended()
	if len(spans) != 2 || spans[1].Name() != "GET request" || spans[0].Parent().SpanID() != spans[1].SpanContext().SpanID() {
		t.Fatalf("got %v", spans)
	}
	if got := r.upstream(0).Header.Get("traceparent"); !strings.Contains(got, spans[0].SpanContext().SpanID().String()) {
		t.Errorf("the upstream got %q", got)
	}
	if got := attributes(spans[1]); got["gen_ai.request.model"] != "" || got["doomproxy.protection"] != "passthrough" {
		t.Errorf("got %v", got)
	}
	r.stream(streamBody) //nolint:errcheck // likewise
	// A failure is one.
	change, recorder = traced()
	r = newRig(t, change, status(400))
	r.stream(streamBody) //nolint:errcheck // likewise
	r.settled(1)
	if s := recorder.Ended()[1]; s.Status().Code != codes.Error || attributes(s)["error.type"] != "upstream_error" {
		t.Errorf("got %v, %v", s.Status(), attributes(s))
	}
}

// Without a tracer the client's own header goes on as it is.
func TestTraceHeaderPassesOn(t *testing.T) {
	r := newRig(t, nil)
	for _, body := range []string{streamBody, "no JSON"} {
		if resp, _, err := r.stream(body, "traceparent", parent, "tracestate", "a=b"); err != nil || resp.StatusCode >= http.StatusInternalServerError {
			t.Errorf("got %d, %v", resp.StatusCode, err)
		}
	}
	for i := range 2 {
		if h := r.upstream(i).Header; h.Get("traceparent") != parent || h.Get("tracestate") != "a=b" {
			t.Errorf("got %v", h)
		}
	}
}

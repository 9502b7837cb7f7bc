package proxy

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// A request is one span, each of its attempts a child of it. Names of attributes
// are those of OpenTelemetry's conventions for generative AI and for HTTP, or
// begin with doomproxy. None holds anything that a user or a model wrote.

// propagator carries the trace from the client to the upstream (W3C Trace Context).
var propagator propagation.TraceContext

// noSpan is what stands for a span where nothing is traced. All of its methods
// do nothing.
var noSpan trace.Span = noop.Span{}

// trace begins the span of a request.
func (rec *record) trace(ctx context.Context, h http.Header) context.Context {
	tracer := rec.p.cfg.Tracer
	if tracer == nil {
		return ctx
	}
	ctx = propagator.Extract(ctx, propagation.HeaderCarrier(h))
	ctx, rec.span = tracer.Start(ctx, rec.method+" request", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", rec.method),
		attribute.String("doomproxy.request.id", rec.id),
		attribute.String("doomproxy.upstream", rec.p.cfg.UpstreamName),
	))
	return ctx
}

// traceClassified takes down what the request is about.
func (rec *record) traceClassified(req *request) {
	if !rec.span.IsRecording() {
		return
	}
	rec.span.SetAttributes(attribute.String("doomproxy.protection", string(rec.protection)))
	if req.responses {
		rec.generation = []attribute.KeyValue{
			attribute.String("gen_ai.operation.name", "chat"),
			attribute.String("gen_ai.provider.name", provider(rec.p.cfg.Upstream.Hostname())),
			attribute.String("gen_ai.request.model", rec.model),
		}
		rec.span.SetName("chat " + rec.model)
		rec.span.SetAttributes(rec.generation...)
	}
}

// traceEnd ends the span of the request.
func (rec *record) traceEnd(status int) {
	if !rec.span.IsRecording() {
		return
	}
	o := rec.outcome.String()
	rec.span.SetAttributes(
		attribute.String("doomproxy.outcome", o),
		attribute.Int("doomproxy.attempts", rec.attempts),
		attribute.Int("doomproxy.cuts", rec.cuts),
		attribute.Int("doomproxy.retries", rec.retries),
		attribute.Int("http.response.status_code", status),
	)
	switch rec.outcome {
	case outcomeClientGone, outcomeCancelled, outcomeGaveUp, outcomeUpstreamError:
		rec.span.SetAttributes(attribute.String("error.type", o))
		rec.span.SetStatus(codes.Error, o)
	default:
	}
	rec.span.End()
}

// event adds what happened to the request's span.
func (rec *record) event(name string, attributes ...attribute.KeyValue) {
	rec.span.AddEvent(name, trace.WithAttributes(attributes...))
}

// traceAttempt begins the span of an attempt.
func (rec *record) traceAttempt(ctx context.Context, kind string) (context.Context, trace.Span) {
	if !rec.span.IsRecording() {
		return ctx, noSpan
	}
	u := rec.p.cfg.Upstream
	return rec.p.cfg.Tracer.Start(ctx, kind+" attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(rec.generation...), trace.WithAttributes(
			attribute.String("server.address", u.Hostname()),
			attribute.String("doomproxy.attempt.kind", kind),
			attribute.Int("doomproxy.attempt.number", rec.attempts),
		))
}

// inject names the span of ctx to the upstream, if there is one of ours.
func (rec *record) inject(ctx context.Context, h http.Header) {
	if rec.span.IsRecording() {
		propagator.Inject(ctx, propagation.HeaderCarrier(h))
	}
}

// traceEnd ends the span of the attempt.
func (a *attempt) traceEnd(result string) {
	if !a.span.IsRecording() {
		return
	}
	a.span.SetAttributes(attribute.String("doomproxy.attempt.result", result), attribute.Int64("doomproxy.attempt.bytes", a.bytes))
	if a.resp != nil {
		a.span.SetAttributes(attribute.Int("http.response.status_code", a.resp.StatusCode))
	}
	if result != verdictAccepted.String() {
		a.span.SetAttributes(attribute.String("error.type", result))
		a.span.SetStatus(codes.Error, result)
	}
	a.span.End()
}

// provider names who makes the models behind a host, as far as the conventions
// have a name.
func provider(host string) string {
	host = strings.ToLower(host)
	for suffix, name := range map[string]string{
		"openai.com": "openai", "chatgpt.com": "openai", "x.ai": "x_ai", "azure.com": "azure.ai.openai",
		"mistral.ai": "mistral_ai", "groq.com": "groq", "deepseek.com": "deepseek", "perplexity.ai": "perplexity",
	} {
		if host == suffix || strings.HasSuffix(host, "."+suffix) {
			return name
		}
	}
	return host
}

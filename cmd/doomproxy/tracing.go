package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Variables that turn tracing on. What else there is, such as
// OTEL_TRACES_SAMPLER or OTEL_SERVICE_NAME, OpenTelemetry reads by itself.
const (
	otlpEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	otlpTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

// traceFlush is how long the last spans may take on their way out.
const traceFlush = 2 * time.Second

// startTracing returns what makes spans, nil if the environment names no place to
// send them to, and what sends the last ones.
func (a *app) startTracing(ctx context.Context, log *slog.Logger) (tracer trace.Tracer, stop func(), err error) {
	if a.getenv(otlpEndpoint) == "" && a.getenv(otlpTracesEndpoint) == "" {
		return nil, func() {}, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", otlpEndpoint, err)
	}
	b := newBuild()
	res, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "doomproxy"), attribute.String("service.version", b.version)),
		resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err != nil {
		return nil, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("tracing", "error", err)
	}))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(res))
	return provider.Tracer("github.com/doomproxy/doomproxy/proxy"), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceFlush)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("tracing", "error", err)
		}
	}, nil
}

package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

// passThrough forwards a request that is not protected, and its answer as it
// comes. The signals of event streams are counted: what the detector finds, and
// of a deferred one what the upstream reports.
func (p *Proxy) passThrough(w http.ResponseWriter, r *http.Request, rec *record, req *request) {
	rec.begins()
	ctx, span := rec.traceAttempt(r.Context(), kindFirst)
	defer span.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var silence *watchdog
	var sent *outgoing
	defer func() {
		if silence != nil {
			silence.stop()
		}
		if sent != nil {
			sent.Close() //nolint:errcheck // it has none; the transport may take its time
		}
	}()
	w.Header().Del(headerRequestID) // it comes with the answer: informational ones before would lose it
	rp := httputil.ReverseProxy{
		Transport:     p.cfg.Transport,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // told to rec instead
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.Out.URL = target(p.cfg.Upstream, req.url)
			pr.Out.Host = ""
			removeOwn(pr.Out.Header)
			rec.inject(ctx, pr.Out.Header)
			if req.read {
				pr.Out.Header.Del("Expect") // the body is here already
			}
			if req.read {
				body, encoded := req.first()
				if !encoded {
					pr.Out.Header.Del("Content-Encoding")
				}
				if req.changed {
					removeDigests(pr.Out.Header)
				}
				sent = newOutgoing(body, &p.state.memory)
				pr.Out.Body = sent.reader()
				pr.Out.ContentLength = int64(len(body))
				pr.Out.TransferEncoding = nil
				req.release() // it is sent once
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			if resp.StatusCode < http.StatusOK && resp.StatusCode != http.StatusSwitchingProtocols {
				return errNoAnswer
			}
			if isEventStream(resp.Header) {
				silence = watch(resp.Body, p.cfg.Silence, cancel)
				resp.Body = silence
			}
			p.passing(rec, req, resp)
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			rec.end(outcomeUpstreamError, fmt.Errorf("send upstream: %w", err))
			if r.Context().Err() != nil {
				rec.gone(w, r)
			}
			status, code := upstreamStatus(err)
			rec.sendError(w, status, errorTypeOwn, code, "the upstream could not be reached")
		},
	}
	if !req.read {
		r.Body = p.patient(w, r.Body)
		// Or net/http, at the first byte of the answer, closes a body that the
		// transport may still have to read to its end, and the transport then
		// closes the connection that the answer comes from.
		http.NewResponseController(w).EnableFullDuplex() //nolint:errcheck // HTTP/2 has no such rule
	}
	broke := true
	defer func() {
		if broke { // ReverseProxy panics when one of the two sides broke off
			rec.end(outcomeUpstreamError, errBroke)
			if r.Context().Err() != nil {
				rec.gone(w, r)
			}
			abort(w, r)
		}
	}()
	rp.ServeHTTP(w, r.WithContext(ctx))
	broke = false
	if !req.read {
		// Or net/http reads what is left of it when it no longer expects that,
		// and panics (at least up to Go 1.26).
		r.Body.Close()
	}
}

var errBroke = errors.New("the answer broke off")

// passing takes down the upstream's answer to a request that passes through.
func (p *Proxy) passing(rec *record, req *request, resp *http.Response) {
	rec.answered(resp)
	rec.sent(resp.StatusCode)
	removeOwn(resp.Header)
	resp.Header.Set(headerRequestID, rec.id)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return // its body is a connection
	}
	if resp.StatusCode >= http.StatusBadRequest {
		rec.end(outcomeUpstreamError, nil)
	}
	rec.enter(phaseVisible)
	body := resp.Body
	if isEventStream(resp.Header) {
		resp.Header.Set("X-Accel-Buffering", "no")
		if (rec.protection == deferred || req.detector != ModeOff) && isPlain(resp.Header) {
			body = p.watch(rec, req.detector, resp.Body)
		}
	}
	resp.Body = &countingBody{ReadCloser: body, rec: rec}
}

// countingBody counts what the client is sent.
type countingBody struct {
	io.ReadCloser
	rec *record
}

func (b *countingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.rec.bytes += int64(n)
	b.rec.pace.extend()
	return n, err //nolint:wrapcheck // io.EOF must stay bare
}

// watchedStream is an event stream that passes as it comes. Beside that its
// frames are looked into, and signals counted.
type watchedStream struct {
	io.ReadCloser
	rec       *record
	detector  Mode
	in        *incoming // nil from a frame on that is too long to look into
	collector recovery.Collector
	detection Detection
}

func (p *Proxy) watch(rec *record, detector Mode, body io.ReadCloser) *watchedStream {
	s := &watchedStream{ReadCloser: body, rec: rec, detector: detector, in: newIncoming(nil, p.cfg.MaxFrame)}
	s.detection.Foreign, s.detection.Channels = true, p.cfg.Detector.Channels
	return s
}

// Close implements io.Closer.
func (s *watchedStream) Close() error {
	known := len(s.collector.Signals())
	s.rec.listen(s.detection.End(), &s.collector)
	s.count(known)
	s.detection.Close()
	s.blind()
	return s.ReadCloser.Close() //nolint:wrapcheck // ReverseProxy does nothing with it
}

// count counts the signals but for those that were known.
func (s *watchedStream) count(known int) {
	for _, sig := range s.collector.Signals()[known:] {
		s.rec.signal(sig, s.rec.p.cfg.Policy.Confident(sig))
	}
}

// blind ends the look into frames.
func (s *watchedStream) blind() {
	if s.in != nil {
		s.in.release()
		s.in = nil
	}
}

// Read implements io.Reader.
func (s *watchedStream) Read(b []byte) (int, error) {
	n, err := s.ReadCloser.Read(b)
	if s.in == nil {
		return n, err //nolint:wrapcheck // io.EOF must stay bare
	}
	s.in.scanner.Push(b[:n])
	var frames int64
	for s.in != nil && s.in.scanner.Buffered() {
		frame, err := s.in.scanner.Next()
		if err != nil {
			s.rec.oversized()
			s.blind()
			break
		}
		s.look(frame)
		s.rec.frames[recovery.Forwarded]++
		frames++
	}
	s.rec.live.frames.Add(frames)
	return n, err //nolint:wrapcheck // io.EOF must stay bare
}

// look counts what a frame tells of loops.
func (s *watchedStream) look(frame sseframe.Frame) {
	ev := s.in.parser.Parse(frame)
	known, malformed := len(s.collector.Signals()), s.collector.Malformed()
	if s.rec.protection == deferred {
		s.collector.Absorb(ev)
	}
	if s.detector != ModeOff {
		s.rec.listen(s.detection.Watch(ev), &s.collector)
	}
	s.count(known)
	s.rec.p.cfg.Metrics.MalformedChecks.Add(float64(s.collector.Malformed() - malformed))
}

// oversized takes down that a frame was beyond the bound.
func (rec *record) oversized() {
	rec.p.cfg.Metrics.OversizedFrames.Inc()
	rec.p.cfg.Metrics.Unprotected.WithLabelValues(reasonOversized).Inc()
}

// answered takes down the headers of an attempt's answer.
func (rec *record) answered(resp *http.Response) {
	id := resp.Header.Get("X-Request-Id")
	rec.upstreamRequestID = recovery.SanitizeLabel(id[:min(len(id), 128)])
}

// isEventStream reports whether an answer says that it is one.
func isEventStream(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	return mediaType == "text/event-stream" && (err == nil || errors.Is(err, mime.ErrInvalidMediaParameter))
}

// mayBeStream reports whether an answer to a request for an event stream may be
// one, although it does not say so: its type is none, or what servers call what
// they know nothing of.
func mayBeStream(h http.Header) bool {
	mediaType, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return mediaType == "" || mediaType == "text/plain" || mediaType == "application/octet-stream"
}

// isPlain reports whether an answer is not compressed.
func isPlain(h http.Header) bool {
	encoding := h.Get("Content-Encoding")
	return encoding == "" || strings.EqualFold(encoding, "identity")
}

// upstreamStatus returns the status and code a client is told for an upstream
// that gave no answer, or none that is whole.
func upstreamStatus(err error) (status int, code string) {
	var timeout interface{ Timeout() bool }
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return http.StatusGatewayTimeout, "upstream_timeout"
	}
	switch {
	case errors.Is(err, errSilent):
		return http.StatusGatewayTimeout, "upstream_timeout"
	case errors.Is(err, errUnfinished):
		return http.StatusBadGateway, "upstream_broke_off"
	case errors.Is(err, errNoStream):
		return http.StatusBadGateway, "upstream_no_stream"
	}
	return http.StatusBadGateway, "upstream_unreachable"
}

// errNoAnswer is an answer whose status says that it is none.
var errNoAnswer = errors.New("the upstream's status is no final one")

// rejectBody answers a request whose body could not be taken in.
func (p *Proxy) rejectBody(w http.ResponseWriter, r *http.Request, rec *record, err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		rec.reject(w, http.StatusRequestTimeout, "request_timeout",
			fmt.Sprintf("nothing came of the request body for %s", p.cfg.ClientTimeout))
		return
	}
	if r.Context().Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) {
		rec.gone(w, r)
	}
	if errors.Is(err, errBodyTooLarge) {
		rec.reject(w, http.StatusRequestEntityTooLarge, "request_too_large",
			fmt.Sprintf("the request body is larger than the limit of %d bytes", p.cfg.MaxBody))
		return
	}
	rec.reject(w, http.StatusBadRequest, "unreadable_body", "the request body could not be read")
}

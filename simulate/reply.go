package simulate

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// reply sends the answer to one POST.
type reply struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	req *Request
	sc  *Scenario
	gen *generator

	writes int
}

// stream sends the scenario as server-sent events.
func (p *reply) stream(ctx context.Context) error {
	h := p.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
	}
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-cache")
	}
	p.w.WriteHeader(http.StatusOK)
	if p.sc.Before != nil {
		// Whoever waits in Before may be waiting for these.
		if err := p.rc.Flush(); err != nil {
			return err
		}
	}

	// One piece is held back, because with the last one the reply is complete:
	// a client that leaves once it has read that is not Gone. (If the stream is
	// to hang then, end sees it leave.)
	var held string
	for piece := range p.pieces() {
		if held != "" {
			if err := p.write(ctx, held); err != nil {
				return err
			}
		}
		held = piece
	}
	if held != "" {
		if err := p.pause(ctx); err != nil {
			return err
		}
		p.req.settle()
		if err := p.put(held); err != nil {
			return err
		}
	} else if err := p.rc.Flush(); err != nil {
		return err
	}
	return p.end(ctx)
}

// pieces gives what is written and flushed in one go, never an empty one.
func (p *reply) pieces() iter.Seq[string] {
	return func(yield func(string) bool) {
		if p.sc.Split == nil {
			for frame := range p.gen.run {
				if frame != "" && !yield(frame) {
					return
				}
			}
			return
		}
		var all bytes.Buffer
		for frame := range p.gen.run {
			all.WriteString(frame)
		}
		for _, piece := range p.sc.Split(all.Bytes()) {
			if len(piece) > 0 && !yield(string(piece)) {
				return
			}
		}
	}
}

// write sends one piece when its time has come.
func (p *reply) write(ctx context.Context, piece string) error {
	if err := p.pause(ctx); err != nil {
		return err
	}
	return p.put(piece)
}

// pause waits until the next piece is due.
func (p *reply) pause(ctx context.Context) error {
	if p.writes > 0 {
		if err := p.sleep(ctx); err != nil {
			return err
		}
	}
	if p.sc.Before != nil {
		p.sc.Before(p.writes)
	}
	if ctx.Err() != nil {
		return errGone
	}
	return nil
}

func (p *reply) put(piece string) error {
	p.req.wrote(piece)
	p.writes++
	if _, err := io.WriteString(p.w, piece); err != nil {
		return err
	}
	return p.rc.Flush()
}

// sleep waits for the scenario's delay, or until the client goes.
func (p *reply) sleep(ctx context.Context) error {
	if p.sc.Delay == 0 {
		return nil
	}
	t := time.NewTimer(p.sc.Delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return errGone
	}
}

// end ends the reply the way the scenario says.
func (p *reply) end(ctx context.Context) error {
	switch {
	case p.sc.End == EndHang || p.gen.hang:
		<-ctx.Done()
		return errGone
	case p.sc.End == EndAbort:
		return errDrop
	default:
		return nil
	}
}

// plain sends the same response as one JSON object, after the time that the
// stream would have taken. Where the stream has no terminal event there is no
// object either, and the connection is dropped.
func (p *reply) plain(ctx context.Context) error {
	var final []byte
	first := true
	for frame := range p.gen.run {
		if !first {
			if err := p.sleep(ctx); err != nil {
				return err
			}
		}
		first = false
		if ctx.Err() != nil {
			return errGone
		}
		if p.sc.Frames != nil {
			if r := terminalResponse(frame); r != nil {
				final = r
			}
		}
	}
	if err := p.end(ctx); err != nil {
		return err
	}
	if r := p.gen.final; r != nil {
		final = encode(r)
	}
	if final == nil && p.gen.failed {
		return writeError(p.w, p.req, http.StatusInternalServerError, p.sc.Failure.plain())
	}
	if final == nil {
		return errDrop
	}
	return writeBody(p.w, p.req, http.StatusOK, final)
}

// terminalResponse takes the response object out of a raw frame, if the frame
// holds a terminal event.
func terminalResponse(frame string) json.RawMessage {
	lines := strings.FieldsFunc(frame, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, line := range lines {
		data, ok := strings.CutPrefix(line, "data:")
		if !ok || !gjson.Valid(data) {
			continue
		}
		switch gjson.Get(data, "type").Str {
		case "response.completed", "response.incomplete", "response.failed":
			if r := gjson.Get(data, "response"); r.IsObject() {
				return json.RawMessage(r.Raw)
			}
		}
	}
	return nil
}

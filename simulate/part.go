package simulate

import "strings"

// partWriter sends one part of an item.
type partWriter struct {
	g      *generator
	kind   string // the part's type
	base   event  // item and index
	events partEvents
	text   strings.Builder
}

type partEvents struct{ added, delta, done, partDone string }

func (g *generator) openPart(kind, itemID string, outputIndex, partIndex int) *partWriter {
	p := &partWriter{
		g: g, kind: kind,
		base: event{ItemID: itemID, OutputIndex: &outputIndex, ContentIndex: &partIndex},
		events: partEvents{
			added:    "response.content_part.added",
			delta:    "response." + kind + ".delta",
			done:     "response." + kind + ".done",
			partDone: "response.content_part.done",
		},
	}
	if kind == "summary_text" {
		p.base.ContentIndex, p.base.SummaryIndex = nil, &partIndex
		p.events = partEvents{
			added:    "response.reasoning_summary_part.added",
			delta:    "response.reasoning_summary_text.delta",
			done:     "response.reasoning_summary_text.done",
			partDone: "response.reasoning_summary_part.done",
		}
	}
	e := p.event(p.events.added)
	e.Part = p.part("")
	g.emit(e)
	return p
}

func (p *partWriter) event(name string) event {
	e := p.base
	e.Type = name
	return e
}

func (p *partWriter) part(text string) any {
	if p.kind == "output_text" {
		return newOutputPart(text)
	}
	return textPart{Type: p.kind, Text: text}
}

func (p *partWriter) delta(text string) {
	p.text.WriteString(text)
	e := p.event(p.events.delta)
	e.Delta, e.Logprobs = &text, p.logprobs()
	p.g.emit(e)
}

func (p *partWriter) close() {
	text := p.text.String()
	e := p.event(p.events.done)
	e.Text, e.Logprobs = &text, p.logprobs()
	p.g.emit(e)
	e = p.event(p.events.partDone)
	e.Part = p.part(text)
	p.g.emit(e)
}

// logprobs is the empty list that only the events of output text carry.
func (p *partWriter) logprobs() *[]float64 {
	if p.kind != "output_text" {
		return nil
	}
	return &[]float64{}
}

func newOutputPart(text string) outputPart {
	return outputPart{Type: "output_text", Annotations: []any{}, Logprobs: []float64{}, Text: text}
}

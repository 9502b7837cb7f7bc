package main

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

const (
	// frameLen is the length of a delta in bytes, with a sequence number of four
	// digits: what deltas of the real API are like.
	frameLen = 215
	// stampLen is the length of a time in Unix nanoseconds, until the year 2286.
	stampLen = 19
	// marker stands in front of the time at which a frame was sent. It is the member
	// that APIs pad events with, so that a detector does not read it.
	marker = `"obfuscation":"`
	// poolLen is how many deltas there are. Their text is more than a detector
	// remembers; a stream begins anew before it has been round three times.
	poolLen = 8192
)

// event is one of a stream but for its sequence number, which stands between head
// and tail, and for the stamp, which ends deltas.
type event struct {
	head, tail string
	stamped    bool
}

func (e *event) append(dst []byte, number int, stamp []byte) []byte {
	dst = append(dst, e.head...)
	dst = strconv.AppendInt(dst, int64(number), 10)
	dst = append(dst, e.tail...)
	if e.stamped {
		dst = append(dst, stamp...)
		dst = append(dst, "\"}\n\n"...)
	}
	return dst
}

func newEvent(kind, members string) event {
	return event{
		head: "event: " + kind + "\ndata: {\"type\":\"" + kind + "\",\"sequence_number\":",
		tail: "," + members + "}\n\n",
	}
}

// frames are the events that streams are made of. The items hold no text of their
// own when they are done, as they would with an API: a stream of any length has the
// same end.
type frames struct {
	created, thought, thoughtDone, message, messageDone, completed, check event
	thoughts, texts                                                       []event // deltas
	textLen                                                               int     // of a delta, in bytes
}

func newFrames() *frames {
	const (
		thought   = `{"id":"rs_1","type":"reasoning","summary":[]}`
		message   = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"…","annotations":[]}]}`
		response  = `"response":{"id":"resp_0123456789abcdef","object":"response","created_at":1700000000,"model":"m",`
		itemAdded = "response.output_item.added"
		itemDone  = "response.output_item.done"
	)
	f := &frames{
		created:     newEvent("response.created", response+`"status":"in_progress","output":[]}`),
		thought:     newEvent(itemAdded, `"output_index":0,"item":`+thought),
		thoughtDone: newEvent(itemDone, `"output_index":0,"item":`+thought),
		message:     newEvent(itemAdded, `"output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`),
		messageDone: newEvent(itemDone, `"output_index":1,"item":`+message),
		completed:   newEvent("response.completed", response+`"status":"completed","output":[`+thought+`,`+message+`],"usage":{"input_tokens":9,"output_tokens":9,"total_tokens":18}}`),
		check:       newEvent("response.doom_loop_check", `"doom_loop_check":{"triggers":["tail_repetition:8@thinking"]}`),
	}
	words := newProse()
	f.thoughts = deltas("response.reasoning_text.delta", `"item_id":"rs_1","output_index":0`, words)
	f.texts = deltas("response.output_text.delta", `"item_id":"msg_1","output_index":1`, words)
	_, text, _ := strings.Cut(f.thoughts[0].tail, `"delta":"`)
	f.textLen = strings.IndexByte(text, '"')
	return f
}

// deltas makes a pool of them.
func deltas(kind, members string, words *prose) []event {
	all := make([]event, poolLen)
	e := newEvent(kind, members)
	for i := range all {
		head, tail := strings.TrimSuffix(e.tail, "}\n\n")+`,"delta":"`, `",`+marker
		rest := len("1234") + stampLen + len("\"}\n\n")
		all[i] = event{
			head:    e.head,
			tail:    head + words.next(frameLen-len(e.head)-len(head)-len(tail)-rest) + tail,
			stamped: true,
		}
	}
	return all
}

// prose is text in which no phrase returns, the same in each run.
type prose struct {
	rand  *rand.Rand
	words []string
	begun string // what the last piece left over
}

func newProse() *prose {
	p := &prose{rand: rand.New(rand.NewPCG(1, 2))} // #nosec G404 -- the same in each run
	for range 4000 {
		var word strings.Builder
		for range 1 + p.rand.IntN(4) {
			word.WriteByte("bcdfghklmnprstvw"[p.rand.IntN(16)])
			word.WriteByte("aeiou"[p.rand.IntN(5)])
		}
		p.words = append(p.words, word.String())
	}
	return p
}

// next returns the next n bytes. Some words are common and most are rare, as in
// all languages.
func (p *prose) next(n int) string {
	for len(p.begun) < n {
		u := p.rand.Float64()
		p.begun += p.words[int(u*u*u*float64(len(p.words)))] + " "
	}
	text := p.begun[:n]
	p.begun = p.begun[n:]
	return text
}

package recovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// client follows a stream as a strict client does, and reports what breaks its
// picture of it.
type client struct {
	t        *testing.T
	name     string
	sequence int
	id       any // of the response
	created  int
	terminal int
	items    map[string]*clientItem // by output index
	events   int
}

// clientItem is an output item; open holds what is open in it, outermost first.
type clientItem struct {
	open []string
	done bool
}

func newClient(t *testing.T, name string) *client {
	return &client{t: t, name: name, sequence: -1, items: make(map[string]*clientItem)}
}

func (c *client) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf(c.name+": "+format, args...)
}

// read takes in whole frames.
func (c *client) read(stream string) {
	c.t.Helper()
	for _, raw := range split(c.t, stream) {
		if e := decode(c.t, raw); e != nil {
			c.event(e)
		}
	}
}

func (c *client) event(e map[string]any) {
	c.t.Helper()
	c.events++
	if c.terminal > 0 {
		c.errorf("got %v behind the end", e)
	}
	if n, ok := e["sequence_number"]; ok {
		var got int
		fmt.Sscan(fmt.Sprint(n), &got) //nolint:errcheck // 0 is seen below
		if got <= c.sequence {
			c.errorf("got sequence number %d behind %d", got, c.sequence)
		}
		c.sequence = got
	}
	if r, ok := e["response"].(map[string]any); ok {
		if c.id != nil && r["id"] != c.id {
			c.errorf("got response id %v, want %v", r["id"], c.id)
		}
		c.id = r["id"]
	}
	typ := e["type"].(string)
	dot := strings.LastIndexByte(typ, '.')
	stem, verb := typ[:dot], typ[dot+1:]
	switch stem {
	case "response":
		switch verb {
		case "created":
			c.created++
		case "completed", "failed":
			c.terminal++
		}
	case "response.output_item":
		c.item(e, verb)
	default:
		c.part(e, stem, verb)
	}
}

func (c *client) item(e map[string]any, verb string) {
	c.t.Helper()
	index := fmt.Sprint(e["output_index"])
	it := c.items[index]
	switch {
	case verb == "added" && it != nil:
		c.errorf("got index %s opened twice: %v", index, e)
	case verb == "added":
		c.items[index] = new(clientItem)
	case it == nil || it.done || len(it.open) > 0:
		c.errorf("got %v, but the item is %+v", e, it)
	default:
		it.done = true
	}
}

// part takes in an event of a part, or of the text in it.
func (c *client) part(e map[string]any, stem, verb string) {
	c.t.Helper()
	it := c.items[fmt.Sprint(e["output_index"])]
	if it == nil || it.done {
		c.errorf("got %v, but the item is %+v", e, it)
		return
	}
	key := fmt.Sprint(stem, e["summary_index"], e["content_index"])
	open := slices.Index(it.open, key)
	switch verb {
	case "added", "delta":
		if open < 0 {
			it.open = append(it.open, key)
		}
	case "done":
		if open < 0 || open != len(it.open)-1 {
			c.errorf("got %v, but open is %q", e, it.open)
			return
		}
		it.open = it.open[:open]
	}
}

// openItems returns the number of items without an end.
func (c *client) openItems() int {
	n := 0
	for _, it := range c.items {
		if !it.done {
			n++
		}
	}
	return n
}

// The shapes of reasoning items, by the data of their events; %[1]d is the
// output index and %[2]s the id.
var shapes = map[string][]string{
	"summary": {
		`{"type":"response.output_item.added","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning","summary":[]}}`,
		`{"type":"response.reasoning_summary_part.added","item_id":"%[2]s","output_index":%[1]d,"summary_index":0,"part":{"type":"summary_text","text":""}}`,
		`{"type":"response.reasoning_summary_text.delta","item_id":"%[2]s","output_index":%[1]d,"summary_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_summary_text.delta","item_id":"%[2]s","output_index":%[1]d,"summary_index":0,"delta":"b"}`,
		`{"type":"response.reasoning_summary_text.done","item_id":"%[2]s","output_index":%[1]d,"summary_index":0,"text":"ab"}`,
		`{"type":"response.reasoning_summary_part.done","item_id":"%[2]s","output_index":%[1]d,"summary_index":0,"part":{"type":"summary_text","text":"ab"}}`,
		`{"type":"response.reasoning_summary_part.added","item_id":"%[2]s","output_index":%[1]d,"summary_index":1,"part":{"type":"summary_text","text":""}}`,
		`{"type":"response.reasoning_summary_text.delta","item_id":"%[2]s","output_index":%[1]d,"summary_index":1,"delta":"c"}`,
		`{"type":"response.reasoning_summary_text.done","item_id":"%[2]s","output_index":%[1]d,"summary_index":1,"text":"c"}`,
		`{"type":"response.reasoning_summary_part.done","item_id":"%[2]s","output_index":%[1]d,"summary_index":1,"part":{"type":"summary_text","text":"c"}}`,
		`{"type":"response.output_item.done","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning","summary":[{"type":"summary_text","text":"ab"}]}}`,
	},
	"raw text in content parts": {
		`{"type":"response.output_item.added","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning","summary":[]}}`,
		`{"type":"response.content_part.added","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"part":{"type":"reasoning_text","text":""}}`,
		`{"type":"response.reasoning_text.delta","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_text.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"text":"a"}`,
		`{"type":"response.content_part.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"part":{"type":"reasoning_text","text":"a"}}`,
		`{"type":"response.output_item.done","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"a"}]}}`,
	},
	"reasoning parts of other servers": {
		`{"type":"response.output_item.added","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning"}}`,
		`{"type":"response.reasoning_part.added","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"part":{"type":"reasoning_text","text":""}}`,
		`{"type":"response.reasoning_text.delta","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_text.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"text":"a"}`,
		`{"type":"response.reasoning_part.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"part":{"type":"reasoning_text","text":"a"}}`,
		`{"type":"response.output_item.done","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning"}}`,
	},
	"raw text without parts": {
		`{"type":"response.output_item.added","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning"}}`,
		`{"type":"response.reasoning_text.delta","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"delta":"a"}`,
		`{"type":"response.reasoning_text.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"text":"a"}`,
		`{"type":"response.output_item.done","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning"}}`,
	},
	"nothing told": {
		`{"type":"response.output_item.added","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning"}}`,
		`{"type":"response.output_item.done","output_index":%[1]d,"item":{"id":"%[2]s","type":"reasoning","encrypted_content":"gAAA"}}`,
	},
}

// message are the events of the item that ends an answer.
var message = []string{
	`{"type":"response.output_item.added","output_index":%[1]d,"item":{"id":"%[2]s","type":"message","content":[]}}`,
	`{"type":"response.content_part.added","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"part":{"type":"output_text","text":""}}`,
	`{"type":"response.output_text.delta","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"delta":"Hi"}`,
	`{"type":"response.output_text.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"text":"Hi"}`,
	`{"type":"response.content_part.done","item_id":"%[2]s","output_index":%[1]d,"content_index":0,"part":{"type":"output_text","text":"Hi"}}`,
	`{"type":"response.output_item.done","output_index":%[1]d,"item":{"id":"%[2]s","type":"message","content":[]}}`,
}

// stream returns the frames of an answer with the given items, with sequence
// numbers from first on, or without if it is negative. thinking is the number of
// frames before the message.
func stream(name string, first int, itemShapes ...string) (frames []string, thinking int) {
	var data []string
	response := func(event string) {
		data = append(data, fmt.Sprintf(`{"type":"response.%s","response":{"id":"resp_%s","output":[]}}`, event, name))
	}
	response("created")
	response("in_progress")
	for i, shape := range itemShapes {
		for _, d := range shapes[shape] {
			data = append(data, fmt.Sprintf(d, i, fmt.Sprintf("rs_%s%d", name, i)))
		}
	}
	thinking = len(data)
	for _, d := range message {
		data = append(data, fmt.Sprintf(d, len(itemShapes), "msg_"+name))
	}
	response("completed")
	for i, d := range data {
		if first >= 0 {
			d = strings.Replace(d, ",", fmt.Sprintf(`,"sequence_number":%d,`, first+i), 1)
		}
		frames = append(frames, frame(d))
	}
	return frames, thinking
}

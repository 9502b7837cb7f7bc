package simulate

import (
	"slices"
	"strings"
)

// open begins an output item and gives its index.
func (g *generator) open(item any) (index int) {
	index = g.items
	g.items++
	if !g.sc.NoAdded {
		g.emit(event{Type: "response.output_item.added", OutputIndex: &index, Item: item})
	}
	return index
}

func (g *generator) close(index int, item any) {
	g.emit(event{Type: "response.output_item.done", OutputIndex: &index, Item: item})
	g.output = append(g.output, item)
}

// itemID makes the id of the item that is opened next.
func (g *generator) itemID(prefix string) string {
	return prefix + digest("item", g.sc.Seed, g.ordinal, g.items)[:48]
}

// reasoning sends all reasoning items.
func (g *generator) reasoning() {
	if g.sc.Reasoning == ReasoningNone {
		return
	}
	n := max(g.sc.ReasoningItems, 1)
	for i := range n - 1 {
		g.reasoningItem(g.sentences(earlierText+100*i, 2), nil)
	}
	deltas, loop := g.sc.Thinking, g.looping(ChannelThinking)
	if deltas == nil {
		deltas = g.sentences(thinkingText, 4)
	}
	if loop != nil {
		deltas = g.healthy(deltas, loop.After, thinkingText+4)
	}
	g.reasoningItem(deltas, loop)
}

func (g *generator) reasoningItem(deltas []string, loop *Loop) {
	item := reasoningItem{ID: g.itemID("rs_"), Type: "reasoning", Summary: []textPart{}}
	if g.sc.ReasoningStatus {
		item.Status = "in_progress"
	}
	index := g.open(item)

	parts, kind := &item.Summary, "summary_text"
	if g.sc.Reasoning == ReasoningRaw {
		parts, kind = &item.Content, "reasoning_text"
	}
	var part *partWriter // nil while no part is open
	closePart := func() {
		if part != nil {
			part.close()
			*parts = append(*parts, textPart{Type: kind, Text: part.text.String()})
			part = nil
		}
	}
	write := func(delta string) {
		if part == nil {
			part = g.openPart(kind, item.ID, index, len(*parts))
		}
		part.delta(delta)
		g.reasoningBytes += len(delta)
	}
	for _, d := range deltas {
		if d == "" {
			closePart()
			continue
		}
		write(d)
	}
	g.repeat(loop, write)
	closePart()
	if !g.sc.NoEncrypted {
		item.Encrypted = encrypted(item.ID)
	}
	if g.sc.ReasoningStatus {
		item.Status = g.itemStatus()
	}
	g.close(index, item)
}

// message sends the message item, if there is one.
func (g *generator) message() {
	loop := g.looping(ChannelResponse)
	calls := len(g.sc.Calls) > 0 || g.looping(ChannelTool) != nil
	if g.short || loop == nil && (g.sc.NoMessage || g.sc.Message == "" && calls) {
		return
	}
	deltas := cut(g.sc.Message)
	if len(deltas) == 0 {
		deltas = cut("Done. " + g.sentences(messageText, 1)[0])
	}
	if loop != nil {
		deltas = g.healthy(deltas, loop.After, messageText+1)
	}

	item := messageItem{
		ID: g.itemID("msg_"), Type: "message", Status: "in_progress",
		Content: []outputPart{}, Role: "assistant",
	}
	index := g.open(item)
	part := g.openPart("output_text", item.ID, index, 0)
	write := func(delta string) {
		part.delta(delta)
		g.outputBytes += len(delta)
	}
	for _, d := range deltas {
		write(d)
	}
	g.repeat(loop, write)
	part.close()
	item.Status = g.itemStatus()
	item.Content = []outputPart{newOutputPart(part.text.String())}
	g.close(index, item)
}

// calls sends the function calls.
func (g *generator) calls() {
	calls, loop := g.sc.Calls, g.looping(ChannelTool)
	if loop != nil && len(calls) == 0 {
		calls = []Call{{Name: "write_file"}}
	}
	for _, c := range calls {
		if g.short {
			return
		}
		g.call(c, loop)
		loop = nil
	}
}

func (g *generator) call(c Call, loop *Loop) {
	item := callItem{
		ID: g.itemID("fc_"), Type: "function_call", Status: "in_progress",
		CallID: "call_" + digest("call", g.sc.Seed, g.ordinal, g.items)[:24], Name: c.Name,
	}
	index := g.open(item)
	var args strings.Builder
	write := func(delta string) {
		args.WriteString(delta)
		g.outputBytes += len(delta)
		g.emit(event{
			Type:   "response.function_call_arguments.delta",
			ItemID: item.ID, OutputIndex: &index, Delta: &delta,
		})
	}
	if loop == nil {
		if c.Arguments == "" {
			c.Arguments = "{}"
		}
		for _, d := range cut(c.Arguments) {
			write(d)
		}
	} else {
		// The text repeats inside a JSON string, and stays valid JSON if the
		// loop ends and the call is finished.
		quoted := func(text string) { write(strings.Trim(string(encode(text)), `"`)) }
		write(`{"text":"`)
		for _, d := range g.healthy(nil, loop.After, messageText) {
			quoted(d)
		}
		g.repeat(loop, quoted)
		if !g.short {
			write(`"}`)
		}
	}
	item.Arguments, item.Status = args.String(), g.itemStatus()
	g.emit(event{
		Type:   "response.function_call_arguments.done",
		ItemID: item.ID, OutputIndex: &index, Name: item.Name, Arguments: &item.Arguments,
	})
	g.close(index, item)
}

func (g *generator) itemStatus() string {
	if g.incomplete() != "" {
		return "incomplete"
	}
	return "completed"
}

// sentences makes n of them, numbered from first.
func (g *generator) sentences(first, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = sentence(g.sc.Seed, g.ordinal, first+i)
	}
	return list
}

// healthy gives n deltas: those there are, then generated ones.
func (g *generator) healthy(deltas []string, n, first int) []string {
	if n <= len(deltas) {
		return deltas[:n]
	}
	return append(slices.Clip(deltas), g.sentences(first, n-len(deltas))...)
}

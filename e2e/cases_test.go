package e2e

import (
	"fmt"
	"slices"
)

// A testCase is what the upstream does during one session.
type testCase struct {
	name    string
	hold    bool    // the client asks for hold delivery
	replies []reply // to the requests that offer the tool, in order
}

// reply is one answer of the upstream. Each is a loop, or calls the tool, or
// ends a turn.
type reply struct {
	loop   bool
	quiet  bool   // the loop is told of in the terminal event alone
	untold bool   // the loop is not told of at all
	shape  string // of reasoning; empty: a summary
	thing  string // what the tool is called for
	answer string // what the turn ends with
}

// phrase is what a loop repeats. It is nowhere else.
const phrase = "But the marbles may have been counted twice. "

// labels are what a loop reports; the first is enough to cut it.
var labels = []string{"tail_repetition:64@thinking", "tail_repetition:8@thinking"}

// The two turns of a session.
var (
	prompts = []string{"Where is the first map?", "And where is the second one?"}
	things  = []string{"map one", "map two"}
	answers = []string{"The first map is on shelf 7.", "The second map is there, too."}
)

// turns are the replies of a session in which nothing goes wrong.
func turns(shape string) (first, second []reply) {
	turn := func(i int) []reply {
		return []reply{{thing: things[i], shape: shape}, {answer: answers[i], shape: shape}}
	}
	return turn(0), turn(1)
}

func allCases() []testCase {
	loop, rawLoop, quietLoop := reply{loop: true}, reply{loop: true, shape: "raw"}, reply{loop: true, quiet: true}
	join := func(parts ...[]reply) (all []reply) {
		for _, part := range parts {
			all = append(all, part...)
		}
		return all
	}
	one, two := turns("")
	rawOne, rawTwo := turns("raw")
	return []testCase{
		{name: "no loop", replies: join(one, two)},
		{name: "summary", replies: join([]reply{loop}, one, two)},
		{name: "raw text", replies: join([]reply{rawLoop}, rawOne, rawTwo)},
		{name: "two in a row", replies: join([]reply{loop, loop}, one, two)},
		{name: "terminal only", replies: join([]reply{quietLoop}, one, two)},
		{name: "unreported", replies: join([]reply{{loop: true, untold: true}}, one, two)},
		{name: "turn 2", replies: join(one, []reply{loop}, two)},
		{name: "hold", hold: true, replies: join([]reply{loop}, one, []reply{quietLoop}, two)},
	}
}

// headers are what the client sets on each request.
func (c *testCase) headers() map[string]string {
	if c.hold {
		return map[string]string{"x-doomproxy-delivery": "hold"}
	}
	return map[string]string{}
}

// detector is its mode: it would find a loop that goes on for so long that it
// is told of at the end alone.
func (c *testCase) detector() string {
	if slices.ContainsFunc(c.replies, func(r reply) bool { return r.quiet }) {
		return "off"
	}
	return "enforce"
}

// cuts is how many attempts have to be cut.
func (c *testCase) cuts() (n int) {
	for _, r := range c.replies {
		if r.loop {
			n++
		}
	}
	return n
}

// recoveries is how many requests of the client have to be recovered: loops
// that follow each other belong to one.
func (c *testCase) recoveries() (n int) {
	for i, r := range c.replies {
		if r.loop && (i == 0 || !c.replies[i-1].loop) {
			n++
		}
	}
	return n
}

// attempt returns the reply that the first attempt got of the request of which
// reply i is an attempt.
func (c *testCase) attempt(i int) int {
	for i > 0 && c.replies[i-1].loop {
		i--
	}
	return i
}

// script is the case in the upstream's own words. The seed makes ids that no
// other session has; the replies go to requests that offer the tool.
func (c *testCase) script(seed int, t *tool) []map[string]any {
	var script []map[string]any
	for _, r := range c.replies {
		entry := map[string]any{
			"when":             fmt.Sprintf("%q", t.name),
			"seed":             seed,
			"reasoning_status": true, // as the API has it that reports loops
		}
		if r.shape != "" {
			entry["reasoning"] = r.shape
		}
		switch {
		case r.loop:
			loop := map[string]any{
				"after": 3, "phrase": phrase,
				"triggers": labels,
			}
			if r.untold {
				loop["triggers"] = []string{}
			}
			if r.quiet {
				// Such a loop goes on for longer, until there are no tokens left.
				loop["terminal_only"], loop["deltas"], loop["then"] = true, 2*maxReplay/len(phrase), "incomplete"
			}
			entry["loop"] = loop
		case r.thing != "":
			entry["calls"] = []map[string]any{{"name": t.name, "arguments": t.arguments(r.thing)}}
		default:
			entry["message"] = r.answer
		}
		script = append(script, entry)
	}
	return script
}

// pending is what does not work yet: a check that may fail, for a client and a
// case, or for all of them where one is empty. To switch a check on, remove its
// line.
var pending = []struct{ client, when, check, why string }{}

// pendingLine returns the index in pending of the line for a check, or -1.
func pendingLine(client, when, check string) int {
	for i, p := range pending {
		if (p.client == "" || p.client == client) && (p.when == "" || p.when == when) && (p.check == "" || p.check == check) {
			return i
		}
	}
	return -1
}

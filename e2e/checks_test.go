package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// The checks of a cell. What stands in the pending list is named by them.
const (
	checkRun       = "run"       // the client ends without an error
	checkAnswers   = "answers"   // with the right texts
	checkSession   = "session"   // by the requests of the case, no more, with the tool's output
	checkKept      = "kept"      // the upstream gets back what it has thought in earlier answers
	checkCut       = "cut"       // a loop in mid-thought is left at once
	checkTombstone = "tombstone" // the upstream is sent no tombstone
	checkDiscarded = "discarded" // the upstream is sent no id or content of a discarded item
	checkLoopText  = "loop text" // the upstream is sent no loop text, but for the bounded replay
	checkCounts    = "counts"    // the proxy counts requests, cuts and recoveries right
)

// tombstone begins what closes a discarded item for the client.
const tombstone = "doomproxy-tombstone-v1:"

// maxReplay is how much text of a cut attempt goes into the replay, in bytes.
const maxReplay = 8 << 10

// A finding is what a check has against a cell.
type finding struct{ check, text string }

type findings []finding

func (f *findings) addf(check, format string, args ...any) {
	*f = append(*f, finding{check, fmt.Sprintf(format, args...)})
}

// sessionFindings checks the requests that the upstream was sent in the case.
// It also returns how many requests of the client that makes, and how many of
// them are not of the session, such as for a title.
func sessionFindings(c *testCase, t *tool, all []received) (f findings, requests, others int) {
	var list []received // those of the session itself
	for _, r := range all {
		if strings.Contains(r.Body, strconv.Quote(t.name)) {
			list = append(list, r)
		}
		if r.Method == http.MethodPost {
			requests++
		}
		for name := range r.Header {
			if strings.HasPrefix(strings.ToLower(name), "x-doomproxy-") {
				f.addf(checkSession, "request %d has the header %s", r.Ordinal, name)
			}
		}
		if strings.Contains(r.Body, tombstone) {
			f.addf(checkTombstone, "request %d holds a tombstone", r.Ordinal)
		}
	}
	others = requests - len(list)
	if len(list) != len(c.replies) {
		f.addf(checkSession, "the upstream was sent %d requests with the tool, want %d", len(list), len(c.replies))
	}
	list = list[:min(len(list), len(c.replies))]
	for i, r := range list {
		first := c.attempt(i)
		for _, earlier := range c.replies[:i] {
			if earlier.thing != "" && !strings.Contains(r.Body, toolOutput(earlier.thing)) {
				f.addf(checkSession, "request %d lacks the output of the tool for %s", r.Ordinal, earlier.thing)
			}
		}
		if looping := c.replies[i].loop && !c.replies[i].quiet; looping != r.Gone {
			f.addf(checkCut, "request %d was left before its end: %v, want %v", r.Ordinal, r.Gone, looping)
		}
		if text := strings.Count(r.Body, phrase) * len(phrase); text > maxReplay*(i-first) {
			f.addf(checkLoopText, "request %d holds %d bytes of loop text, want at most %d", r.Ordinal, text, maxReplay*(i-first))
		}
		for j := range first {
			if !c.replies[j].loop {
				isThere := func(mark string) bool { return strings.Contains(r.Body, mark) }
				if !slices.ContainsFunc(marks(list[j].Reply), isThere) {
					f.addf(checkKept, "request %d lacks the reasoning of the answer to request %d", r.Ordinal, list[j].Ordinal)
				}
				continue
			}
			for _, mark := range marks(list[j].Reply) {
				if strings.Contains(r.Body, mark) {
					f.addf(checkDiscarded, "request %d holds %.20s… of the answer to request %d, which was discarded", r.Ordinal, mark, list[j].Ordinal)
				}
			}
		}
	}
	return f, requests - c.cuts(), others
}

// marks returns what reasoning items of a stream are known by: ids and
// encrypted contents.
func marks(stream string) (list []string) {
	for line := range strings.Lines(stream) {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok {
			continue
		}
		var event struct {
			Item struct {
				Type, ID  string
				Encrypted string `json:"encrypted_content"`
			}
		}
		if json.Unmarshal([]byte(data), &event) != nil || event.Item.Type != "reasoning" {
			continue
		}
		for _, mark := range []string{event.Item.ID, event.Item.Encrypted} {
			if mark != "" && !slices.Contains(list, mark) {
				list = append(list, mark)
			}
		}
	}
	return list
}

// countFindings checks what the proxy has counted since the case began. requests
// is the number of requests of the client; the others among them may have been
// given up when it ended.
func countFindings(c *testCase, requests, others int, m metrics) (f findings) {
	const clean, accepted = `outcome="clean"`, `result="accepted"`
	cuts, recoveries := c.cuts(), c.recoveries()
	signals := cuts // a cut loop has reported one label
	for _, r := range c.replies {
		if r.quiet {
			signals += len(labels) - 1
		}
	}
	for _, want := range []struct {
		n      int
		name   string
		labels []string
	}{
		{requests, "doomproxy_requests_total", nil},
		{requests - recoveries, "doomproxy_requests_total", []string{clean}},
		{recoveries, "doomproxy_requests_total", []string{`outcome="recovered"`}},
		{recoveries, "doomproxy_recoveries_total", nil},
		{recoveries, "doomproxy_recoveries_total", []string{`outcome="recovered"`}},
		{cuts, "doomproxy_doom_aborts_total", nil},
		{signals, "doomproxy_doom_signals_total", nil},
		{signals, "doomproxy_doom_signals_total", []string{`channel="thinking"`, `confident="true"`}},
		{requests + cuts, "doomproxy_attempts_total", nil},
		{requests, "doomproxy_attempts_total", []string{accepted}},
		{cuts, "doomproxy_attempts_total", []string{`result="cut"`}},
		{cuts, "doomproxy_attempts_total", []string{`kind="resample"`}},
		{len(things), "doomproxy_steps_total", []string{`position="continuation"`}},
		{0, "doomproxy_unprotected_total", nil},
		{0, "doomproxy_malformed_checks_total", nil},
	} {
		least := want.n
		if slices.Contains(want.labels, clean) || slices.Contains(want.labels, accepted) {
			least -= others
		}
		if got := int(m.sum(want.name, want.labels...)); got < least || got > want.n {
			f.addf(checkCounts, "%s%v = %v, want %d", want.name, want.labels, got, want.n)
		}
	}
	// A splice changes frames; what was held comes as it was sent.
	changed := m.sum("doomproxy_frames_total", `action="rewritten"`) + m.sum("doomproxy_frames_total", `action="synthesized"`)
	if spliced := cuts > 0 && !c.hold; spliced != (changed > 0) {
		f.addf(checkCounts, "%v frames were changed, want some: %v", changed, spliced)
	}
	return f
}

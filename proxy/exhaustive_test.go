package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/proxy"
	"github.com/doomproxy/doomproxy/simulate"
)

// block is what an attempt sends of one item; visible says whether the client
// can see more of it than thinking.
type block struct {
	name    string
	frames  func(id string, index int, finished bool) []string
	visible bool
}

func frame(typ, members string, args ...any) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":#,%s}\n\n", typ, typ, fmt.Sprintf(members, args...))
}

func itemFrames(typ, id string, index int, inner []string, finished bool) []string {
	all := append([]string{frame("response.output_item.added", `"output_index":%d,"item":{"id":%q,"type":%q}`, index, id, typ)}, inner...)
	if finished {
		all = append(all, frame("response.output_item.done", `"output_index":%d,"item":{"id":%q,"type":%q,"encrypted_content":"enc-%s"}`, index, id, typ, id))
	}
	return all
}

func partFrames(id string, index int, stem, text, key, partType string, finished bool) []string {
	where := fmt.Sprintf(`"item_id":%q,"output_index":%d,%q:0`, id, index, key)
	all := []string{
		frame(stem+".added", `%s,"part":{"type":%q,"text":""}`, where, partType),
		frame(text+".delta", `%s,"delta":"say %s "`, where, id),
	}
	if finished {
		all = append(all,
			frame(text+".done", `%s,"text":"say %s "`, where, id),
			frame(stem+".done", `%s,"part":{"type":%q,"text":"say %s "}`, where, partType, id))
	}
	return all
}

var blocks = []block{
	{"bare", func(id string, index int, finished bool) []string {
		return itemFrames("reasoning", id, index, nil, finished)
	}, false},
	{"summary", func(id string, index int, finished bool) []string {
		return itemFrames("reasoning", id, index, partFrames(id, index, "response.reasoning_summary_part", "response.reasoning_summary_text", "summary_index", "summary_text", finished), finished)
	}, false},
	{"message", func(id string, index int, finished bool) []string {
		return itemFrames("message", id, index, partFrames(id, index, "response.content_part", "response.output_text", "content_index", "output_text", finished), finished)
	}, true},
	{"call", func(id string, index int, finished bool) []string {
		return itemFrames("function_call", id, index, []string{
			frame("response.function_call_arguments.delta", `"item_id":%q,"output_index":%d,"delta":"{}"`, id, index),
		}, finished)
	}, true},
}

// sequences returns every sequence of up to n blocks.
func sequences(n int) [][]block {
	all := [][]block{nil}
	for from := 0; n > 0; n-- {
		to := len(all)
		for _, s := range all[from:to] {
			for _, b := range blocks {
				all = append(all, append(append([]block{}, s...), b))
			}
		}
		from = to
	}
	return all
}

// script returns the frames of an attempt that makes these items and reports a
// confident loop in front of frame at, never if at is negative; and whether
// something is visible by then.
func script(seq []block, attempt, at int, lastOpen bool) (frames []string, visible bool) {
	response := fmt.Sprintf(`"response":{"id":"resp_%d","status":"in_progress","output":[]}`, attempt)
	frames = []string{frame("response.created", "%s", response), frame("response.in_progress", "%s", response)}
	firstVisible := 1 << 30
	for i, b := range seq {
		if b.visible {
			firstVisible = min(firstVisible, len(frames))
		}
		frames = append(frames, b.frames(fmt.Sprintf("item_%d_%d", attempt, i), i, i < len(seq)-1 || !lastOpen)...)
	}
	frames = append(frames, frame("response.completed", `"response":{"id":"resp_%d","status":"completed","output":[]}`, attempt))
	if at >= 0 {
		check := frame("response.doom_loop_check", `"doom_loop_check":{"triggers":["tail_repetition:8@thinking"]}`)
		frames = append(frames[:at:at], append([]string{check}, frames[at:]...)...)
	}
	for i := range frames {
		frames[i] = strings.Replace(frames[i], `"sequence_number":#`, fmt.Sprintf(`"sequence_number":%d`, i), 1)
	}
	return frames, at > firstVisible
}

// Every sequence of items up to a small length, every place of a confident
// signal, both ways to close, every budget: the client gets one whole response
// (I3, I7) with nothing of a discarded attempt in its output (I6), and the
// upstream as many requests as the rules give.
func TestExhaustive(t *testing.T) {
	for _, agent := range []string{"OpenAI/JS", "pi/1.6.0"} {
		for budget := 0; budget <= 2; budget++ {
			t.Run(fmt.Sprintf("%s/%d", agent, budget), func(t *testing.T) {
				t.Parallel()
				var seq []block
				at, lastOpen, always := 0, false, false
				var requests []*simulate.Request // of the case at hand; one at a time
				attempts := func(n int) []string {
					loops := n == 0 || always
					if !loops {
						b, _ := script(blocks[1:3], n, -1, false)
						return b
					}
					a, _ := script(seq, n, at, lastOpen)
					return a
				}
				r := newRig(t, func(c *proxy.Config) { c.Policy.MaxRetries = budget })
				r.sim.Keep = -1
				r.sim.Script = func(_ int, req *simulate.Request) simulate.Scenario {
					requests = append(requests, req)
					return simulate.Scenario{Frames: attempts(len(requests) - 1), Split: func(b []byte) [][]byte { return [][]byte{b} }}
				}
				cases := 0
				length := 2
				if budget == 1 && !testing.Short() {
					length = 3 // eight times the cases; the other budgets add nothing to them
				}
				for _, seq = range sequences(length) {
					for _, lastOpen = range []bool{false, true} {
						if lastOpen && len(seq) == 0 {
							continue
						}
						a, _ := script(seq, 0, -1, lastOpen)
						for at = range len(a) {
							for _, always = range []bool{false, true} {
								_, visible := script(seq, 0, at, lastOpen)
								want := 1
								if !visible && budget > 0 {
									want = 2
									if always {
										want = budget + 1
									}
								}
								raw := r.answer(streamBody, "User-Agent", agent)
								if err := checkExhaustive(t, raw, requests, want, attempts); err != nil {
									t.Fatalf("items %v, last open %v, signal at %d, always %v: %v in:\n%s", names(seq), lastOpen, at, always, err, raw)
								}
								if want > 1 {
									compareSpliced(t, raw, want-1, attempts(want-1))
								}
								cases++
								requests = nil
							}
						}
					}
				}
				if cases < 100 {
					t.Errorf("got %d cases in all, want more", cases)
				}
			})
		}
	}
}

func checkExhaustive(t *testing.T, raw string, requests []*simulate.Request, want int, attempts func(int) []string) error {
	t.Helper()
	if len(requests) != want {
		return fmt.Errorf("%d upstream requests, want %d", len(requests), want)
	}
	evs := events(t, raw)
	if err := checkI3(raw, evs); err != nil {
		return err
	}
	if got := evs[len(evs)-1].typ(); got != "response.completed" {
		return fmt.Errorf("the end is %s", got)
	}
	if want == 1 {
		healthy := strings.Join(attempts(0), "")
		for _, f := range attempts(0) {
			if strings.Contains(f, "doom_loop_check") {
				healthy = strings.Replace(healthy, f, "", 1)
			}
		}
		if raw != healthy {
			return fmt.Errorf("the bytes were changed, want:\n%s", healthy)
		}
	}
	for n, req := range requests {
		if n > 0 && strings.Contains(string(req.Body), "function_call") {
			return fmt.Errorf("request %d replays a call", n)
		}
	}
	return nil
}

func names(seq []block) []string {
	var all []string
	for _, b := range seq {
		all = append(all, b.name)
	}
	return all
}

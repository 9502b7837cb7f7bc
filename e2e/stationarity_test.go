package e2e

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// newRigWith is newRig with more of an environment for the proxy.
func newRigWith(t *testing.T, env ...string) *rig {
	t.Helper()
	r := upstreamAlone(t)
	served, _ := startIn(t, t.TempDir(), r.log, env, "serve", "--upstream", r.upstream+"/v1", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	r.baseURL = served(`base URL +(\S+)`)
	r.admin = served(`admin +(\S+)`)
	return r
}

// repeating is a session whose first turn would make the same call for ever.
func repeating(c *client, seed, calls int) (script []map[string]any) {
	var replies []reply
	for range calls {
		replies = append(replies, reply{thing: things[0]})
	}
	tc := testCase{replies: append(replies, reply{answer: answers[1]})}
	return tc.script(seed, c.tool)
}

// An agent that makes the same call again and again is stopped: its turn ends as
// any other, and the next one goes on.
func TestStoppedTurns(t *testing.T) {
	const most = 3
	r := newRigWith(t, "DOOMPROXY_STATIONARITY_ON_STOP=end", "DOOMPROXY_STATIONARITY_LOOSE_STOP=3")
	for i, name := range []string{"codex", "opencode", "pi", "@ai-sdk/openai", "@ai-sdk/openai, store: false", "@ai-sdk/xai"} {
		t.Run(name, func(t *testing.T) {
			c := named(t, name)
			before := r.metrics(t)
			r.play(t, repeating(&c, 9100+i, most))
			ctx, cancel := context.WithTimeout(t.Context(), maxSession)
			defer cancel()
			got, err := c.run(ctx, &session{baseURL: r.baseURL, headers: map[string]string{}, home: t.TempDir(), out: outFolder(c.name, t.Name())})
			if err != nil {
				t.Fatalf("it ended with %v", err)
			}
			if len(got) != 2 || !strings.Contains(got[0], "This turn was ended automatically") || got[1] != answers[1] {
				t.Errorf("the answers are %q, want the proxy's and then %q", got, answers[1])
			}
			list, _ := r.received(t)
			list = slices.DeleteFunc(list, func(q received) bool { return !strings.Contains(q.Body, `"`+c.tool.name+`"`) })
			if len(list) != most+1 {
				t.Fatalf("the upstream was sent %d requests, want %d:\n%s", len(list), most+1, overview(list))
			}
			wantKnownItems(t, list)
			if n := r.metrics(t).since(before).sum("doomproxy_stationarity_total", `action="stop"`, `tier="loose"`); n != 1 {
				t.Errorf("%v turns were counted as stopped, want 1", n)
			}
		})
	}
}

// wantKnownItems checks that the last request refers to no item that the upstream
// has not made.
func wantKnownItems(t *testing.T, list []received) {
	t.Helper()
	var body struct {
		Input []struct{ Type, ID string }
	}
	if err := json.Unmarshal([]byte(list[len(list)-1].Body), &body); err != nil {
		t.Fatal(err)
	}
	for _, item := range body.Input {
		made := slices.ContainsFunc(list, func(q received) bool { return strings.Contains(q.Reply, `"`+item.ID+`"`) })
		if item.Type == "item_reference" && !made {
			t.Errorf("the upstream is referred to %s, which it has not made", item.ID)
		}
	}
}

// By default nothing is stopped: the agent's model is told, and gets to answer.
func TestNudgedAgent(t *testing.T) {
	const calls = 5
	r := newRigWith(t, "DOOMPROXY_STATIONARITY_LOOSE_NUDGE=3", "DOOMPROXY_STATIONARITY_LOOSE_STOP=4")
	c := named(t, "codex")
	script := repeating(&c, 9200, calls)
	tc := testCase{replies: []reply{{answer: answers[0]}}}
	script = slices.Insert(script, calls, tc.script(9200, c.tool)...)
	r.play(t, script)
	ctx, cancel := context.WithTimeout(t.Context(), maxSession)
	defer cancel()
	got, err := c.run(ctx, &session{baseURL: r.baseURL, headers: map[string]string{}, home: t.TempDir(), out: outFolder(c.name, t.Name())})
	if err != nil || !slices.Equal(got, answers) {
		t.Fatalf("the answers are %q, %v, want %q", got, err, answers)
	}
	list, _ := r.received(t)
	told := 0
	for _, q := range list {
		if strings.Contains(q.Body, "Automatic notice, not from the user") {
			told++
		}
	}
	if told != calls-2 {
		t.Errorf("the model was told %d times, want %d: from the third call on, and not in the next turn", told, calls-2)
	}
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// freePort returns a loopback port that nobody had a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// noDetector has only reports cut: quietLoop's is to be the first word of its loop.
const noDetector = "DOOMPROXY_DETECTOR_MODE=off"

// quietLoop is a session whose first attempt is cut at its end: by then its
// reasoning is finished, and the client has it whole.
func quietLoop(seed int) (script []map[string]any) {
	one, two := turns("")
	tc := testCase{replies: slices.Concat([]reply{{loop: true, quiet: true}}, one, two)}
	return tc.script(seed, lookup)
}

// changeBetweenTurns runs a client whose first turn goes to the proxy at base,
// and the second one to what change returns, which is called between the two.
func changeBetweenTurns(t *testing.T, c client, base string, change func() string) {
	t.Helper()
	var target atomic.Pointer[url.URL]
	to := func(base string) {
		u, err := url.Parse(strings.TrimSuffix(base, "/v1"))
		if err != nil {
			t.Fatal(err)
		}
		target.Store(u)
	}
	to(base)
	front := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target.Load()) },
	})
	defer front.Close()
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		to(change())
		w.WriteHeader(http.StatusNoContent)
	}))
	defer gate.Close()
	ctx, cancel := context.WithTimeout(t.Context(), maxSession)
	defer cancel()
	got, err := c.run(ctx, &session{baseURL: front.URL + "/v1", gate: gate.URL, headers: map[string]string{}, home: t.TempDir(), out: outFolder(c.name, t.Name())})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, answers) {
		t.Errorf("the answers are %q, want %q", got, answers)
	}
}

func named(t *testing.T, name string) client {
	t.Helper()
	all := allClients()
	i := slices.IndexFunc(all, func(c client) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no client %q", name)
	}
	return all[i]
}

// discardedIDs returns the ids of the reasoning items of the first attempt.
func discardedIDs(t *testing.T, first received) (ids []string) {
	t.Helper()
	for line := range strings.Lines(first.Reply) {
		data, ok := strings.CutPrefix(line, "data: ")
		var event struct {
			Item struct{ ID, Type string }
		}
		if ok && json.Unmarshal([]byte(data), &event) == nil && event.Item.Type == "reasoning" && !slices.Contains(ids, event.Item.ID) {
			ids = append(ids, event.Item.ID)
		}
	}
	if len(ids) == 0 {
		t.Fatalf("the first attempt has no reasoning:\n%s", tail([]byte(first.Reply)))
	}
	return ids
}

// wantForgotten checks that what the first attempt sent does not come back but
// in the second attempt of the same request.
func wantForgotten(t *testing.T, r *rig) {
	t.Helper()
	list, _ := r.received(t)
	if len(list) != 5 {
		t.Fatalf("the upstream was sent %d requests, want 5:\n%s", len(list), overview(list))
	}
	for _, id := range discardedIDs(t, list[0]) {
		for _, req := range list[2:] {
			if strings.Contains(req.Body, id) {
				t.Errorf("request %d holds %s of the discarded attempt", req.Ordinal, id)
			}
		}
	}
}

// upstreamAlone is a rig without a proxy.
func upstreamAlone(t *testing.T) *rig {
	t.Helper()
	r := &rig{log: new(lockedBuffer)}
	base := start(t, io.Discard, "simulate", "--control", "--listen", "127.0.0.1:0")(`base URL +(\S+)`)
	r.upstream = strings.TrimSuffix(base, "/v1")
	return r
}

// A session whose history the API keeps outlives the proxy: the ledger's file
// tells the next one what was discarded.
func TestRestartBetweenTurns(t *testing.T) {
	r := upstreamAlone(t)
	r.play(t, quietLoop(9001))
	state, port := t.TempDir(), freePort(t)
	serve := func() (base string, stop func()) {
		find, stop := startIn(t, state, r.log, []string{noDetector}, "serve", "--upstream", r.upstream+"/v1", "--listen", "127.0.0.1:"+port, "--admin-listen", "")
		return find(`base URL +(\S+)`), stop
	}
	base, stop := serve()
	changeBetweenTurns(t, named(t, "@ai-sdk/openai"), base, func() string {
		stop()
		base, _ := serve()
		return base
	})
	wantForgotten(t, r)
}

// Two proxies that share a Redis take over each other's sessions.
func TestSharedRedis(t *testing.T) {
	port := freePort(t)
	redis := exec.CommandContext(t.Context(), "redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir())
	out, err := redis.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		redis.Process.Kill() //nolint:errcheck // it may have ended with the context
		redis.Wait()         //nolint:errcheck // it was killed
	})
	var said bytes.Buffer
	buf := make([]byte, 4096)
	for !strings.Contains(said.String(), "Ready to accept connections") {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("redis-server: %v\n%s", err, said.String())
		}
	}
	go io.Copy(io.Discard, out) //nolint:errcheck // so that it is never blocked

	r := upstreamAlone(t)
	r.play(t, quietLoop(9002))
	serve := func() string {
		env := []string{noDetector, "DOOMPROXY_LEDGER_STORE=redis", "DOOMPROXY_LEDGER_REDIS_URL=redis://127.0.0.1:" + port}
		find, _ := startIn(t, t.TempDir(), r.log, env, "serve", "--upstream", r.upstream+"/v1", "--listen", "127.0.0.1:0", "--admin-listen", "")
		return find(`base URL +(\S+)`)
	}
	changeBetweenTurns(t, named(t, "@ai-sdk/openai"), serve(), serve)
	wantForgotten(t, r)
}

// A client that names the response before gets on behind a recovered one: the
// id that it saw is the cut attempt's, the upstream is told the accepted one's.
func TestResponseChain(t *testing.T) {
	r := newRig(t)
	one, two := turns("")
	tc := testCase{replies: slices.Concat([]reply{{loop: true}}, one, []reply{{loop: true}}, two)}
	r.play(t, tc.script(9003, lookup))
	ctx, cancel := context.WithTimeout(t.Context(), maxSession)
	defer cancel()
	got, err := library("openai-7", "chain")(ctx, &session{baseURL: r.baseURL, headers: map[string]string{}, home: t.TempDir(), out: outFolder("openai 7", t.Name())})
	if err != nil || !slices.Equal(got, answers) {
		t.Fatalf("the answers are %q, %v, want %q", got, err, answers)
	}
	list, _ := r.received(t)
	if len(list) != 6 {
		t.Fatalf("the upstream was sent %d requests, want 6:\n%s", len(list), overview(list))
	}
	// Requests 1, 2, 4 and 5 were accepted; what follows each names it.
	for _, pair := range [][2]int{{1, 2}, {2, 3}, {2, 4}, {4, 5}} {
		var body struct {
			Previous string `json:"previous_response_id"`
		}
		if err := json.Unmarshal([]byte(list[pair[1]].Body), &body); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(list[pair[0]].Reply, `"id":"`+body.Previous+`"`) || body.Previous == "" {
			t.Errorf("request %d names %q, want the response of request %d", pair[1], body.Previous, pair[0])
		}
	}
}

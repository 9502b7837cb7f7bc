package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/simulate"
)

// What is secret, or a user's text, stays out of output, log and metrics,
// whatever becomes of a request.
func TestSecretsAreNotTold(t *testing.T) {
	t.Parallel() // it waits for retries
	const (
		token    = "canary-token"
		wrong    = "canary-wrong-token"
		key      = "canary-authorization"
		apiKey   = "canary-api-key"
		xKey     = "canary-x-api-key"
		cookie   = "canary-cookie"
		baked    = "canary-set-cookie"
		query    = "canary-query"
		own      = "canary-upstream-query"
		prompt   = "canary-prompt"
		thought  = "canary-thought"
		text     = "canary-text"
		failure  = "canary-failure"
		argument = "canary-argument"
	)
	header := map[string]string{"Set-Cookie": baked}
	say := simulate.Scenario{
		Header: header, Thinking: []string{thought + " "}, Message: text,
		Calls: []simulate.Call{{Name: "f", Arguments: `{"a":"` + argument + `"}`}},
	}
	with := func(change func(*simulate.Scenario)) simulate.Scenario {
		sc := say
		change(&sc)
		return sc
	}
	scenarios := []simulate.Scenario{
		say,
		// A loop and its recovery, retries, and failures of each kind.
		with(func(sc *simulate.Scenario) { sc.Loop = &simulate.Loop{Phrase: thought} }),
		say,
		with(func(sc *simulate.Scenario) { sc.Failure = &simulate.Failure{Message: failure, After: 2} }),
		say,
		{Status: http.StatusBadRequest, Header: header, Body: `{"error":{"message":"` + failure + `"}}`},
		{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "3600"}, Body: failure},
		with(func(sc *simulate.Scenario) { sc.End, sc.Limit = simulate.EndAbort, 12 }),
		with(func(sc *simulate.Scenario) { sc.Frames = []string{"data: {" + text + "\n\n", "data: " + text} }),
		{End: simulate.EndRefuse},
		say,
		say,
	}
	sim := &simulate.Server{Script: func(n int, _ *simulate.Request) simulate.Scenario { return scenarios[min(n, len(scenarios)-1)] }}
	upstream := httptest.NewServer(sim)
	defer upstream.Close()
	c := serve(t, env("DOOMPROXY_AUTH_TOKENS=canary="+file(t, token)), upstream.URL+"/v1?sig="+own, "--log-level", "debug")

	send := func(method, path, body string, header ...string) {
		t.Helper()
		resp := do(t, direct(), method, c.base(t)+path+"?key="+query, body, append([]string{
			"Authorization", "Bearer " + key, "Api-Key", apiKey, "X-Api-Key", xKey, "Cookie", "c=" + cookie,
			"X-Doomproxy-Token", token, "Content-Type", "application/json",
		}, header...)...)
		io.Copy(io.Discard, resp.body) //nolint:errcheck // however it ends
	}
	streamed := `{"model":"m","stream":true,"input":"` + prompt + `"}`
	for sim.Requests() == nil || sim.Requests()[len(sim.Requests())-1].Ordinal < len(scenarios)-1 {
		send(http.MethodPost, "/responses", streamed)
	}
	send(http.MethodPost, "/responses", `{"model":"m","input":"`+prompt+`"}`)
	send(http.MethodPost, "/responses", prompt+` is no JSON`)
	send(http.MethodPost, "/responses", prompt, "Content-Encoding", "gzip")
	send(http.MethodPost, "/chat/completions", streamed)
	send(http.MethodGet, "/models", "")
	send(http.MethodGet, "/../models", "")
	send(http.MethodPost, "/responses", streamed, "X-Doomproxy-Token", wrong)
	send(http.MethodPost, "/responses", streamed, "X-Doomproxy-Recovery", "off")

	// The test is worth something only if all of it went through, and was logged.
	sent := ""
	for _, req := range sim.Requests() {
		sent += req.RawQuery + string(req.Body) + string(req.Reply())
		for _, values := range req.Header {
			sent += strings.Join(values, " ")
		}
	}
	for _, canary := range []string{key, apiKey, xKey, cookie, query, own, prompt, thought, text, failure, argument} {
		if !strings.Contains(sent, canary) {
			t.Errorf("%s was not sent", canary)
		}
	}
	_, metrics := get(t, c.admin(t)+"/metrics")
	c.stop()
	c.wantEnd(t)
	wantText(t, c.stderr.String(), "outcome=recovered", "outcome=retried", "outcome=upstream_error", "outcome=rejected")
	wantText(t, metrics, "doomproxy_requests_total")

	for place, told := range map[string]string{"standard output": c.stdout.String(), "the log": c.stderr.String(), "the metrics": metrics} {
		if i := strings.Index(told, "canary-"); i >= 0 {
			t.Errorf("%s tells %q, in:\n%s", place, told[i:min(len(told), i+30)], told)
		}
	}
}

// What is secret in a configuration stays out of all that is told of it: what is
// printed, logged, counted and shown, also when it cannot be used.
func TestSecretsOfConfigurationAreNotTold(t *testing.T) {
	t.Parallel() // it waits for Redis
	sim := httptest.NewServer(&simulate.Server{})
	defer sim.Close()
	token := file(t, "canary-token")
	config := func(admin, redis, query, more string) string {
		return `upstreams:
  default: {url: "` + sim.URL + `/v1?key=` + query + `"}
auth: {tokens: [{name: a, file: "` + token + `"}]}
admin: {token: "` + admin + `"}
ledger: {store: redis, redis_url: "redis://canary-user:` + redis + `@127.0.0.1:9/0?client_name=canary-name"}
log: {level: debug}
` + more
	}
	good := config("canary-admin", "canary-password", "canary-query", "")
	w := serveFile(t, good, nil)
	told := func() string {
		t.Helper()
		all := w.stdout.String() + w.stderr.String()
		for _, path := range []string{"/metrics", "/debug/requests", "/"} {
			all += do(t, direct(), http.MethodGet, w.admin(t)+path, "", "Authorization", "Bearer canary-admin").text(t)
		}
		code, stdout, stderr := checkConfig(t, nil, w.path)
		return fmt.Sprint(all, code, stdout, stderr)
	}
	resp := do(t, direct(), http.MethodPost, w.base(t)+"/responses", streamBody, "X-Doomproxy-Token", "canary-token")
	wantText(t, resp.text(t), "response.completed")
	all := told()
	wantText(t, all, "token: …", "redis_url: redis://…@127.0.0.1:9/0?…", "/v1?…", "outcome=clean", "doomproxy_requests_total", `"mode":"enforce"`)

	for _, text := range []string{
		config("canary-admin", "canary-password", "canary-other-query", "recovery: {max_threshold: 8}"),
		config("canary admin", "canary-password", "canary-query", ""),
		config("canary-admin", "canary-password", "canary-query#fragment", ""),
		strings.Replace(good, `"redis:`, `"http:`, 1),
		strings.Replace(good, `"redis://`, `"redis:`, 1),
		strings.Replace(good, `"canary-admin"`, `*canary-admin`, 1),
		strings.Replace(good, `"canary-admin"`, `[canary-admin]`, 1),
		strings.Replace(good, `{token: "canary-admin"}`, `canary-admin`, 1),
		strings.Replace(good, `[{name: a, file: "`+token+`"}]`, `[canary-token]`, 1),
		strings.Replace(good, `[{name: a, file: "`+token+`"}]`, `canary-token`, 1),
		strings.Replace(good, `http://`, `http://canary-user:canary-password@`, 1),
		strings.Replace(good, `http://`, `http://canary-user:canary?password@`, 1),
		config("canary-admin", "canary-changed", "canary-query", "ledger: {}"),
		config("canary-admin", "canary-changed", "canary-query", "shutdown: {grace: 1s}"),
	} {
		w.change(t, text)
		all += told()
	}
	w.wantReloads(t, 2, 12)
	wantText(t, all, `changed="[upstreams.default.url recovery.max_threshold]"`, "settings=[ledger.redis_url]")
	if i := strings.Index(all, "canary"); i >= 0 {
		t.Errorf("it tells %q, in:\n%s", all[i:min(len(all), i+30)], all[max(0, i-300):min(len(all), i+300)])
	}
}

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// pageRig is a rig whose requests to the upstream wait until they are let
// through, so that a test sees each phase for as long as it wants.
type pageRig struct {
	*rig
	pass chan struct{} // lets one request through
	stop func()        // ends the proxy
}

// newPageRig starts a rig. The proxy gets some more arguments and environment.
func newPageRig(t *testing.T, env []string, args ...string) *pageRig {
	t.Helper()
	r := &pageRig{rig: &rig{log: new(lockedBuffer)}, pass: make(chan struct{})}
	base := start(t, io.Discard, "simulate", "--control", "--listen", "127.0.0.1:0")(`base URL +(\S+)`)
	r.upstream = strings.TrimSuffix(base, "/v1")
	u, err := url.Parse(r.upstream)
	if err != nil {
		t.Fatal(err)
	}
	upstream := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(pr *httputil.ProxyRequest) { pr.SetURL(u) }}
	gate := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body) // or net/http does not notice that the proxy leaves
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		select {
		case <-r.pass:
			upstream.ServeHTTP(w, req)
		case <-req.Context().Done():
		}
	}))
	t.Cleanup(gate.Close)
	args = append([]string{"serve", "--upstream", gate.URL + "/v1", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)
	find, stop := startIn(t, t.TempDir(), r.log, env, args...)
	r.baseURL, r.admin, r.stop = find(`base URL +(\S+)`), find(`admin +(\S+)`), stop
	return r
}

// open lets the next request through to the upstream.
func (r *pageRig) open(t *testing.T) {
	t.Helper()
	select {
	case r.pass <- struct{}{}:
	case <-time.After(20 * time.Second):
		t.Fatal("no request came to the upstream")
	}
}

// ask sends a request for a response. The channel gets how its answer ended, nil
// for a clean end, once it has; it has what the answer says if that is an error.
func (r *pageRig) ask(t *testing.T, body string, headers ...string) <-chan error {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.baseURL+"/responses", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer a-key-of-somebody")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	ended := make(chan error, 1)
	go func() {
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			ended <- err
			return
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode >= http.StatusBadRequest {
			err = fmt.Errorf("%s: %s", resp.Status, data)
		}
		ended <- err
	}()
	return ended
}

// question is the body of a request that streams.
func question(model string) string {
	body, err := json.Marshal(map[string]any{"model": model, "stream": true, "input": "What is in the box?"})
	if err != nil {
		panic(err) // it has texts only
	}
	return string(body)
}

// after returns how an answer ended.
func after(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("the answer has no end")
		return nil
	}
}

// inGroup is a condition: the page has a row in a phase, with some texts.
func inGroup(phase string, texts ...string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#running tbody:not([hidden])")]
		.filter((body) => body.querySelector("b").textContent === %q)
		.some((body) => [...body.querySelectorAll("tr[data-id]")].some((row) => %s.every((text) => row.innerText.includes(text))))`,
		phase, encode(append([]string{}, texts...)))
}

// tiles are the numbers on the page, by the id of the tile and the name of the
// part; "" is the one that is large.
type tiles map[string]map[string]string

const readTiles = `Object.fromEntries([...document.querySelectorAll("#tiles .tile")].map((tile) => [tile.id, {
	"": tile.querySelector(".big data").value,
	...Object.fromEntries([...tile.querySelectorAll("dt")].map((dt) => [dt.textContent, dt.nextElementSibling.firstChild.value])),
}]))`

// wantNumbers checks that the page has the numbers of /metrics.
func wantNumbers(t *testing.T, b *browser, r *rig) {
	t.Helper()
	var problems []string
	ok := within(10*time.Second, func() bool {
		before := r.metrics(t)
		<-time.After(1500 * time.Millisecond) // for the page to look again
		shown := value[tiles](t, b, readTiles)
		m := r.metrics(t)
		problems = nil
		want := func(tile, part string, n float64) {
			text, there := shown[tile][part]
			if !there && n == 0 && part != "" {
				return
			}
			if got, err := strconv.ParseFloat(text, 64); err != nil || math.Abs(got-n) > 1e-6 {
				problems = append(problems, fmt.Sprintf("%s %q has %q, want %v", tile, part, text, n))
			}
		}
		want("requests", "", m.sum("doomproxy_requests_total"))
		for _, outcome := range []string{"clean", "recovered", "retried", "cancelled", "rejected", "client_gone", "upstream_error", "gave_up"} {
			want("requests", strings.ReplaceAll(outcome, "_", " "), m.sum("doomproxy_requests_total", `outcome="`+outcome+`"`))
		}
		want("recovered", "", m.sum("doomproxy_recoveries_total", `outcome="recovered"`))
		want("cuts", "", m.sum("doomproxy_doom_aborts_total", `mode="enforce"`))
		want("cuts", "would have been cut", m.sum("doomproxy_doom_aborts_total", `mode="observe"`))
		want("discarded", "", m.sum("doomproxy_discarded_bytes_total"))
		want("discarded", "tokens, est.", m.sum("doomproxy_discarded_tokens_estimated_total"))
		want("discarded", "in answers", m.sum("doomproxy_tokens_total", `type="output"`))
		want("retries", "", m.sum("doomproxy_attempts_total", `kind="retry"`))
		want("retries", "attempts in all", m.sum("doomproxy_attempts_total"))
		want("unprotected", "", m.sum("doomproxy_unprotected_total"))
		for _, reason := range []string{"off", "path", "body", "background"} {
			want("unprotected", reason, m.sum("doomproxy_unprotected_total", `reason="`+reason+`"`))
		}
		for name := range m {
			if strings.HasPrefix(name, "doomproxy_") && m[name] != before[name] {
				problems = append(problems, name+" goes on counting")
			}
		}
		return problems == nil
	})
	if !ok {
		t.Errorf("the page differs from /metrics:\n%s", strings.Join(problems, "\n"))
	}
}

// A request that fails, loops, and answers is seen in each of its phases; its
// user ends it with the button, and the page counts as the metrics do.
func TestAdminPage(t *testing.T) {
	r := newPageRig(t, nil)
	r.play(t, []map[string]any{
		{"status": 503, "header": map[string]string{"Retry-After": "3"}},
		// A second of thoughts before the loop, and no more after its report.
		{"delay": "25ms", "loop": map[string]any{"after": 40, "triggers": []string{"tail_repetition:64@thinking", "tail_repetition:32@thinking"}}},
		{"reasoning": "none", "limit": 6, "end": "hang"},
		{"loop": map[string]any{}},
		{"message": "A cat."},
		{"limit": 6, "end": "hang"},
	})
	b := newBrowser(t)
	b.looks(t, 1280, 900, "light")
	b.do(t, chromedp.Navigate(r.admin+"/"))
	b.sees(t, `document.body.dataset.link === "live"`)
	for _, empty := range []string{"None at the moment", "None since the start"} {
		b.sees(t, fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, empty))
	}
	wantNumbers(t, b, r.rig)

	// A model's name is a client's text: it is nothing but that.
	const model = `<img src=x onerror="document.title=1">`
	ended := r.ask(t, question(model))
	b.sees(t, inGroup("waiting", model, "\t1\t"))
	r.open(t)
	b.sees(t, inGroup("backoff", model, "\t1\t"))
	b.sees(t, inGroup("waiting", model, "\t2\t"))
	r.open(t)
	b.sees(t, inGroup("thinking", model, "\t2\t"))
	b.sees(t, inGroup("waiting", model, "\t3\t", "tail_repetition@thinking 64"))
	r.open(t)
	b.sees(t, inGroup("visible", model, "\t3\t", "tail_repetition@thinking 64"))
	if n := value[int](t, b, `document.querySelectorAll("tr[data-id]").length`); n != 1 {
		t.Errorf("%d requests are shown, want 1", n)
	}
	if n := value[int](t, b, `document.querySelectorAll("main img").length`); n != 0 {
		t.Errorf("the model's name became %d pictures", n)
	}
	wantNumbers(t, b, r.rig)

	// Another one recovers while the first goes on.
	second := r.ask(t, question("second"))
	r.open(t)
	r.open(t)
	if err := after(t, second); err != nil {
		t.Errorf("the second request: %v", err)
	}
	b.sees(t, `document.querySelector("#recoveries tbody")?.innerText.includes("recovered")`)
	third := r.ask(t, question("third"), "X-Doomproxy-Delivery", "hold")
	r.open(t)
	b.sees(t, inGroup("held", "third"))
	wantNumbers(t, b, r.rig)

	// The button asks first.
	row := fmt.Sprintf(`tr[data-id=%q] button`, value[string](t, b, `document.querySelector("#running tbody:not([hidden]):has(.visible) tr[data-id]").dataset.id`))
	b.click(t, row)
	b.sees(t, `document.getElementById("ask").open && document.getElementById("ask").innerText.includes("onerror")`)
	b.do(t, chromedp.KeyEvent(kb.Escape))
	b.sees(t, `!document.getElementById("ask").open`)
	b.click(t, row)
	b.sees(t, `document.getElementById("ask").open`)
	b.click(t, "#ask-no")
	b.sees(t, `!document.getElementById("ask").open`)
	<-time.After(1500 * time.Millisecond) // a cancel would have come by now
	b.sees(t, inGroup("visible", model))
	select {
	case err := <-ended:
		t.Fatalf("the request ended (%v) though nobody said yes", err)
	default:
	}

	b.click(t, row)
	b.sees(t, `document.getElementById("ask").open`)
	b.click(t, "#ask-yes")
	if err := after(t, ended); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the client's stream ended with %v, want a dropped connection", err)
	}
	b.sees(t, `document.getElementById("said").textContent.includes("was cancelled") && !(`+inGroup("visible")+`)`)
	b.sees(t, inGroup("held", "third")) // that one runs on
	if err := after(t, r.ask(t, question(model))); err == nil || !strings.Contains(err.Error(), "400") || !strings.Contains(err.Error(), "cancelled_by_operator") {
		t.Errorf("the same request again got %v, want 400 cancelled_by_operator", err)
	}
	wantNumbers(t, b, r.rig)
	b.wantCalm(t, r.admin)
	select {
	case err := <-third:
		t.Errorf("the third request ended with %v", err)
	default:
	}
}

// The mode is switched with a button, for new requests.
func TestAdminPageMode(t *testing.T) {
	r := newPageRig(t, nil)
	r.play(t, []map[string]any{{"limit": 6, "end": "hang"}})
	b := newBrowser(t)
	b.do(t, chromedp.Navigate(r.admin+"/"))
	pressed := func(mode string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("[data-guard=recovery] [aria-pressed=true]")].map((e) => e.dataset.mode).join() === %q`, mode)
	}
	b.sees(t, pressed("enforce"))
	b.click(t, "[data-guard=recovery] [data-mode=observe]")
	b.sees(t, `document.getElementById("ask").open`)
	b.click(t, "#ask-no")
	b.sees(t, `!document.getElementById("ask").open && `+pressed("enforce"))
	b.click(t, "[data-guard=recovery] [data-mode=observe]")
	b.click(t, "#ask-yes")
	b.sees(t, pressed("observe")+` && document.getElementById("mode-text").textContent.includes("configured is enforce")`)
	r.ask(t, question("m"))
	r.open(t)
	b.sees(t, inGroup("thinking", "observed"))
	b.click(t, "[data-guard=recovery] [data-mode=enforce]")
	b.click(t, "#ask-yes")
	b.sees(t, pressed("enforce")+` && !document.getElementById("mode-text").textContent.includes("configured")`)
	b.sees(t, inGroup("thinking", "observed")) // it keeps what it began with
	b.click(t, "[data-guard=detector] [data-mode=off]")
	b.click(t, "#ask-yes")
	b.sees(t, `document.querySelector("[data-guard=detector] [aria-pressed=true]").dataset.mode === "off" && `+pressed("enforce"))
	b.sees(t, `document.querySelector("[data-guard=detector] p").textContent.includes("Only loops that the upstream reports")`)
	if state := string(fetch(t, http.MethodGet, r.admin+"/debug/requests", nil)); !strings.Contains(state, `{"guard":"detector","mode":"off","configured":"enforce","switched":true}`) {
		t.Errorf("the modes are not as the page shows them: %s", state)
	}
	if n := r.metrics(t).sum("doomproxy_config_reloads_total", `result="mode"`); n != 3 {
		t.Errorf("%v switches were counted, want 3", n)
	}
	b.wantCalm(t, r.admin)
}

// A page that is not at hand asks nothing; one whose proxy is away says so, asks
// less often, and goes on when it is back.
func TestAdminPageAway(t *testing.T) {
	listen := "127.0.0.1:" + freePort(t)
	r := newPageRig(t, nil, "--admin-listen", listen)
	b := newBrowser(t)
	b.do(t, chromedp.Navigate(r.admin+"/"))
	b.sees(t, `document.body.dataset.link === "live"`)

	hide := func(hidden bool) {
		value[bool](t, b, fmt.Sprintf(`Object.defineProperty(document, "hidden", { configurable: true, value: %v }), document.dispatchEvent(new Event("visibilitychange"))`, hidden))
	}
	hide(true)
	<-time.After(500 * time.Millisecond) // for what is under way
	n := len(b.statuses("/debug/requests"))
	<-time.After(2500 * time.Millisecond)
	if more := len(b.statuses("/debug/requests")) - n; n == 0 || more > 0 {
		t.Errorf("%d requests, and %d more while the page was hidden", n, more)
	}
	b.sees(t, `document.body.dataset.link === "paused"`)
	hide(false)
	b.sees(t, `document.body.dataset.link === "live"`)
	b.wantCalm(t, r.admin)

	r.stop()
	b.sees(t, `document.body.dataset.link === "away" && document.getElementById("link").innerText.includes("not reachable")`)
	b.sees(t, `[...document.querySelectorAll("#mode button")].every((button) => button.disabled)`)
	start(t, io.Discard, "serve", "--upstream", r.upstream+"/v1", "--listen", "127.0.0.1:0", "--admin-listen", listen)(`admin +(\S+)`)
	b.sees(t, `document.body.dataset.link === "live" && [...document.querySelectorAll("#mode button")].every((button) => !button.disabled)`)
	if list := b.complaints("Failed to load resource"); len(list) > 0 { // the browser's own words
		t.Errorf("on the console is:\n%s", strings.Join(list, "\n"))
	}
}

// attack is what a page can try against another origin's, %[1]s. It returns how
// it could tell that something went through.
const attack = `(async () => {
	const target = %[1]q, cancel = target + "/debug/requests/%[2]s/cancel", mode = target + "/debug/mode";
	const told = [], soon = () => new Promise((resolve) => setTimeout(resolve, 300));
	for (const [action, enctype, name] of [[cancel, "application/x-www-form-urlencoded", "a"], [cancel, "multipart/form-data", "a"], [mode, "text/plain", '{"recovery":"off","x":"']]) {
		const frame = Object.assign(document.createElement("iframe"), { name: "f" + Math.random() });
		document.body.append(frame);
		const form = document.body.appendChild(document.createElement("form"));
		Object.assign(form, { method: "POST", action, enctype, target: frame.name });
		form.appendChild(Object.assign(document.createElement("input"), { name, value: '"}' }));
		form.submit();
		await soon();
	}
	const json = { "Content-Type": "application/json" }, own = { "X-Doomproxy-Action": "page" }, off = '{"recovery":"off"}';
	for (const [url, options] of [
		[cancel, { method: "POST", mode: "no-cors" }],
		[cancel, { method: "POST", mode: "no-cors", credentials: "include", body: "x" }],
		[mode, { method: "POST", mode: "no-cors", body: off }],
		[mode, { method: "POST", mode: "no-cors", body: new Blob([off]) }],
		[cancel, { method: "POST", headers: json, body: "{}" }],
		[cancel, { method: "POST", headers: own }],
		[mode, { method: "POST", headers: { ...json, ...own }, body: off }],
		[mode, { method: "PUT", body: off }],
		[target + "/debug/requests", {}],
		[target + "/debug/requests", { credentials: "include" }],
		[target + "/metrics", {}],
	]) {
		try {
			const response = await fetch(url, options);
			if (response.type !== "opaque") told.push(url + " answered " + response.status);
		} catch {
			// It was refused.
		}
	}
	navigator.sendBeacon(cancel);
	navigator.sendBeacon(mode, new Blob([off], { type: "text/plain" }));
	const frame = document.body.appendChild(document.createElement("iframe"));
	frame.src = target + "/";
	await soon();
	const image = new Image();
	image.src = target + "/icon.svg";
	await image.decode().then(() => told.push("the icon was shown"), () => {});
	return told;
})()`

// No page of another origin cancels a request, switches the mode, or reads what
// is shown, whether it has the same host or not.
func TestAdminCrossOrigin(t *testing.T) {
	r := newPageRig(t, nil)
	r.play(t, []map[string]any{{"limit": 6, "end": "hang"}})
	ended := r.ask(t, question("m"))
	r.open(t)
	var id string
	waitFor(t, "the request", func() bool {
		running, _ := r.state(t)
		if len(running) == 1 {
			id = running[0]
		}
		return id != ""
	})
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html><title>evil</title><body>")
	}))
	defer evil.Close()

	b := newBrowser(t)
	for _, from := range []string{evil.URL, strings.Replace(evil.URL, "127.0.0.1", "localhost", 1)} {
		b.do(t, chromedp.Navigate(from+"/"))
		before := len(b.statuses("/cancel"))
		if told := value[[]string](t, b, fmt.Sprintf(attack, r.admin, id)); len(told) > 0 {
			t.Errorf("from %s: %q", from, told)
		}
		statuses := b.statuses("/cancel")[before:]
		if n := len(statuses); n < 4 { // two forms and two fetches without a preflight
			t.Errorf("from %s: got %d answers, so not all was tried", from, n)
		}
		for _, status := range statuses {
			if status != http.StatusForbidden && status != http.StatusMethodNotAllowed { // the latter of preflights
				t.Errorf("from %s: a cancel got status %d", from, status)
			}
		}
	}
	// The name of another's that means this machine.
	rebound := strings.Replace(r.admin, "127.0.0.1", "rebound.example", 1)
	resp, err := chromedp.Run(b.ctx, chromedp.NavigateResponse(rebound+"/debug/requests"))
	if err != nil {
		t.Fatal(err)
	}
	if text := value[string](t, b, "document.body.innerText"); resp.Status != http.StatusMisdirectedRequest || strings.Contains(text, id) {
		t.Errorf("under another name: status %d, %s", resp.Status, text)
	}
	if status := value[int](t, b, fmt.Sprintf(`fetch("/debug/requests/%s/cancel", { method: "POST" }).then((r) => r.status)`, id)); status != http.StatusMisdirectedRequest {
		t.Errorf("a cancel under another name got status %d", status)
	}

	<-time.After(500 * time.Millisecond) // for the beacons
	if running, mode := r.state(t); mode != "enforce" || !slices.Equal(running, []string{id}) {
		t.Errorf("the mode is %s, and %q run", mode, running)
	}
	if text := string(r.log.take()); strings.Contains(text, "operator") {
		t.Errorf("something went through:\n%s", text)
	}
	select {
	case err := <-ended:
		t.Fatalf("the request ended: %v", err)
	default:
	}

	// It is the origin that was missing, and nothing else.
	b.do(t, chromedp.Navigate(r.admin+"/"))
	if status := value[int](t, b, fmt.Sprintf(`fetch("/debug/requests/%s/cancel", { method: "POST" }).then((r) => r.status)`, id)); status != http.StatusNoContent {
		t.Errorf("from the page: status %d, want 204", status)
	}
	if err := after(t, ended); err == nil {
		t.Error("the client's stream ended cleanly")
	}
}

// state returns what runs, by its id, and the mode.
func (r *rig) state(t *testing.T) (ids []string, mode string) {
	t.Helper()
	var state struct {
		Mode    string
		Running []struct{ ID string }
	}
	if err := json.Unmarshal(fetch(t, http.MethodGet, r.admin+"/debug/requests", nil), &state); err != nil {
		t.Fatal(err)
	}
	for _, running := range state.Running {
		ids = append(ids, running.ID)
	}
	return ids, state.Mode
}

// With a token a browser asks for it, and the page works with it.
func TestAdminPageToken(t *testing.T) {
	r := newPageRig(t, []string{"DOOMPROXY_ADMIN_TOKEN=a-token-of-the-operator"})
	r.play(t, []map[string]any{{"limit": 6, "end": "hang"}})
	resp, err := http.Get(r.admin + "/debug/requests")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("without the token: status %d, %v, want 401 and to be asked", resp.StatusCode, resp.Header["Www-Authenticate"])
	}
	b := newBrowser(t)
	with := strings.Replace(r.admin, "//", "//operator:a-token-of-the-operator@", 1)
	b.do(t, chromedp.Navigate(with+"/"))
	b.sees(t, `document.body.dataset.link === "live"`)
	ended := r.ask(t, question("m"))
	r.open(t)
	b.sees(t, inGroup("thinking", "m"))
	b.click(t, "tr[data-id] button")
	b.click(t, "#ask-yes")
	if err := after(t, ended); err == nil {
		t.Error("the client's stream ended cleanly")
	}
	b.sees(t, `document.getElementById("said").textContent.includes("was cancelled")`)
	b.wantCalm(t, r.admin, with)
	if text := string(r.log.take()); strings.Contains(text, "a-token") {
		t.Errorf("the token was logged:\n%s", text)
	}
}

// lowContrast finds texts that are hard to read: those with less than 4.5 to 1
// against what is behind them, buttons that are off left out.
const lowContrast = `(() => {
	const rgba = (color) => {
		const [r, g, b, a = 1] = color.match(/[\d.]+/g).map(Number);
		return { rgb: [r, g, b], a };
	};
	const light = ({ rgb }) => rgb.map((c) => c / 255).map((c) => (c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
		.reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
	const behind = (e) => {
		for (; e; e = e.parentElement) {
			const color = rgba(getComputedStyle(e).backgroundColor);
			if (color.a === 1) return color;
		}
		return rgba("rgb(255, 255, 255)");
	};
	const found = [];
	for (const e of document.body.querySelectorAll("*")) {
		const text = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
		if (text === "" || e.disabled || !e.checkVisibility()) continue;
		const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) found.push(text + ": " + ((a + 0.05) / (b + 0.05)).toFixed(2));
	}
	return found;
})()`

// The page with traffic on it, light and dark, on a desk and on a phone.
//
// E2E_UPDATE=1 gives it some minutes, and writes docs/live-page.png.
func TestAdminPageLooks(t *testing.T) {
	update := os.Getenv("E2E_UPDATE") == "1"
	r := &rig{log: new(lockedBuffer)}
	base := start(t, io.Discard, "simulate", "--listen", "127.0.0.1:0", "--delay", "180ms", "--loop-rate", "0.35", "--fail-rate", "0.05")(`base URL +(\S+)`)
	served := start(t, r.log, "serve", "--upstream", base, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	r.baseURL, r.admin = served(`base URL +(\S+)`), served(`admin +(\S+)`)
	agents(t, r.baseURL)

	b := newBrowser(t)
	b.looks(t, 1280, 900, "light")
	b.do(t, chromedp.Navigate(r.admin+"/"))
	b.sees(t, `document.querySelectorAll("#running tr[data-id]").length > 2`)
	b.sees(t, `document.querySelectorAll("#recoveries tbody tr").length > 0`)
	if update {
		<-time.After(4 * time.Minute) // for the charts
	}
	grounds := map[string]string{}
	pictures := map[string][]byte{}
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 800, 360} {
			b.looks(t, width, 900, scheme)
			<-time.After(1200 * time.Millisecond) // for the page to draw itself again
			name := fmt.Sprintf("%s-%d", scheme, width)
			pictures[name] = b.picture(t)
			if over := value[int](t, b, `document.scrollingElement.scrollWidth - innerWidth`); over > 0 {
				t.Errorf("%s: the page is %d pixels wider than the screen", name, over)
			}
			if found := value[[]string](t, b, lowContrast); len(found) > 0 {
				t.Errorf("%s: hard to read are %q", name, found)
			}
			grounds[scheme] = value[string](t, b, `getComputedStyle(document.body).backgroundColor`)
		}
	}
	if grounds["light"] == grounds["dark"] {
		t.Errorf("light and dark are both on %s", grounds["light"])
	}
	if nameless := value[[]string](t, b, `[...document.querySelectorAll("button, a, [role=img]")].filter((e) => e.checkVisibility() && !(e.ariaLabel || e.innerText)).map((e) => e.outerHTML)`); len(nameless) > 0 {
		t.Errorf("without a name are %q", nameless)
	}
	b.wantCalm(t, r.admin)
	for name, png := range pictures {
		keepPicture(t, filepath.Join("out", "live-page-"+name+".png"), png)
	}
	if update && !t.Failed() {
		b.looks(t, 1280, 1400, "light")
		<-time.After(1200 * time.Millisecond) // for the next look
		keepPicture(t, filepath.Join("..", "docs", "live-page.png"), b.picture(t))
	}
}

func keepPicture(t *testing.T, path string, png []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, png, 0o644); err != nil { // a picture for everybody
		t.Fatal(err)
	}
}

// agents make requests of some kinds until the test ends.
func agents(t *testing.T, baseURL string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	kinds := []struct {
		model    string
		stream   bool
		delivery string
		recovery string
	}{
		{"grok-4-fast-reasoning", true, "live", ""},
		{"grok-code-fast-1", true, "hold", ""},
		{"gpt-5-codex", false, "live", ""},
		{"grok-4-fast-reasoning", true, "live", ""},
		{"grok-code-fast-1", true, "live", ""},
		{"gpt-5-codex", true, "live", ""},
		{"a-model-with-a-name-that-has-all-of-the-64-characters-it-may-have", true, "live", ""},
		{"grok-4-fast-reasoning", true, "live", "off"},
	}
	if os.Getenv("E2E_UPDATE") == "1" {
		kinds = slices.Delete(kinds, 6, 7) // no beauty
	}
	for i, kind := range kinds {
		go func() {
			defer func() { ended <- struct{}{} }()
			for n := 0; ctx.Err() == nil; n++ {
				body := encode(map[string]any{"model": kind.model, "stream": kind.stream, "input": fmt.Sprint(i, n)})
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+"/responses", bytes.NewReader(body))
				if err != nil {
					panic(err) // the URL was made here
				}
				req.Header.Set("X-Doomproxy-Delivery", kind.delivery)
				req.Header.Set("X-Doomproxy-Recovery", kind.recovery)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					continue
				}
				io.Copy(io.Discard, resp.Body) //nolint:errcheck // it only has to be taken
				resp.Body.Close()
				select {
				case <-time.After(time.Duration((7*n+3*i)%10) * 500 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		}()
	}
	t.Cleanup(func() {
		cancel()
		for range kinds {
			<-ended
		}
	})
}

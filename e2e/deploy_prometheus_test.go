package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestPromtool(t *testing.T) {
	t.Parallel()
	command(t, "promtool", "check", "config", deployed("prometheus", "prometheus.yml"))
	command(t, "promtool", "check", "rules", deployed("prometheus", "rules", "alerts.yml"), deployed("prometheus", "rules", "recording.yml"))
	command(t, "promtool", "test", "rules", deployed("prometheus", "tests", "rules.yml"))
	cases := readFile(t, deployed("prometheus", "tests", "rules.yml"))
	for _, r := range shippedRules(t) {
		if r.Alert != "" && !strings.Contains(cases, `alertname="`+r.Alert+`", alertstate="firing"`) {
			t.Errorf("%s: no case in which it fires", r.Alert)
		}
	}
}

// rule is one of an alert or a recording rule, as the file has it.
type rule struct {
	Alert, Record, Expr, For string
	Labels, Annotations      map[string]string
}

func shippedRules(t *testing.T) (rules []rule) {
	t.Helper()
	for _, name := range []string{"recording.yml", "alerts.yml"} {
		var file struct {
			Groups []struct {
				Name  string
				Rules []rule
			}
		}
		readYAML(t, deployed("prometheus", "rules", name), &file)
		for _, g := range file.Groups {
			rules = append(rules, g.Rules...)
		}
	}
	return rules
}

const runbook = "https://github.com/doomproxy/doomproxy/blob/main/docs/runbook.md"

// Each alert has an entry of its name in the runbook, and each entry an alert.
func TestRunbook(t *testing.T) {
	t.Parallel()
	var entries, alerts []string
	for line := range strings.Lines(readFile(t, "../docs/runbook.md")) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			entries = append(entries, name)
		}
	}
	for _, r := range shippedRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if got, want := r.Annotations["runbook_url"], runbook+"#"+strings.ToLower(r.Alert); got != want {
			t.Errorf("%s: runbook_url is %s, want %s", r.Alert, got, want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == "" {
			t.Errorf("%s has to have a summary, a description and a time for which it holds: %+v", r.Alert, r)
		}
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s: the severity is %q, want warning or critical", r.Alert, s)
		}
	}
	if !slices.Equal(entries, alerts) {
		t.Errorf("the runbook has the entries\n%q, want one for each alert:\n%q", entries, alerts)
	}
}

// traffic are requests of one kind, and what the upstream answers.
type traffic struct {
	times   int
	replies []string // to the attempts of each request; the last one to all further ones, none: a healthy one
	path    string   // empty: /responses
	body    string   // empty: a streamed request; TEXT is what the upstream knows it by
	header  [2]string
	leaves  bool // once the answer begins
}

const (
	cutLoop = `{"loop":{"after":3,"then":"incomplete"}}`
	// lateLoop is too short for the detector, which would not be late.
	lateLoop = `{"loop":{"after":3,"deltas":10,"terminal_only":true}}`
	// unreported is for the detector.
	unreported = `{"loop":{"after":3,"deltas":40,"triggers":[],"then":"finish"}}`
	// call is the same each time.
	call = `{"type":"function_call","call_id":"c","name":"read","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"TEXT"}`
	// malformed is a report that is none.
	malformed = `{"loop":{"raw":["data: {\"type\":\"response.doom_loop_check\",\"doom_loop_check\":7}\n\n"],"then":"finish"}}`
)

// load is one round of traffic that shows in each panel and lets (nearly) each
// alert go off.
func load() []traffic {
	return []traffic{
		{times: 10},
		{times: 3, replies: []string{cutLoop, `{"seed":1}`}},
		{times: 2, replies: []string{unreported, `{"seed":1}`}},
		{times: 2, body: `{"model":"large","stream":true,"input":[` + strings.Repeat(call+",", 4) + call + `]}`},
		{times: 36, replies: []string{cutLoop}}, // until no cut is left
		{times: 30, replies: []string{lateLoop}},
		{times: 2, replies: []string{cutLoop, `{"loop":{"after":3,"then":"eof"}}`}},               // given up
		{times: 14, replies: []string{cutLoop, `{"status":400}`, `{"status":400}`, `{"seed":1}`}}, // the replay is refused
		{times: 2, replies: []string{`{"status":500}`, `{"seed":1}`}},
		{times: 32, replies: []string{`{"status":503}`}},
		{times: 1, replies: []string{malformed}},
		{times: 1, replies: []string{`{"message":"` + strings.Repeat("long ", 20_000) + `"}`}}, // an oversized frame
		{times: 1, replies: []string{`{"delay":"20ms"}`}, leaves: true},
		{times: 48, header: [2]string{"x-doomproxy-recovery", "off"}},
		{times: 2, header: [2]string{"x-grok-doom-loop-check", "1024"}}, // the client recovers by itself
		{times: 2, path: "/models"},
		{times: 2, body: `{"model":"large","stream":true,"input":[` +
			`{"type":"reasoning","id":"rs_TEXT","summary":[],"encrypted_content":"` + tombstone + `TEXT"},` +
			`{"type":"function_call_output","call_id":"c","output":"TEXT"}]}`},
	}
}

// load sends one round of traffic to a proxy, 16 requests at a time.
func (r *rig) load(t *testing.T, base string, round int) {
	t.Helper()
	var script []json.RawMessage
	type request struct {
		traffic
		text string
	}
	var requests []request
	for i, tr := range load() {
		for n := range tr.times {
			text := fmt.Sprintf("(%d-%d-%d)", round, i, n)
			for _, reply := range tr.replies {
				script = append(script, json.RawMessage(fmt.Sprintf(`{"when":%q,%s`, text, reply[1:])))
			}
			requests = append(requests, request{tr, text})
		}
	}
	r.play(t, script)
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, req := range requests {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := req.send(t.Context(), base, req.text); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// send makes one request and takes whatever comes.
func (tr traffic) send(ctx context.Context, base, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	method, path, body := http.MethodPost, tr.path, tr.body
	switch {
	case path != "":
		method = http.MethodGet
	case body == "":
		path, body = "/responses", `{"model":"large","stream":true,"input":"TEXT"}`
	default:
		path = "/responses"
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, strings.NewReader(strings.ReplaceAll(body, "TEXT", text)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if tr.header[0] != "" {
		req.Header.Set(tr.header[0], tr.header[1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !tr.leaves {
		io.Copy(io.Discard, res.Body) //nolint:errcheck // it may break off
	}
	return nil
}

// prometheus is a running server.
type prometheus struct{ url string }

// startPrometheus runs one with the shipped configuration, but for the targets
// and the times.
func startPrometheus(t *testing.T, targets ...string) prometheus {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(deployed("prometheus"))); err != nil {
		t.Fatal(err)
	}
	config := readFile(t, filepath.Join(dir, "prometheus.yml"))
	for old, replacement := range map[string]string{
		"interval: 15s": "interval: 1s",
		`"proxy:3667"`:  `"` + strings.Join(targets, `", "`) + `"`,
	} {
		if !strings.Contains(config, old) {
			t.Fatalf("prometheus.yml has no %s:\n%s", old, config)
		}
		config = strings.ReplaceAll(config, old, replacement)
	}
	write(t, filepath.Join(dir, "prometheus.yml"), config)
	address := "127.0.0.1:" + freePort(t)
	log := new(lockedBuffer)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "prometheus",
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v (.ci/e2e installs it)", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Prometheus logged:\n%s", tail(log.take()))
		}
		cmd.Process.Kill() //nolint:errcheck // it may have ended by itself
		cmd.Wait()         //nolint:errcheck // it was killed
	})
	p := prometheus{"http://" + address}
	waitFor(t, "Prometheus", func() bool {
		var data any
		return p.get(t.Context(), "/api/v1/status/runtimeinfo", nil, &data) == nil
	})
	return p
}

// get asks the HTTP API.
func (p prometheus) get(ctx context.Context, path string, query url.Values, data any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path+"?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

// query returns the values that an expression has now.
func (p prometheus) query(ctx context.Context, expr string) (values []float64, err error) {
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := p.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	for _, r := range data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// quiet are the panels and alerts that may have nothing to show after the load,
// and why.
var quiet = map[string]string{
	"DoomproxyNothingProtected": "some are",
	"Ledger entries":            "they are counted at the start, and then once a minute",
	"Alerts":                    "nothing has held for long enough to fire",
}

var metricName = regexp.MustCompile(`\b(?:[a-z_]+:)?(?:doomproxy|process|go)_[a-z0-9_:]+`)

// expression is a query that somebody who operates doomproxy relies on.
type expression struct {
	where, text string
	alert       bool // any value will do, even 0
}

// check evaluates an expression that has to be about metrics that there are, and
// to show something of the load.
func (p prometheus) check(t *testing.T, e expression, names []string) {
	t.Helper()
	values, err := p.query(t.Context(), e.text)
	if err != nil {
		t.Errorf("%s: %v\n%s", e.where, err, e.text)
		return
	}
	for _, name := range metricName.FindAllString(e.text, -1) {
		if !slices.Contains(names, name) {
			t.Errorf("%s: there is no metric %s", e.where, name)
		}
	}
	shows := slices.ContainsFunc(values, func(v float64) bool { return v != 0 && !math.IsNaN(v) })
	if e.alert {
		shows = len(values) > 0
	}
	if !shows && quiet[e.where] == "" {
		t.Errorf("%s shows nothing, its values are %v:\n%s", e.where, values, e.text)
	}
}

// panel is what this test knows of a panel of a dashboard.
type panel struct {
	ID                       int
	Type, Title, Description string
	Targets                  []struct{ Expr, LegendFormat string }
	GridPos                  struct{ X, Y, W, H int }
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Datasource               struct{ UID string }
}

type dashboard struct {
	Panels      []panel
	Annotations struct {
		List []struct{ Name, Expr string }
	}
	Templating struct {
		List []struct {
			Name, Definition string
		}
	}
}

func shippedDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(readFile(t, deployed("grafana", "doomproxy.json"))), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Each panel says what it shows and in which unit, and none hides another.
func TestDashboard(t *testing.T) {
	t.Parallel()
	ids, places := map[int]string{}, map[[2]int]string{}
	for _, p := range shippedDashboard(t).Panels {
		if other, ok := ids[p.ID]; ok {
			t.Errorf("%s has the id of %s", p.Title, other)
		}
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, ok := places[[2]int{x, y}]; ok || x >= 24 {
					t.Fatalf("%s covers %q at %d, %d", p.Title, other, x, y)
				}
				places[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s has to have a description, a unit, a query and the data source that was chosen", p.Title)
		}
		for _, target := range p.Targets {
			if p.Type == "timeseries" && target.LegendFormat == "" {
				t.Errorf("%s: no legend for %s", p.Title, target.Expr)
			}
			if !strings.Contains(target.Expr, `job=~"$job", instance=~"$instance"`) {
				t.Errorf("%s does not obey the variables: %s", p.Title, target.Expr)
			}
		}
	}
}

var promqlBlock = regexp.MustCompile("(?s)```promql\n(.*?)```")

// A Prometheus with the shipped rules watches two proxies with all kinds of
// traffic. Each query of the dashboard, of the rules and of the runbook has to be
// valid, to be about metrics that exist, and to show something.
func TestQueries(t *testing.T) {
	t.Parallel()
	r := upstreamAlone(t)
	away := "127.0.0.1:" + freePort(t)
	serve := func(env ...string) (base, admin string) {
		env = append(env, "DOOMPROXY_RECOVERY_MAX_RETRIES=5", "DOOMPROXY_RETRY_MAX_RETRIES=1", "DOOMPROXY_LIMITS_FRAME=64KiB")
		find, _ := startIn(t, t.TempDir(), r.log, env, "serve", "--upstream", r.upstream+"/v1", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
		return find(`base URL +(\S+)`), find(`admin +(\S+)`)
	}
	base, admin := serve("DOOMPROXY_LEDGER_PATH=" + filepath.Join(t.TempDir(), "ledger.db"))
	config := filepath.Join(t.TempDir(), "config.yaml")
	write(t, config, "log: {level: info}")
	lost, lostAdmin := serve("DOOMPROXY_LEDGER_STORE=redis", "DOOMPROXY_LEDGER_REDIS_URL=redis://"+away, "DOOMPROXY_CONFIG="+config)
	p := startPrometheus(t, strings.TrimPrefix(admin, "http://"), strings.TrimPrefix(lostAdmin, "http://"), away)

	var hanging sync.WaitGroup
	defer hanging.Wait()
	for round := range 2 {
		r.load(t, base, 2*round)
		r.load(t, lost, 2*round+1)
		// What was counted has to be scraped before there is more.
		waitFor(t, "the scrape", func() bool {
			sum := 0.0
			for _, url := range []string{admin, lostAdmin} {
				sum += (&rig{admin: url}).metrics(t).sum("doomproxy_requests_total")
			}
			got, err := p.query(t.Context(), "sum(doomproxy_requests_total)")
			return err == nil && slices.Equal(got, []float64{sum})
		})
		write(t, config, "log: {level: loud}")
	}
	// One request still runs, so that something is in flight.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.play(t, []any{map[string]any{"limit": 4, "end": "hang"}})
	hanging.Go(func() { traffic{}.send(ctx, base, "hang") }) //nolint:errcheck // it is cancelled
	// All alerts that can go off have to see it. Which does not is told below.
	loud := 0
	for _, rule := range shippedRules(t) {
		if rule.Alert != "" && quiet[rule.Alert] == "" {
			loud++
		}
	}
	within(20*time.Second, func() bool {
		got, err := p.query(t.Context(), fmt.Sprintf("sum(doomproxy_requests_in_flight) > 0 and on () count(count by (alertname) (ALERTS)) == %d", loud))
		return err == nil && len(got) > 0
	})

	var names []string
	if err := p.get(t.Context(), "/api/v1/label/__name__/values", nil, &names); err != nil {
		t.Fatal(err)
	}
	p.checkRules(t, names)
	d := shippedDashboard(t)
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			p.check(t, expression{where: panel.Title, text: inGrafana.Replace(target.Expr)}, names)
		}
	}
	for _, a := range d.Annotations.List {
		p.check(t, expression{where: a.Name, text: inGrafana.Replace(a.Expr)}, names)
	}
	for _, v := range d.Templating.List {
		p.checkVariable(t, v.Name, v.Definition)
	}
	for _, block := range promqlBlock.FindAllStringSubmatch(readFile(t, "../docs/runbook.md"), -1) {
		p.check(t, expression{where: "the runbook", text: block[1], alert: true}, names)
	}
}

// inGrafana fills in what Grafana would.
var inGrafana = strings.NewReplacer("$__rate_interval", "1m", "$__range", "1m", "$job", "doomproxy", "$instance", ".*")

var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// checkVariable looks up what a variable of the dashboard can be set to.
func (p prometheus) checkVariable(t *testing.T, name, definition string) {
	t.Helper()
	if name == "datasource" {
		return
	}
	m := labelValues.FindStringSubmatch(definition)
	if m == nil {
		t.Fatalf("the variable %s is not understood: %s", name, definition)
	}
	var values []string
	if err := p.get(t.Context(), "/api/v1/label/"+m[2]+"/values", url.Values{"match[]": {inGrafana.Replace(m[1])}}, &values); err != nil || len(values) == 0 {
		t.Errorf("the variable %s can be %q, %v", name, values, err)
	}
}

var labelInText = regexp.MustCompile(`\$labels\.(\w+)`)

// checkRules evaluates the expression of each rule as the server has read it. What
// an alert's expression gives makes it pending.
func (p prometheus) checkRules(t *testing.T, names []string) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct {
				Type, Name, Query, Health, LastError string
				Alerts                               []struct{ Labels, Annotations map[string]string }
			}
		}
	}
	if err := p.get(t.Context(), "/api/v1/rules", nil, &data); err != nil {
		t.Fatal(err)
	}
	rules := shippedRules(t)
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				t.Errorf("%s: %s %s", r.Name, r.Health, r.LastError)
			}
			p.check(t, expression{where: r.Name, text: r.Query, alert: r.Type == "alerting"}, names)
			for _, alert := range r.Alerts {
				for key, text := range alert.Annotations {
					if strings.ContainsAny(text, "<>{}") { // "<error expanding template: …>"
						t.Errorf("%s: %s is %q", r.Name, key, text)
					}
				}
				// A label that is not there would leave a gap in the text.
				text := rules[slices.IndexFunc(rules, func(shipped rule) bool { return shipped.Alert == r.Name })].Annotations["summary"]
				for _, m := range labelInText.FindAllStringSubmatch(text, -1) {
					if alert.Labels[m[1]] == "" {
						t.Errorf("%s has no label %s, only %v", r.Name, m[1], alert.Labels)
					}
				}
			}
		}
	}
	if want := len(rules); n != want {
		t.Errorf("Prometheus has %d rules, want %d", n, want)
	}
}

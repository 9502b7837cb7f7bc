package metrics_test

import (
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/doomproxy/doomproxy/metrics"
)

// The contract with dashboards and alert rules: a line here changes only with them.
var contract = []struct {
	name   string
	typ    dto.MetricType
	labels string // in the order of WithLabelValues
	field  string // of Metrics
}{
	{"doomproxy_requests_total", dto.MetricType_COUNTER, "upstream protection outcome code model", "Requests"},
	{"doomproxy_unprotected_total", dto.MetricType_COUNTER, "reason", "Unprotected"},
	{"doomproxy_attempts_total", dto.MetricType_COUNTER, "upstream kind result", "Attempts"},
	{"doomproxy_doom_signals_total", dto.MetricType_COUNTER, "source kind channel confident", "DoomSignals"},
	{"doomproxy_doom_aborts_total", dto.MetricType_COUNTER, "source kind model mode", "DoomAborts"},
	{"doomproxy_recoveries_total", dto.MetricType_COUNTER, "outcome", "Recoveries"},
	{"doomproxy_replay_total", dto.MetricType_COUNTER, "mode", "Replay"},
	{"doomproxy_frames_total", dto.MetricType_COUNTER, "action", "Frames"},
	{"doomproxy_malformed_checks_total", dto.MetricType_COUNTER, "", "MalformedChecks"},
	{"doomproxy_discarded_bytes_total", dto.MetricType_COUNTER, "", "DiscardedBytes"},
	{"doomproxy_tokens_total", dto.MetricType_COUNTER, "type", "Tokens"},
	{"doomproxy_discarded_tokens_estimated_total", dto.MetricType_COUNTER, "", "DiscardedTokensEstimated"},
	{"doomproxy_scrubbed_items_total", dto.MetricType_COUNTER, "reason", "ScrubbedItems"},
	{"doomproxy_time_to_abort_seconds", dto.MetricType_HISTOGRAM, "", "TimeToAbort"},
	{"doomproxy_resample_gap_seconds", dto.MetricType_HISTOGRAM, "", "ResampleGap"},
	{"doomproxy_upstream_first_byte_seconds", dto.MetricType_HISTOGRAM, "kind", "UpstreamFirstByte"},
	{"doomproxy_request_duration_seconds", dto.MetricType_HISTOGRAM, "protection outcome", "RequestDuration"},
	{"doomproxy_requests_in_flight", dto.MetricType_GAUGE, "phase", "RequestsInFlight"},
	{"doomproxy_steps_total", dto.MetricType_COUNTER, "position", "Steps"},
	{"doomproxy_incomplete_total", dto.MetricType_COUNTER, "reason", "Incomplete"},
	{"doomproxy_oversized_frames_total", dto.MetricType_COUNTER, "", "OversizedFrames"},
	{"doomproxy_ledger_errors_total", dto.MetricType_COUNTER, "store", "LedgerErrors"},
	{"doomproxy_ledger_entries", dto.MetricType_GAUGE, "", "LedgerEntries"},
	{"doomproxy_stationarity_total", dto.MetricType_COUNTER, "action tier", "Stationarity"},
	{"doomproxy_config_reloads_total", dto.MetricType_COUNTER, "result", "ConfigReloads"},
	{"doomproxy_config_last_reload_successful", dto.MetricType_GAUGE, "", "ConfigLastReloadSuccessful"},
	{"doomproxy_build_info", dto.MetricType_GAUGE, "version commit goversion", "BuildInfo"},
}

// newTouched returns a registry in which every series of the contract has one
// member with the label values v0, v1, … in the order of its labels.
func newTouched(t *testing.T) *prometheus.Registry {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	m := metrics.New(reg, metrics.Build{Version: "v1.2.3", Commit: "abc123"})
	fields := reflect.ValueOf(m).Elem()
	for _, c := range contract {
		var values []string
		for i := range strings.Fields(c.labels) {
			values = append(values, fmt.Sprintf("v%d", i))
		}
		switch f := fields.FieldByName(c.field).Interface().(type) {
		case *prometheus.CounterVec:
			f.WithLabelValues(values...).Inc()
		case *prometheus.GaugeVec:
			f.WithLabelValues(values...).Set(1)
		case *prometheus.HistogramVec:
			f.WithLabelValues(values...).Observe(1)
		case prometheus.Histogram:
			f.Observe(1)
		case prometheus.Counter:
			f.Inc()
		default:
			t.Fatalf("%s: field of type %T", c.name, f)
		}
	}
	return reg
}

func gather(t *testing.T, g prometheus.Gatherer) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := make(map[string]*dto.MetricFamily)
	for _, f := range list {
		families[f.GetName()] = f
	}
	return families
}

func TestNamesTypesAndLabels(t *testing.T) {
	families := gather(t, newTouched(t))
	for _, c := range contract {
		f, ok := families[c.name]
		if !ok {
			t.Errorf("%s: not registered", c.name)
			continue
		}
		delete(families, c.name)
		if got := f.GetType(); got != c.typ {
			t.Errorf("%s: type %v, want %v", c.name, got, c.typ)
		}
		if f.GetHelp() == "" {
			t.Errorf("%s: no help text", c.name)
		}
		want := make(map[string]string)
		for i, label := range strings.Fields(c.labels) {
			want[label] = fmt.Sprintf("v%d", i)
		}
		if !slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool { return maps.Equal(labels(m), want) }) {
			t.Errorf("%s: series %v, want one with %v", c.name, f.GetMetric(), want)
		}
	}
	for name := range families {
		if strings.HasPrefix(name, "doomproxy_") {
			t.Errorf("%s: registered, but not in the table", name)
		}
	}
}

// Each exported field feeds one line of the table, so none is left out or doubled.
func TestFieldsAreInTheTable(t *testing.T) {
	var inTable []string
	for _, c := range contract {
		inTable = append(inTable, c.field)
	}
	var exported []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[metrics.Metrics]()) {
		if f.IsExported() {
			exported = append(exported, f.Name)
		}
	}
	slices.Sort(inTable)
	slices.Sort(exported)
	if !slices.Equal(inTable, exported) {
		t.Errorf("fields of the table %v, of Metrics %v", inTable, exported)
	}
}

func labels(m *dto.Metric) map[string]string {
	set := make(map[string]string)
	for _, pair := range m.GetLabel() {
		set[pair.GetName()] = pair.GetValue()
	}
	return set
}

func TestLint(t *testing.T) {
	problems, err := testutil.GatherAndLint(newTouched(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestRuntimeCollectors(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	metrics.New(reg, metrics.Build{})
	families := gather(t, reg)
	want := []string{"go_goroutines"}
	if runtime.GOOS == "linux" {
		want = append(want, "process_resident_memory_bytes")
	}
	for _, name := range want {
		if families[name] == nil {
			t.Errorf("%s: not registered", name)
		}
	}
}

// What alert rules take rates of must be there before it first happens.
func TestSeriesThatStartAtZero(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	metrics.New(reg, metrics.Build{})
	families := gather(t, reg)
	for name, want := range map[string]string{
		"doomproxy_unprotected_total":                "path body background conversation deferred off memory oversized_frame",
		"doomproxy_recoveries_total":                 "recovered accepted_after_budget late gave_up client_gone",
		"doomproxy_replay_total":                     "full reminder_only vetoed refused_by_upstream",
		"doomproxy_frames_total":                     "forwarded swallowed discarded rewritten synthesized",
		"doomproxy_tokens_total":                     "input output reasoning cached",
		"doomproxy_scrubbed_items_total":             "tombstone id hash text missing_upstream",
		"doomproxy_requests_in_flight":               "waiting thinking held visible backoff",
		"doomproxy_steps_total":                      "turn_start continuation",
		"doomproxy_incomplete_total":                 "max_output_tokens content_filter other",
		"doomproxy_malformed_checks_total":           "",
		"doomproxy_discarded_bytes_total":            "",
		"doomproxy_discarded_tokens_estimated_total": "",
		"doomproxy_oversized_frames_total":           "",
		// Their names and models are known only at run time.
		"doomproxy_requests_total":    "-",
		"doomproxy_attempts_total":    "-",
		"doomproxy_doom_aborts_total": "-",
	} {
		if want == "-" {
			if families[name] != nil {
				t.Errorf("%s: %v, want no series", name, families[name])
			}
			continue
		}
		var got []string
		for _, m := range families[name].GetMetric() {
			got = append(got, slices.Collect(maps.Values(labels(m)))...)
			if v := m.GetCounter().GetValue() + m.GetGauge().GetValue(); v != 0 {
				t.Errorf("%s%v starts at %v", name, labels(m), v)
			}
		}
		values := strings.Fields(want)
		slices.Sort(got)
		slices.Sort(values)
		if !slices.Equal(got, values) {
			t.Errorf("%s: label values %v, want %v", name, got, values)
		}
		if families[name] == nil {
			t.Errorf("%s: no series", name)
		}
	}
}

func TestBuckets(t *testing.T) {
	families := gather(t, newTouched(t))
	for name, want := range map[string][2]float64{
		"doomproxy_time_to_abort_seconds":       {0.05, 1800},
		"doomproxy_upstream_first_byte_seconds": {0.05, 1800},
		"doomproxy_request_duration_seconds":    {0.05, 1800},
		"doomproxy_resample_gap_seconds":        {0.005, 60},
	} {
		buckets := families[name].GetMetric()[0].GetHistogram().GetBucket()
		if len(buckets) < 12 || len(buckets) > 16 {
			t.Errorf("%s: %d buckets, want 12 to 16", name, len(buckets))
			continue
		}
		got := [2]float64{buckets[0].GetUpperBound(), buckets[len(buckets)-1].GetUpperBound()}
		if got != want {
			t.Errorf("%s: buckets span %v, want %v", name, got, want)
		}
	}
}

func TestBuildInfo(t *testing.T) {
	for _, c := range []struct {
		build metrics.Build
		want  map[string]string
	}{
		{metrics.Build{Version: "v1.2.3", Commit: "abc123"}, map[string]string{"version": "v1.2.3", "commit": "abc123", "goversion": runtime.Version()}},
		{metrics.Build{}, map[string]string{"version": "unknown", "commit": "unknown", "goversion": runtime.Version()}},
	} {
		reg := prometheus.NewPedanticRegistry()
		metrics.New(reg, c.build)
		series := gather(t, reg)["doomproxy_build_info"].GetMetric()
		if len(series) != 1 {
			t.Fatalf("%+v: %d series, want 1", c.build, len(series))
		}
		if got := labels(series[0]); !maps.Equal(got, c.want) {
			t.Errorf("%+v: labels %v, want %v", c.build, got, c.want)
		}
		if got := series[0].GetGauge().GetValue(); got != 1 {
			t.Errorf("%+v: value %v, want 1", c.build, got)
		}
	}
}

func TestNilRegisterer(t *testing.T) {
	m := metrics.New(nil, metrics.Build{})
	m.Frames.WithLabelValues("forwarded").Add(3)
	if got := testutil.ToFloat64(m.Frames.WithLabelValues("forwarded")); got != 3 {
		t.Errorf("counter is %v, want 3", got)
	}
}

package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// counters are series of the proxy, in the order of its metrics page.
type counters []counter

type counter struct {
	name, labels string
	value        float64
}

// value returns the value of the one series with that name that has the label,
// written name="value". It is 0 if there is none.
func (cs counters) value(name, label string) float64 {
	for _, c := range cs {
		if c.name == name && strings.Contains(c.labels, label) {
			return c.value
		}
	}
	return 0
}

// told are the series that a demo shows, and those of their labels that say
// something here.
var told = []struct {
	name, labels string
}{
	{"doomproxy_requests_total", "outcome"},
	{"doomproxy_attempts_total", "kind result"},
	{"doomproxy_doom_signals_total", "kind confident"},
	{"doomproxy_doom_aborts_total", "kind mode"},
	{"doomproxy_replay_total", "mode"},
	{"doomproxy_recoveries_total", "outcome"},
	{"doomproxy_frames_total", "action"},
	{"doomproxy_discarded_bytes_total", ""},
	{"doomproxy_discarded_tokens_estimated_total", ""},
}

// countersTell reads the counters back from the admin listener.
func (s *story) countersTell(ctx context.Context) {
	s.step(5, "The counters say the same")
	s.fact("read from", s.admin+"/metrics")
	if err := s.settle(ctx); err != nil {
		s.fact("error", err.Error())
		return
	}
	for _, t := range told {
		for _, c := range s.counters {
			if c.name != t.name || c.value == 0 {
				continue
			}
			var labels []string
			for label := range strings.FieldsSeq(t.labels) {
				labels = append(labels, label+"="+c.label(label))
			}
			name := c.name
			if len(labels) > 0 {
				name = pad(name, 31)
			}
			s.printf("%s%*v  %s%s\n", indent, gutter-2, c.value, s.paint.label(name), strings.Join(labels, " "))
		}
	}
}

// settle reads the counters until the request is among them: it is counted a
// moment after its client has the end.
func (s *story) settle(ctx context.Context) (err error) {
	for {
		if s.counters, err = readCounters(ctx, s.admin+"/metrics"); err != nil {
			return err
		}
		if s.counters.value("doomproxy_requests_total", `outcome=`) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the request was not counted: %w", ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// series is one line of a metrics page. Label values hold no quotes here.
var series = regexp.MustCompile(`^(doomproxy_\w+)(?:\{(.*)\})? (\S+)$`)

func readCounters(ctx context.Context, url string) (counters, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := direct().Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var all counters
	for lines := bufio.NewScanner(resp.Body); ; {
		if !lines.Scan() {
			return all, lines.Err()
		}
		m := series.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m[1], err)
		}
		all = append(all, counter{m[1], m[2], v})
	}
}

// label returns the value of a label.
func (c counter) label(name string) string {
	for pair := range strings.SplitSeq(c.labels, ",") {
		if key, value, _ := strings.Cut(pair, "="); key == name {
			return strings.Trim(value, `"`)
		}
	}
	return ""
}

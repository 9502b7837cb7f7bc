package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// maxSession bounds one cell.
const maxSession = 2 * time.Minute

func TestClients(t *testing.T) {
	clients, cases := allClients(), allCases()
	results := newTable(t, clients, cases)
	t.Run("client", func(t *testing.T) {
		for i := range clients {
			t.Run(clients[i].name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				for j := range cases {
					t.Run(cases[j].name, func(t *testing.T) {
						results.cells[i][j] = r.cell(t, &clients[i], &cases[j], 1+i*len(cases)+j)
					})
				}
			})
		}
	})
	results.write(t)
}

// cell runs one client in one case.
func (r *rig) cell(t *testing.T, c *client, tc *testCase, seed int) cell {
	before := r.metrics(t)
	r.play(t, tc.script(seed, c.tool))
	fetch(t, http.MethodPost, r.admin+"/debug/mode", encode(map[string]string{"detector": tc.detector()}))
	s := &session{baseURL: r.baseURL, headers: tc.headers(), home: t.TempDir(), out: outFolder(c.name, tc.name)}
	if err := os.RemoveAll(s.out); err != nil {
		t.Fatal(err)
	}
	r.log.take()

	ctx, cancel := context.WithTimeout(t.Context(), maxSession)
	defer cancel()
	got, err := c.run(ctx, s)
	var f findings
	if err != nil {
		f.addf(checkRun, "%v", err)
	}
	if !slices.Equal(got, answers) {
		f.addf(checkAnswers, "the answers are %q, want %q", got, answers)
	}
	var list []received
	var raw []byte
	f = append(f, eventually(func() findings {
		list, raw = r.received(t)
		f, requests, others := sessionFindings(tc, c.tool, list)
		return append(f, countFindings(tc, requests, others, r.metrics(t).since(before))...)
	})...)
	return r.judge(t, c, tc, s, f, list, raw)
}

// eventually gives both processes some time to be right: a request is counted
// after the client has had all of it, and a connection is missed after it was
// closed.
func eventually(check func() findings) findings {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(3 * time.Second)
	for {
		f := check()
		if f == nil || time.Now().After(deadline) {
			return f
		}
		<-tick.C
	}
}

// judge makes a cell of the findings, and keeps what is needed to see why.
func (r *rig) judge(t *testing.T, c *client, tc *testCase, s *session, f findings, list []received, raw []byte) cell {
	if len(f) == 0 {
		if err := os.RemoveAll(s.out); err != nil {
			t.Error(err)
		}
		return cell{state: ok}
	}
	var report bytes.Buffer
	result := cell{state: waiting}
	for _, finding := range f {
		line := pendingLine(c.name, tc.name, finding.check)
		if line < 0 {
			result.state = failed
		} else if !slices.Contains(result.pending, line) {
			result.pending = append(result.pending, line)
		}
		fmt.Fprintf(&report, "%s: %s\n", finding.check, finding.text)
	}
	logged := r.log.take()
	for name, data := range map[string][]byte{"requests.json": raw, "proxy.log": logged, "findings": report.Bytes()} {
		if err := s.keep(name, data); err != nil {
			t.Error(err)
		}
	}
	if result.state == failed {
		t.Errorf("%s\nThe upstream was sent:\n%s\nThe proxy logged:\n%s\nMore is in %s.",
			tail(report.Bytes()), tail(overview(list)), tail(logged), s.out)
	} else {
		t.Logf("pending:\n%s\nMore is in %s.", tail(report.Bytes()), s.out)
	}
	return result
}

// overview tells of each request in a line.
func overview(list []received) []byte {
	var b bytes.Buffer
	for _, r := range list {
		var body struct {
			Input []struct{ Type, Role string }
		}
		var input []string
		if err := json.Unmarshal([]byte(r.Body), &body); err != nil {
			input = []string{err.Error()}
		}
		for _, item := range body.Input {
			if item.Type == "" || item.Type == "message" {
				item.Type = item.Role
			}
			input = append(input, item.Type)
		}
		fmt.Fprintf(&b, "%d: %s %s, %d bytes, answered with %d, left before the end: %v, input %v\n",
			r.Ordinal, r.Method, r.Path, len(r.Body), len(r.Reply), r.Gone, input)
	}
	return b.Bytes()
}

var unsafeInName = regexp.MustCompile(`[^a-z0-9.]+`)

// outFolder is where a cell's traces are kept.
func outFolder(client, when string) string {
	name := strings.Trim(unsafeInName.ReplaceAllString(strings.ToLower(client+" "+when), "-"), "-")
	path, err := filepath.Abs(filepath.Join("out", name))
	if err != nil {
		panic(err) // there is no current folder
	}
	return path
}

package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/doomproxy/doomproxy/simulate"
)

// quick is the default plan, without its waits.
func quick(a *app) {
	a.plan.answers = slices.Clone(a.plan.answers)
	for i := range a.plan.answers {
		a.plan.answers[i].Delay = time.Millisecond
	}
}

func TestDemo(t *testing.T) {
	c := begin(t, quick, nil, "demo")
	if err := c.wait(t); err != nil {
		t.Fatal(err)
	}
	out := c.stdout.String()
	wantText(
		t, out,
		`"Something must happen between Sunday and Monday."`,
		`"Wait, let me check that again." × 8`,
		"tail_repetition:128@thinking      a warning: 128 is looser than 64",
		"exact_repetition:72x2@thinking    a warning: this kind never cuts",
		"tail_repetition:32@thinking       confident: 32 is within 64",
		"the upstream saw its connection closed", "ms after it sent this report",
		"and 2 more items in its input", "+ reasoning", "+ message", "Do not mention this note.",
		"reasoning    28 deltas, closed by the proxy, as a tombstone",
		": doomproxy resample=1 trigger=tail_repetition:32@thinking",
		"response ids: 1, response.created: 1, terminal events: 1, loop reports: 0",
		"doomproxy_recoveries_total     outcome=recovered",
		"Recovered:",
	)
	for line := range strings.Lines(out) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 {
			t.Errorf("got %d columns in %q, want 100 at most", n, line)
		}
	}
	if s := c.stderr.String(); s != "" {
		t.Errorf("got %q on stderr, want nothing", s)
	}
}

func TestDemoFails(t *testing.T) {
	for name, test := range map[string]struct {
		change func(answers []simulate.Scenario)
		want   []string // the error first, then lines of the account
	}{
		"no loop": {
			func(answers []simulate.Scenario) { answers[0].Loop = nil },
			[]string{"the upstream reported no loop", "the upstream could send its answer to the end", "no second request", "the first attempt was not cut"},
		},
		"a loop that only warns": {
			func(answers []simulate.Scenario) {
				answers[0].Loop = &simulate.Loop{Triggers: []string{"tail_repetition:65@thinking"}, Deltas: 20, Then: simulate.ThenFinish}
			},
			[]string{"the upstream reported no loop that may be cut", "a warning: 65 is looser than 64"},
		},
		"a loop too late": {
			func(answers []simulate.Scenario) {
				answers[0].Loop = &simulate.Loop{Channel: simulate.ChannelResponse, Triggers: []string{"tail_repetition:8@thinking"}, Deltas: 20, Then: simulate.ThenFinish}
			},
			[]string{"the first attempt was not cut", `doomproxy_recoveries_total{outcome="recovered"} is 0`},
		},
		"a second answer that fails": {
			func(answers []simulate.Scenario) { answers[1].Failure = &simulate.Failure{After: 6} },
			[]string{"the client got response.completed 0 times", "Not recovered"},
		},
		"another answer": {
			func(answers []simulate.Scenario) { answers[1].Message = "I do not know." },
			[]string{`the client got the text "I do not know."`},
		},
		"two loops": {
			func(answers []simulate.Scenario) { answers[1] = answers[0] },
			[]string{"the upstream got 3 requests, want 2"},
		},
		"an upstream that answers with an error": {
			func(answers []simulate.Scenario) { answers[0] = simulate.Scenario{Status: http.StatusUnauthorized} },
			[]string{"the upstream reported no loop", "401"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t, func(a *app) {
				quick(a)
				test.change(a.plan.answers)
				a.plan.answers = append(a.plan.answers, simulate.Scenario{Message: a.plan.want})
			}, nil, "demo")
			var told strings.Builder
			if code := report(&told, c.wait(t)); code != 1 {
				t.Errorf("got exit code %d, want 1", code)
			}
			wantText(t, told.String(), "doomproxy: the recovery did not happen: "+test.want[0])
			wantText(t, c.stdout.String(), test.want...)
		})
	}
}

func TestDemoKeeps(t *testing.T) {
	c := begin(t, quick, nil, "demo", "--keep")
	c.stdout.find(t, "Ctrl-C ends it")
	raw, err := io.ReadAll(post(t, c.base(t)))
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, string(raw), ": doomproxy resample=1", "response.completed")
	wantText(t, c.stderr.find(t, `outcome=(\w+)`), "recovered")
	c.stop()
	if err := c.wait(t); err != nil {
		t.Errorf("got %v, want a regular end", err)
	}
}

func TestDemoInterrupted(t *testing.T) {
	c := begin(t, func(a *app) {
		quick(a)
		a.plan.answers[0] = simulate.Scenario{End: simulate.EndHang}
	}, nil, "demo")
	c.stdout.find(t, "thinking")
	c.stop()
	if err := c.wait(t); err == nil || err.Error() != "interrupted" {
		t.Errorf("got %v, want interrupted", err)
	}
}

func TestAccountInColour(t *testing.T) {
	var b strings.Builder
	a := &account{w: &b, paint: newPalette(true)}
	a.fact("name", "text")
	if want := "   \x1b[36mname         \x1b[0mtext\n"; b.String() != want {
		t.Errorf("got %q, want %q", b.String(), want)
	}
}

func TestQuoteAndWrap(t *testing.T) {
	for _, test := range []struct {
		text    string
		columns int
		want    string
	}{
		{"abc", 5, `"abc"`}, {"abcd", 5, `"ab…"`}, {"äöüß", 5, `"äö…"`}, {"a bcd", 5, `"a…"`}, {"abc", 1, `"…"`},
	} {
		if got := quote(test.text, test.columns); got != test.want {
			t.Errorf("quote(%q, %d): got %s, want %s", test.text, test.columns, got, test.want)
		}
	}
	if got, want := wrap("a bb  ccc dddddd e", 5), []string{"a bb", "ccc", "dddddd", "e"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := wrap("", 5); !slices.Equal(got, []string{""}) {
		t.Errorf("got %q, want one empty line", got)
	}
}

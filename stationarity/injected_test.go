package stationarity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/stationarity"
)

func TestInjectedMessages(t *testing.T) {
	cfg := all
	cfg.Injected = []string{"Do not repeat yourself.", " Another reminder. "}
	nudge := stationarity.NudgeText(stationarity.Finding{Threshold: 4, Tools: []string{"read"}})
	text := func(texts ...string) string {
		var parts []string
		for _, s := range texts {
			parts = append(parts, `{"type":"input_text","text":`+quote(s)+`}`)
		}
		return `[` + strings.Join(parts, ",") + `]`
	}
	for _, tc := range []struct {
		content string
		want    bool
	}{
		{text("Go on."), false},
		{quote("Go on."), false},
		{text("Do not repeat yourself."), true},
		{text("Do not repeat yourself.\n"), true},
		{quote("Do not repeat yourself."), true},
		{text("Another reminder."), true},
		{text("Do not repeat yourself. And now?"), false},
		{text(nudge), true},
		{text("I got this: " + nudge), false},
		{text("<system-reminder>\nThe list is empty.\n</system-reminder>"), true},
		{quote("<system-reminder>x</system-reminder>"), true},
		{`"\u003csystem-reminder\u003ex\u003c/system-reminder\u003e"`, true},
		{text("<system-reminder>x</system-reminder>\n\n<system-reminder>y</system-reminder> "), true},
		{text("<system-reminder>x</system-reminder>", "<environment_context><cwd>/</cwd></environment_context>"), true},
		{text("<system-reminder>x</system-reminder> And now?"), false},
		{text("And now? <system-reminder>x</system-reminder>"), false},
		{text("<system-reminder>x</system-reminder>", "And now?"), false},
		{text("And now?", "<system-reminder>x</system-reminder>"), false},
		{text("<system-reminder>x"), false},
		{text("<system-reminders>x</system-reminders>"), false},
		{text("<user_instructions>\nBe brief.\n</user_instructions>"), true},
		{text("<environment_details>x</environment_details>"), true},
		{text(`<codex_internal_context source="goal">Go on.</codex_internal_context>`), true},
		{text("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>"), true},
		{text("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>\n<environment_context>x</environment_context>"), true},
		{text("# AGENTS.md instructions are missing, write some"), false},
		{text("<task-notification>done</task-notification>"), false},
		{text("<subagent_notification>done</subagent_notification>"), false},
		{text("<html>"), false},
		{text("<"), false},
		{text(""), false},
		{text(), false},
		{text("<system-reminder>x</system-reminder>", ""), false},
		{`[{"type":"input_image","image_url":"data:"}]`, false},
		{`[{"type":"input_text","text":"<skill>x</skill>"},{"type":"input_image","image_url":"data:"}]`, false},
		{`["<skill>x</skill>"]`, false},
		{`null`, false},
		{`{}`, false},
		{quote("<skill>" + strings.Repeat("x", 1<<20) + "</skill>"), false},
	} {
		message := fmt.Sprintf(`{"type":"message","role":"user","content":%s}`, tc.content)
		want := 1
		if tc.want {
			want = 3
		}
		for _, c := range []*conversation{
			begun().repeat(2, read).add(message).repeat(1, read),
			begun().repeat(2, read).step(read).add(message),
		} {
			if got := max(stationarity.Check(c.String(), cfg).Count, 1); got != want {
				t.Errorf("%.90s: got %d times, want %d", message, got, want)
			}
		}
	}
	c := begun().repeat(2, read).add(`{"type":"message","role":"user"}`).step(read)
	wantCount(t, c, 1)
}

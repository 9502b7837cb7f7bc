package stationarity

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// nudgePrefix begins every nudge, and tells one from a message of the user's.
const nudgePrefix = "Automatic notice, not from the user: "

// Nudge returns a request's body with the nudge as the last item of its input;
// all other bytes stay. If there is nothing to be nudged about, or the input is
// no array, the body comes back as it is.
func Nudge(body string, f Finding) string {
	if f.Action != ActionNudge {
		return body
	}
	var input span
	membersBefore(body, spaceBefore(body, len(body)), func(key string, value span) {
		if key == "input" && input.hi == 0 {
			input = value
		}
	})
	items := listOf(body[input.lo:input.hi])
	if items.s == "" {
		return body
	}
	comma := ","
	if items.at == len("[") {
		comma = ""
	}
	end := input.hi - len("]")
	quoted := string(gjson.AppendJSONString(nil, NudgeText(f)))
	return body[:end] + comma + `{"type":"message","role":"user","content":[{"type":"input_text","text":` + quoted + `}]}` + body[end:]
}

// NudgeText returns what a nudge says. It names the threshold and not the count,
// so that it stays the same for as long as the repetition goes on.
func NudgeText(f Finding) string {
	pronoun := "it"
	if f.plural() {
		pronoun = "them"
	}
	return nudgePrefix + fmt.Sprintf("you have made %s %d times or more in a row. Do not make %s again, and do not poll. "+
		"If you are waiting for something, run it as a background task, or sleep once for as long as it should take and then check once. "+
		"If that is not possible, tell the user what you are waiting for, and end your turn. "+
		"If this goes on, the turn will be stopped.", f.what(), f.Threshold, pronoun)
}

// what names the calls that are repeated.
func (f Finding) what() string {
	list := ""
	if len(f.Tools) > 0 {
		list = " (" + strings.Join(f.Tools, ", ") + ")"
	}
	switch {
	case f.Cycle > 1:
		return fmt.Sprintf("the same cycle of %d steps%s", f.Cycle, list)
	case f.plural():
		return "the same calls" + list
	}
	return "the same call" + list
}

// plural reports whether what names several.
func (f Finding) plural() bool { return f.Cycle <= 1 && f.Calls > 1 }

package recovery

import (
	"strings"

	"github.com/tidwall/gjson"
)

// DefaultReminder is what an attempt is told about the one that was cut.
const DefaultReminder = "Your last output was stopped because it had begun to repeat itself. " +
	"Do not repeat it: continue with the task in a different way, or, if you are stuck, ask the user. " +
	"Do not mention this note."

// Mode is how much of a cut attempt the next one is told.
type Mode uint8

// The modes, from the most to the least.
const (
	// ModeFull replays the reasoning of the cut attempts, each followed by the
	// reminder.
	ModeFull Mode = iota
	// ModeReminder sends the reminder alone.
	ModeReminder
	// ModeOriginal sends the client's own body.
	ModeOriginal
)

// Added says what of a cut attempt was added to a Replay, named as in the
// replay metric.
type Added string

// What may be added.
const (
	AddedFull     Added = "full"          // its items and the reminder
	AddedReminder Added = "reminder_only" // the reminder
	AddedVetoed   Added = "vetoed"        // the reminder, because its items must not be replayed
)

// Replay is what the further attempts of one request are told. It grows with
// each cut and steps down when the upstream refuses it; both last as long as
// the request.
type Replay struct {
	// Reminder is the text of the reminder; empty means DefaultReminder.
	Reminder string

	mode     Mode
	cuts     int
	appended []string // JSON items of ModeFull
	items    int      // how many of them are replayed, not reminders
}

// StartAt makes the replay tell no more than mode does.
func (r *Replay) StartAt(mode Mode) { r.mode = max(r.mode, mode) }

// Add takes in a cut attempt.
func (r *Replay) Add(c *Capture) Added {
	r.cuts++
	items, ok := c.Items()
	if r.mode == ModeFull {
		r.appended = append(append(r.appended, items...), r.reminder())
		r.items += len(items)
	}
	switch {
	case !ok:
		return AddedVetoed
	case r.mode != ModeFull || len(items) == 0:
		return AddedReminder
	}
	return AddedFull
}

// StepDown makes the replay tell less, after the upstream refused it as it is,
// and reports whether there was anything left to leave out.
func (r *Replay) StepDown() bool {
	switch {
	case r.mode == ModeOriginal || r.cuts == 0:
		return false
	case r.mode == ModeFull && r.items > 0:
		r.mode = ModeReminder
	default:
		r.mode = ModeOriginal
	}
	return true
}

// Holds reports whether the body that Amend makes holds replayed reasoning.
func (r *Replay) Holds() bool { return r.mode == ModeFull && r.items > 0 }

// Amends reports whether Amend changes a body at all.
func (r *Replay) Amends() bool { return r.mode != ModeOriginal && r.cuts > 0 }

// Amend returns the client's body with the items appended to its input; all
// other bytes stay. A body whose input is neither text, array, null nor absent
// comes back as it is.
func (r *Replay) Amend(body string) string {
	switch {
	case !r.Amends():
		return body
	case r.mode == ModeFull:
		return appendInput(body, r.appended)
	default:
		return appendInput(body, []string{r.reminder()})
	}
}

func (r *Replay) reminder() string {
	text := r.Reminder
	if text == "" {
		text = DefaultReminder
	}
	return userMessage(string(gjson.AppendJSONString(nil, text)))
}

// userMessage returns a user message with the given JSON string as its text.
func userMessage(text string) string {
	return `{"type":"message","role":"user","content":[{"type":"input_text","text":` + text + `}]}`
}

// appendInput appends items to the input of a request body.
func appendInput(body string, items []string) string {
	list := strings.Join(items, ",")
	var input, last span
	members(body, 0, func(key string, value span) {
		last = value
		if key == "input" {
			input = value
		}
	})
	raw := input.of(body)
	switch {
	case !input.present():
		end := strings.LastIndexByte(body, '}')
		if end < 0 {
			return body
		}
		comma := ""
		if last.present() {
			comma = ","
		}
		return body[:end] + comma + `"input":[` + list + `]` + body[end:]
	case raw[0] == '"':
		list = "[" + userMessage(raw) + "," + list + "]"
	case raw == "null":
		list = "[" + list + "]"
	case raw[0] == '[':
		comma := ","
		if strings.TrimSpace(raw[1:len(raw)-1]) == "" {
			comma = ""
		}
		list = raw[:len(raw)-1] + comma + list + "]"
	default:
		return body
	}
	return body[:input.lo] + list + body[input.hi:]
}

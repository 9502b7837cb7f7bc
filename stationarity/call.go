package stationarity

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// call is a tool call.
type call struct {
	name   string
	sig    uint64 // of its name and arguments
	noop   bool
	output string // the JSON of its result; "" if it has none
	result uint64 // of its result, once it is needed
}

// compare is an order of calls, so that the one they were made in has no part.
func (c call) compare(d call) int {
	if n := cmp.Compare(c.sig, d.sig); n != 0 {
		return n
	}
	return cmp.Compare(c.result, d.result)
}

// maxNoOp is how long the arguments may be of a call that does nothing.
const maxNoOp = 4 << 10

// call reads a call from its item.
func (r *reader) call(it *item, output string) call {
	c := call{name: it.name, output: output}
	var asked string
	switch it.kind {
	case "function_call":
		asked = it.arguments
	case "custom_tool_call":
		asked = it.input
	case "local_shell_call":
		asked = it.action
	default:
		// Of a kind that is not known, or made and answered by the upstream:
		// all that it says counts.
		c.name = cmp.Or(c.name, strings.TrimSuffix(it.kind, "_call"))
		c.noop = it.kind == "shell_call" && doesNothing(it.action)
		c.sig = r.other(it)
		return c
	}
	c.name = cmp.Or(c.name, strings.TrimSuffix(it.kind, "_call"))
	c.sig = mix(r.text(it.kind), r.text(text(it.namespace)+"\x00"+c.name))
	if isShell(c.name) && len(asked) <= maxNoOp && doesNothing(asked) {
		c.noop = true
		return c
	}
	c.sig = mix(c.sig, r.arguments(asked))
	return c
}

// other returns the signature of a call of any kind.
func (r *reader) other(it *item) uint64 {
	var sum uint64
	membersBefore(it.raw, len(it.raw), func(key string, value span) {
		switch key {
		case "id", "call_id", "status":
		default:
			sum += mix(r.text(key), r.arguments(it.raw[value.lo:value.hi]))
		}
	})
	return mix(r.text(it.kind), sum)
}

// shellTools are the names, in lower case, that agents give to their shell.
var shellTools = map[string]bool{
	"bash": true, "sh": true, "zsh": true, "shell": true, "terminal": true, "exec": true,
	"powershell": true, "pwsh": true, "cmd": true, "local_shell": true, "shell_command": true,
	"run_shell_command": true, "exec_command": true, "execute_command": true, "run_command": true,
	"execute_bash": true, "run_terminal_cmd": true, "run_terminal_command": true,
	"run_in_terminal": true, "container.exec": true,
}

func isShell(name string) bool { return shellTools[strings.ToLower(name)] }

// doesNothing reports whether the command of a shell call is `true`. asked is the
// JSON of its arguments, which may be text that holds JSON, or the command.
func doesNothing(asked string) bool {
	if strings.HasPrefix(asked, `"`) {
		asked = text(asked)
		if isTrue(asked) {
			return true
		}
	}
	args := gjson.Parse(asked)
	for _, key := range []string{"command", "cmd", "commands", "script"} {
		if command := args.Get(key); command.Exists() {
			return isTrue(commandLine(command))
		}
	}
	return false
}

// commandLine returns what a shell is to run, of a list the one word in it or
// what stands behind `sh -c`.
func commandLine(command gjson.Result) string {
	if !command.IsArray() {
		return command.Str
	}
	words := command.Array()
	switch {
	case len(words) == 1:
		return words[0].Str
	case len(words) == 3 && slices.Contains([]string{"-c", "-lc", "-ic"}, words[1].Str):
		return words[2].Str
	}
	return ""
}

func isTrue(command string) bool { return strings.EqualFold(strings.TrimSpace(command), "true") }

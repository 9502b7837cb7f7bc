package stationarity

import "strings"

// item is one item of an input. All but raw, kind and name are JSON values, ""
// where the item has no such member.
type item struct {
	raw  string
	kind string // its type
	name string // of the tool

	role, id, callID, namespace string
	arguments, input, action    string // what a call asks for, by its kind
	output                      string
	content                     string
}

// side says who made an item, which tells where a step begins and ends.
type side uint8

const (
	sideNone   side = iota // nobody, or the model, and it is no call
	sideCall               // the model
	sideClient             // the client
	sideOutput             // the client: it is a call's result
	sideUser               // the user, or the client
	sideEnd                // it stands for a part of the conversation that is not there
)

// parse reads the item that ends at end, and returns where it begins.
func (it *item) parse(s string, end int) (start int, ok bool) {
	*it = item{}
	if end > 0 && s[end-1] != '}' {
		return valueBefore(s, end)
	}
	start, ok = membersBefore(s, end, func(key string, at span) {
		value := s[at.lo:at.hi]
		var into *string
		switch key {
		case "type":
			into, value = &it.kind, text(value)
		case "name":
			into, value = &it.name, text(value)
		case "role":
			into = &it.role
		case "id":
			into = &it.id
		case "call_id":
			into = &it.callID
		case "namespace":
			into = &it.namespace
		case "arguments":
			into = &it.arguments
		case "input":
			into = &it.input
		case "action":
			into = &it.action
		case "output":
			into = &it.output
		case "content":
			into = &it.content
		default:
			return
		}
		// Of two members with one key, readers of JSON take the last.
		if *into == "" {
			*into = value
		}
	})
	if ok {
		it.raw = s[start:end]
	}
	return start, ok
}

func (it *item) side() side {
	switch {
	case it.kind == "" || it.kind == "message":
		switch text(it.role) {
		case "user":
			return sideUser
		case "system", "developer":
			return sideClient
		}
		return sideNone
	case strings.HasSuffix(it.kind, "_output"):
		return sideOutput
	case strings.HasSuffix(it.kind, "_call"):
		return sideCall
	case strings.Contains(it.kind, "compaction"):
		return sideEnd
	}
	return sideNone
}

// keys returns what ties an output to its call. The output of a local shell call
// has only an id, and that is the call's.
func (it *item) keys() (key, other string) {
	if it.callID == "" {
		return it.id, it.id
	}
	return it.callID, it.id
}

package recovery_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
)

const (
	tombstoned = `{"type":"reasoning","id":"rs_a","encrypted_content":"doomproxy-tombstone-v1:AAAAAAAAAAAAAAAAAAAAAA","summary":[]}`
	// Among other members, with white space and nested values.
	tombstoned2 = "{ \"summary\" : [ { \"type\":\"summary_text\" , \"text\":\"}]\" } ] ,\n\t\"encrypted_content\" : \"doomproxy-tombstone-v1:\\u0041\" , \"type\" : \"reasoning\" }"
	quoting     = `{"role":"user","content":"what is doomproxy-tombstone-v1:AAAA? {\"type\":\"reasoning\"}"}`
)

var scrubCases = []struct {
	name, body, want string
	dropped          int
}{
	{"first", `{"input":[` + tombstoned + `,1,2]}`, `{"input":[1,2]}`, 1},
	{"middle", `{"input":[1,` + tombstoned + `,2]}`, `{"input":[1,2]}`, 1},
	{"last", `{"input":[1,2,` + tombstoned + `]}`, `{"input":[1,2]}`, 1},
	{"only", `{"input":[` + tombstoned + `]}`, `{"input":[]}`, 1},
	{"only ones", `{"input":[` + tombstoned + `,` + tombstoned2 + `]}`, `{"input":[]}`, 2},
	{"consecutive", `{"input":[1,` + tombstoned + `,` + tombstoned + `,2]}`, `{"input":[1,2]}`, 2},
	{"first and last", `{"input":[` + tombstoned + `,1,` + tombstoned2 + `]}`, `{"input":[1]}`, 2},
	{"in turn", `{"input":[` + tombstoned + `,1,` + tombstoned + `,2,` + tombstoned + `]}`, `{"input":[1,2]}`, 3},
	{
		"white space", "{\n  \"input\" : [\n    1.0 ,\r\n    " + tombstoned + "\t,\n    {\"a\" : [ ]}\n  ] ,\n  \"n\": 1e2\n}\n",
		"{\n  \"input\" : [\n    1.0 ,\r\n    {\"a\" : [ ]}\n  ] ,\n  \"n\": 1e2\n}\n", 1,
	},
	{"white space, last", "{\"input\":[ 1 , " + tombstoned + " ] }", "{\"input\":[ 1 ] }", 1},
	{"white space, only", "{\"input\":[ " + tombstoned + " ] }", "{\"input\":[  ] }", 1},
	{"items", `{"items":[` + tombstoned + `,1]}`, `{"items":[1]}`, 1},
	{"input and items", `{"items":[` + tombstoned + `,1],"x":0,"input":[2,` + tombstoned + `]}`, `{"items":[1],"x":0,"input":[2]}`, 2},
	{"key written with escapes", `{"\u0069nput":[` + tombstoned + `,1]}`, `{"\u0069nput":[1]}`, 1},
	{"quoted in a message, kept", `{"input":[` + quoting + `,` + tombstoned + `]}`, `{"input":[` + quoting + `]}`, 1},

	{"quoted in a message", `{"input":[` + quoting + `]}`, "", 0},
	{"quoted in reasoning", `{"input":[{"type":"reasoning","encrypted_content":"gAAA","summary":[{"text":"doomproxy-tombstone-v1:"}]}]}`, "", 0},
	{"not at the start", `{"input":[{"type":"reasoning","encrypted_content":"gAAA doomproxy-tombstone-v1:A"}]}`, "", 0},
	{"another version", `{"input":[{"type":"reasoning","encrypted_content":"doomproxy-tombstone-v2:A"}]}`, "", 0},
	{"another type", `{"input":[{"type":"message","encrypted_content":"doomproxy-tombstone-v1:A"}]}`, "", 0},
	{"no type", `{"input":[{"encrypted_content":"doomproxy-tombstone-v1:A"}]}`, "", 0},
	{"no text", `{"input":[{"type":"reasoning","encrypted_content":["doomproxy-tombstone-v1:A"]}]}`, "", 0},
	{"deeper", `{"input":[[` + tombstoned + `],{"content":[` + tombstoned + `]}],"x":{"input":[` + tombstoned + `]}}`, "", 0},
	{"another array", `{"tools":[` + tombstoned + `],"input":[1]}`, "", 0},
	{"text", `{"input":"doomproxy-tombstone-v1:A"}`, "", 0},
	{"object", `{"input":` + tombstoned + `}`, "", 0},
	{"no object", `[` + tombstoned + `]`, "", 0},
	{"no JSON", `{"input":[` + tombstoned + `,1]`, "", 0},
	{"none", `{"input":[1,2,3]}`, "", 0},
	{"nothing", ``, "", 0},
}

func TestScrub(t *testing.T) {
	for _, tc := range scrubCases {
		if tc.dropped == 0 {
			tc.want = tc.body
		}
		got, dropped := scrub(tc.body)
		if got != tc.want || dropped != tc.dropped {
			t.Errorf("%s:\ngot  %d %s\nwant %d %s", tc.name, dropped, got, tc.dropped, tc.want)
		}
	}
}

// What a View makes is what Scrub knows.
func TestScrubDropsWhatAViewMade(t *testing.T) {
	v := recovery.NewView(recovery.CloseTombstone, recovery.Response{})
	sendData(v, `{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_a","type":"reasoning"}}`)
	item, err := json.Marshal(decode(t, split(t, splice(v))[0])["item"])
	if err != nil {
		t.Fatal(err)
	}
	if got, dropped := scrub(`{"input":[` + string(item) + `]}`); got != `{"input":[]}` || dropped != 1 {
		t.Errorf("got %s of %s, want none left", got, item)
	}
}

// scrubbed does with encoding/json what Scrub does with the text.
func scrubbed(t *testing.T, body string) any {
	t.Helper()
	top := value(t, body)
	object, _ := top.(map[string]any)
	for _, key := range []string{"input", "items"} {
		array, ok := object[key].([]any)
		if !ok {
			continue
		}
		object[key] = slices.DeleteFunc(array, func(item any) bool {
			o, _ := item.(map[string]any)
			enc, _ := o["encrypted_content"].(string)
			return o["type"] == "reasoning" && strings.HasPrefix(enc, recovery.TombstonePrefix)
		})
	}
	return top
}

func FuzzScrub(f *testing.F) {
	for _, tc := range scrubCases {
		f.Add(tc.body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		got, dropped := scrub(body)
		if dropped == 0 && got != body {
			t.Errorf("got %q, want the same", got)
		}
		if !json.Valid([]byte(body)) {
			if dropped != 0 {
				t.Errorf("got %d dropped of what is no JSON, want none", dropped)
			}
			return
		}
		if !json.Valid([]byte(got)) {
			t.Fatalf("got %q of %q, want JSON", got, body)
		}
		if strings.Contains(body, `\`) {
			return // a prefix written with escapes is not looked for
		}
		if want := scrubbed(t, body); !reflect.DeepEqual(value(t, got), want) {
			t.Errorf("%q: got %q, want %v", body, got, want)
		}
	})
}

// scrub drops the tombstones of a body, as the proxy does.
func scrub(body string) (scrubbed string, dropped int) {
	if !recovery.ValidJSON(body) {
		return body, 0
	}
	tombstones := slices.DeleteFunc(recovery.ReturnedItems(body), func(r recovery.Returned) bool { return !r.Tombstone })
	return recovery.Drop(body, tombstones), len(tombstones)
}

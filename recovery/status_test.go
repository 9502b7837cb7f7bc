package recovery_test

import (
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/recovery"
	"github.com/doomproxy/doomproxy/sseframe"
)

// A client that got an item with a status wants one at the item's end, too; a
// client of an upstream that sends none gets none.
func TestTombstoneHasAStatusIfTheItemHad(t *testing.T) {
	for item, want := range map[string]bool{
		`{"id":"rs_1","type":"reasoning","status":"in_progress","summary":[]}`: true,
		`{"id":"rs_1","type":"reasoning","status":null,"summary":[]}`:          false,
		`{"id":"rs_1","type":"reasoning","summary":[]}`:                        false,
	} {
		var p recovery.Parser
		v := recovery.NewView(recovery.CloseTombstone, recovery.Response{})
		ev := p.Parse(sseframe.Frame{Raw: []byte("data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":" + item + "}\n\n")})
		v.Forward(ev)
		raw, _ := v.Splice("cut")
		if got := strings.Contains(string(raw), `"type":"reasoning","status":"completed","summary":[]`); got != want {
			t.Errorf("%s: got status %v, want %v in %s", item, got, want, raw)
		}
	}
}

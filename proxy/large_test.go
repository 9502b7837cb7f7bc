package proxy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/simulate"
)

// codexLike is a request as codex sends it with account login, of at least size
// bytes.
func codexLike(size int) string {
	return fmt.Sprintf(`{"model":"m","store":false,"stream":true,"include":["reasoning.encrypted_content"],"prompt_cache_key":"k","instructions":%q,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]}]}`,
		strings.Repeat("Work with care. ", size/16))
}

// A compressed request of an agent goes on as it came, and loops are recovered.
func TestCompressedAgentRequest(t *testing.T) {
	body := codexLike(64 << 10)
	wire := encode(t, "zstd", body)
	r := newRig(t, nil, loop(), simulate.Scenario{Message: "fine"})
	raw := r.answer(wire, "Content-Encoding", "zstd", "User-Agent", "codex_exec/0.171.0", "Accept", "text/event-stream")
	if err := checkI3(raw, events(t, raw)); err != nil {
		t.Errorf("%v in:\n%s", err, raw)
	}
	if strings.Contains(raw, "tombstone") {
		t.Error("a client that keeps tombstones for good was sent one")
	}
	if string(r.upstream(0).Body) != wire || r.upstream(0).Header.Get("Content-Encoding") != "zstd" {
		t.Error("the first request was changed")
	}
	second := r.upstream(1)
	if second.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(string(second.Body), body[:len(body)-2]) {
		t.Error("the second request is not the client's body, plain, with items appended")
	}
	if got, want := kinds(input(t, second)), []string{"user", "reasoning", "reminder"}; !slices.Equal(got, want) {
		t.Errorf("got input %v, want %v", got, want)
	}
}

// A conversation of 20 MB, images inlined, is recovered as any other.
func TestLargeBody(t *testing.T) {
	image := `{"type":"input_image","image_url":"data:image/png;base64,` + strings.Repeat("iVBORw0KGgo", 1<<20/11) + `"}`
	message := `{"type":"message","role":"user","content":[{"type":"input_text","text":"look"},` + image + `]}`
	list := strings.Repeat(message+",", 19) + message
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprint(stream), func(t *testing.T) {
			body := fmt.Sprintf(`{"model":"m","stream":%v,"input":[%s]}`, stream, list)
			if len(body) < 19<<20 {
				t.Fatalf("got a body of %d bytes", len(body))
			}
			r := newRig(t, nil, loop(), simulate.Scenario{Message: "fine"})
			resp, raw, err := r.stream(body)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(raw, "fine") {
				t.Fatalf("got %d, %v: %.300s", resp.StatusCode, err, raw)
			}
			if stream {
				if err := checkI3(raw, events(t, raw)); err != nil {
					t.Error(err)
				}
			} else if !json.Valid([]byte(raw)) {
				t.Errorf("got no JSON: %.300s", raw)
			}
			r.wantRequests(2)
			r.settled(1)
			r.wantMetric(1, "doomproxy_recoveries_total", "outcome", "recovered")
			if got := string(r.upstream(1).Body); !strings.Contains(got, list) || len(got) < len(body) {
				t.Error("the second request lost something of the conversation")
			}
		})
	}
}

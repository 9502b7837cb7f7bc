package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// An agent whose request an operator cancels sends it again, is refused, and
// stops: it does not go on to burn what the operator wanted to save.
func TestCancelledAgentsStop(t *testing.T) {
	for _, name := range []string{"codex", "pi"} {
		t.Run(name, func(t *testing.T) {
			c := named(t, name)
			r := newRig(t)
			r.play(t, []map[string]any{{"when": `"` + c.tool.name + `"`, "limit": 6, "end": "hang"}})
			ctx, cancel := context.WithTimeout(t.Context(), maxSession)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := c.run(ctx, &session{baseURL: r.baseURL, headers: map[string]string{}, home: t.TempDir(), out: outFolder(c.name, t.Name())})
				ended <- err
			}()
			var id string
			waits := time.NewTicker(20 * time.Millisecond)
			defer waits.Stop()
			for id == "" {
				select {
				case <-waits.C:
					var state struct {
						Running []struct{ ID, Phase string }
					}
					if err := json.Unmarshal(fetch(t, http.MethodGet, r.admin+"/debug/requests", nil), &state); err != nil {
						t.Fatal(err)
					}
					for _, running := range state.Running {
						if running.Phase == "thinking" {
							id = running.ID
						}
					}
				case err := <-ended:
					t.Fatalf("it ended before it was cancelled: %v", err)
				}
			}
			fetch(t, http.MethodPost, r.admin+"/debug/requests/"+id+"/cancel", nil)
			err := <-ended
			if ctx.Err() != nil {
				t.Fatalf("it goes on: %v", err)
			}
			if err == nil || !strings.Contains(err.Error(), "operator cancelled") {
				t.Errorf("it ended with %v, want the proxy's error", err)
			}
			list, _ := r.received(t)
			if n := len(list); n != 1 {
				t.Errorf("the upstream was sent %d requests, want 1:\n%s", n, overview(list))
			}
			m := r.metrics(t)
			if n := m.sum("doomproxy_requests_total", "outcome", "cancelled"); n != 1 {
				t.Errorf("%v requests were cancelled, want 1", n)
			}
			if n := m.sum("doomproxy_requests_total", "outcome", "rejected", "code", "400"); n < 1 {
				t.Error("no request was refused")
			}
		})
	}
}

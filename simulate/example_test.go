package simulate_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/doomproxy/doomproxy/simulate"
)

// The first request gets an answer that runs into a loop, all others a healthy one.
func Example() {
	upstream := &simulate.Server{
		Script: func(ordinal int, _ *simulate.Request) simulate.Scenario {
			if ordinal == 0 {
				return simulate.Scenario{Loop: &simulate.Loop{After: 2, Deltas: 16, Then: simulate.ThenFinish}}
			}
			return simulate.Scenario{}
		},
	}
	srv := httptest.NewServer(upstream)
	defer srv.Close()

	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, srv.URL+"/v1/responses",
		strings.NewReader(`{"model":"sim-1","input":"hi","stream":true}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set(simulate.HeaderDoomLoopCheck, "1024")
	res, err := srv.Client().Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = res.Body.Close() }()

	next := false
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if next {
			fmt.Println(lines.Text())
		}
		next = lines.Text() == "event: response.doom_loop_check"
	}
	fmt.Println("requests:", len(upstream.Requests()))
	// Output:
	// data: {"sequence_number":14,"type":"response.doom_loop_check","doom_loop_check":{"triggers":["tail_repetition:64@thinking"]}}
	// data: {"sequence_number":23,"type":"response.doom_loop_check","doom_loop_check":{"triggers":["tail_repetition:64@thinking","tail_repetition:32@thinking"]}}
	// requests: 1
}

func ExampleLoadScript() {
	script, err := simulate.LoadScript(strings.NewReader(`[
		{"status": 503},
		{"loop": {"after": 3, "deltas": 40, "then": "incomplete"}, "delay": "5ms"},
		{"message": "All done."}
	]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(script(0, nil).Status, script(1, nil).Delay, script(7, nil).Message)
	// Output: 503 5ms All done.
}

package stationarity_test

import (
	"fmt"
	"strings"

	"github.com/doomproxy/doomproxy/stationarity"
	"github.com/tidwall/gjson"
)

func Example() {
	step := `{"type":"function_call","call_id":"1","name":"read","arguments":"{\"path\":\"a.go\"}"},` +
		`{"type":"function_call_output","call_id":"1","output":"package a"}`
	body := `{"model":"m","input":[{"role":"user","content":"Fix it."}` + strings.Repeat(","+step, 5) + `]}`

	found := stationarity.Check(gjson.Get(body, "input").Raw, stationarity.Config{})
	fmt.Println(found.Action, found.Tier, found.Count, found.Tools)

	body = stationarity.Nudge(body, found)
	said := gjson.Get(body, "input|@reverse|0.content.0.text").Str
	fmt.Println(strings.Split(said, ". ")[0])
	// Output:
	// nudge tight 5 [read]
	// Automatic notice, not from the user: you have made the same call (read) 4 times or more in a row
}

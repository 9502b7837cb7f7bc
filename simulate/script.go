package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// maxScript bounds a script file, in bytes. A script is written by hand, or
// holds a few captured streams.
const maxScript = 16 << 20

// LoadScript reads a script: a JSON list of scenarios, one for each ordinal,
// the last one for all that follow. It reads to the end, 16 MiB at most. An
// error names the entry, counted from 0, and the key at fault. The function is
// for [Server.Script] and safe for concurrent use.
//
// An entry may have one more key, "when": text that has to stand in the body of
// a request that gets it. If any entry has one, ordinals do not count: a request
// gets the first entry that fits it and was not given out before, or else the
// last that fits, again. One that no entry fits gets a healthy answer. So an
// agent that asks for a title in between does not upset the order of the rest.
func LoadScript(r io.Reader) (func(ordinal int, req *Request) Scenario, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxScript+1))
	if err != nil {
		return nil, fmt.Errorf("read script: %w", err)
	}
	if len(data) > maxScript {
		return nil, fmt.Errorf("script: larger than %d bytes", maxScript)
	}
	var entries []json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("script: want a list of scenarios: %w", err)
	}
	if len(entries) == 0 {
		return nil, errors.New("script: the list is empty")
	}
	var sc script
	for i, data := range entries {
		e, err := readEntry(data)
		if err != nil {
			return nil, fmt.Errorf("script: entry %d: %w", i, err)
		}
		sc.entries = append(sc.entries, e)
		sc.picky = sc.picky || e.when != ""
	}
	return sc.next, nil
}

// script is a script that is being played.
type script struct {
	entries []entry
	picky   bool // some entry has a "when"

	mu sync.Mutex // guards given of the entries
}

// entry is one scenario of a script.
type entry struct {
	Scenario
	when  string // stands in the body of the requests it fits
	given bool
}

func readEntry(data []byte) (entry, error) {
	var in struct {
		scenarioJSON
		When string `json:"when"`
	}
	if err := decodeStrict(data, &in); err != nil {
		return entry{}, err
	}
	e := entry{Scenario: in.scenario(), when: in.When}
	return e, e.Validate()
}

func (sc *script) next(ordinal int, req *Request) Scenario {
	if !sc.picky {
		return sc.entries[min(ordinal, len(sc.entries)-1)].Scenario
	}
	sc.mu.Lock()
	defer sc.mu.Unlock()
	var again Scenario
	for i := range sc.entries {
		e := &sc.entries[i]
		if !bytes.Contains(req.Body, []byte(e.when)) {
			continue
		}
		if !e.given {
			e.given = true
			return e.Scenario
		}
		again = e.Scenario
	}
	return again
}

// plainScenario is a Scenario without its methods.
type plainScenario Scenario

// scenarioJSON replaces the fields whose JSON is not the default one.
type scenarioJSON struct {
	plainScenario
	Delay duration `json:"delay,omitzero"`
}

// MarshalJSON writes what UnmarshalJSON reads. Split and Before are left out.
func (sc Scenario) MarshalJSON() ([]byte, error) {
	return json.Marshal(scenarioJSON{plainScenario(sc), duration(sc.Delay)})
}

// UnmarshalJSON reads one scenario; an unknown key is an error, also inside it.
func (sc *Scenario) UnmarshalJSON(data []byte) error {
	var in scenarioJSON
	if err := decodeStrict(data, &in); err != nil {
		return err
	}
	*sc = in.scenario()
	return nil
}

func (in *scenarioJSON) scenario() Scenario {
	sc := Scenario(in.plainScenario)
	sc.Delay = time.Duration(in.Delay)
	return sc
}

// decodeStrict reads JSON in which an unknown key is an error.
func decodeStrict(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// duration is a time.Duration that is text in JSON, such as "5ms".
type duration time.Duration

func (d duration) MarshalText() ([]byte, error) {
	return []byte(time.Duration(d).String()), nil
}

func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	*d = duration(v)
	return err
}

package simulate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// maxScript bounds a script file, in bytes. A script is written by hand, or
// holds a few captured streams.
const maxScript = 16 << 20

// LoadScript reads a script: a JSON list of scenarios, one for each ordinal,
// the last one for all that follow. It reads to the end, 16 MiB at most. An
// error names the entry, counted from 0, and the key at fault. The function is
// for [Server.Script] and safe for concurrent use.
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
	list := make([]Scenario, len(entries))
	for i, entry := range entries {
		if err := json.Unmarshal(entry, &list[i]); err != nil {
			return nil, fmt.Errorf("script: entry %d: %w", i, err)
		}
		if err := list[i].Validate(); err != nil {
			return nil, fmt.Errorf("script: entry %d: %w", i, err)
		}
	}
	return func(ordinal int, _ *Request) Scenario {
		return list[min(ordinal, len(list)-1)]
	}, nil
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
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&in); err != nil {
		return err
	}
	*sc = Scenario(in.plainScenario)
	sc.Delay = time.Duration(in.Delay)
	return nil
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

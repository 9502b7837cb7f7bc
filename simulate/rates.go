package simulate

import "time"

// Rates makes a script of chance: for load, and for trying things out.
type Rates struct {
	// Loop and Fail are the shares of requests that loop and that fail, from 0
	// to 1. If they add up to more than 1, Fail comes first. 0 means none.
	Loop, Fail float64
	// Delay is [Scenario.Delay] of every answer. 0 or less means no waiting.
	Delay time.Duration
	// Seed makes two runs differ: in what happens to a request, and (as
	// [Scenario.Seed]) in ids and texts. 0 is a seed like any other.
	Seed uint64
}

// Script gives the function for [Server.Script]. What it returns depends on
// Seed and the ordinal alone; it is safe for concurrent use.
//
// A request that fails gets, with equal chance, a 500, a 503, a 429 that asks
// for a second's patience, a connection dropped before the headers, or one
// dropped in mid-thought. One that loops starts after a few healthy deltas,
// repeats itself 160 times, and then is incomplete for max_output_tokens, so
// that a proxy that has given up cutting gets an end, as in real life.
func (r Rates) Script() func(ordinal int, req *Request) Scenario {
	return func(ordinal int, _ *Request) Scenario {
		h := mix(mix(r.Seed) ^ uint64(ordinal)) // #nosec G115 -- to be mixed, any bits will do
		chance := float64(h>>11) / (1 << 53)    // 0 <= chance < 1
		detail := mix(h)

		sc := Scenario{Seed: r.Seed, Delay: max(r.Delay, 0)}
		switch {
		case chance < r.Fail:
			switch detail % 5 {
			case 0:
				sc.Status = 500
			case 1:
				sc.Status = 503
			case 2:
				sc.Status, sc.Header = 429, map[string]string{"Retry-After": "1"}
			case 3:
				sc.End = EndRefuse
			default:
				sc.Limit, sc.End = 5, EndAbort
			}
		case chance < r.Fail+r.Loop:
			sc.Loop = &Loop{After: 2 + int(detail%7), Deltas: 160, Then: ThenIncomplete}
		}
		return sc
	}
}

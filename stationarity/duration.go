package stationarity

import "strings"

// unit is a unit of time.
type unit struct {
	rank  int  // more is longer
	alone bool // it makes a duration of one number, with no blank between
}

// The units. The shortest need another before or behind them: 5m is metres and CPU
// shares, too, and 3d a number of dimensions.
var units = map[string]unit{
	"d": {rank: 6}, "h": {rank: 5}, "m": {rank: 4},
	"s": {3, true}, "ms": {2, true}, "us": {1, true}, "µs": {1, true}, "μs": {1, true}, "ns": {0, true},
	"hr": {5, true}, "hrs": {5, true}, "min": {4, true}, "mins": {4, true}, "sec": {3, true}, "secs": {3, true},
	"hour": {5, true}, "hours": {5, true}, "minute": {4, true}, "minutes": {4, true},
	"second": {3, true}, "seconds": {3, true},
}

// spaced are the units that make a duration of a number before a blank.
var spaced = map[string]bool{
	"ms": true, "us": true, "µs": true, "μs": true, "ns": true, "sec": true, "secs": true, "mins": true, "hrs": true,
	"second": true, "seconds": true, "minute": true, "minutes": true, "hour": true, "hours": true,
	"milliseconds": true, "microseconds": true, "nanoseconds": true,
}

// maxUnit is the length of the longest of them.
const maxUnit = len("milliseconds")

// duration returns the end of the duration at i, 0 if there is none: 12ms, 1.5s, 1h2m3.5s,
// 0.25 seconds.
func duration(s string, i int) int {
	rank := 7
	for first := true; ; first = false {
		whole := digits(s, i)
		end := fraction(s, whole)
		if end == i {
			return 0
		}
		hi := letterRun(s, end)
		if hi == end {
			if !first || !strings.HasPrefix(s[end:], " ") {
				return 0
			}
			hi = letterRun(s, end+1)
			name := s[end+1 : hi]
			if !boundary(s, hi) || !spaced[name] && (name != "s" || end == whole) {
				return 0
			}
			return hi
		}
		u, ok := units[s[end:hi]]
		if !ok || u.rank >= rank {
			return 0
		}
		if boundary(s, hi) {
			if first && !u.alone {
				return 0
			}
			return hi
		}
		rank, i = u.rank, hi
	}
}

// letterRun returns the end of the letters at i that may be a unit, the sign for
// micro included, in both of its forms.
func letterRun(s string, i int) int {
	for end := min(i+maxUnit+1, len(s)); i < end; {
		switch {
		case 'a' <= s[i] && s[i] <= 'z':
			i++
		case strings.HasPrefix(s[i:], "µ"), strings.HasPrefix(s[i:], "μ"):
			i += 2
		default:
			return i
		}
	}
	return i
}

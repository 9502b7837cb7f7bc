package detect

// profile holds the thresholds of a channel. They were tuned on 638 MB of
// ordinary text and on synthetic loops; docs/detector.md says what they reach.
type profile struct {
	exact      [kinds]int // least repeated bytes, by kind of unit
	exactTimes times

	counter      int // least repeated bytes of folded text
	counterTimes times

	words   int // words of the window that Saturation looks at
	percent int // of them must end a phrase that was seen before,
	seen    int // and that so many times
}

// times is the least number of copies, by the length of the unit. A short unit
// comes often without a loop; that a page comes three times is no chance.
type times struct{ short, medium, long int }

// of returns the number for a unit of period bytes.
func (t times) of(period int) int {
	switch {
	case period < 64:
		return t.short
	case period < 512:
		return t.medium
	default:
		return t.long
	}
}

// least returns how many bytes a unit of period bytes must repeat for.
func (t times) least(minimum, period int) int {
	return max(minimum, t.of(period)*period)
}

var thinkingProfile = profile{
	exact:        [kinds]int{words: 768, marks: 1024, data: 2048},
	exactTimes:   times{short: 12, medium: 6, long: 3},
	counter:      1536,
	counterTimes: times{short: 16, medium: 12, long: 8},
	words:        512,
	percent:      90,
	seen:         4,
}

// writtenProfile is for text that is of use to someone, and may well repeat.
var writtenProfile = profile{
	exact:        [kinds]int{words: 2048, marks: 8192, data: 16384},
	exactTimes:   times{short: 24, medium: 12, long: 5},
	counter:      6144,
	counterTimes: times{short: 48, medium: 24, long: 16},
	words:        1024,
	percent:      96,
	seen:         6,
}

func (c Channel) profile() *profile {
	if c == Thinking {
		return &thinkingProfile
	}
	return &writtenProfile
}

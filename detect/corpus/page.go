package corpus

import (
	"fmt"
	"math/rand/v2"
)

// page is a text being written.
type page struct {
	r     *rand.Rand
	text  []byte
	onset int // -1 before the loop begins
}

func newPage(seed, shape uint64) *page {
	return &page{r: rand.New(rand.NewPCG(seed, shape)), onset: -1} // #nosec G404 -- no secret, but the same each time
}

func (p *page) add(s string) { p.text = append(p.text, s...) }

func (p *page) addf(format string, args ...any) { p.text = fmt.Appendf(p.text, format, args...) }

// loopLen is how many bytes a loop goes on for, if nothing else is said: more
// than any detector should need.
const loopLen = 24 << 10

// begin writes some thoughts, at times many, and marks the place behind them as
// the onset of a loop.
func (p *page) begin() {
	p.thoughts(p.between(200, 6000))
	if p.r.IntN(8) == 0 {
		p.thoughts(p.between(10000, 60000))
	}
	p.onset = len(p.text)
}

// loop is a whole text: some thoughts, and a unit that repeats without end. The
// last copy is cut off anywhere.
func (p *page) loop(unit string) {
	p.begin()
	p.repeat(unit, max(loopLen, 6*len(unit)))
}

// repeat writes a unit over and over, n bytes in all.
func (p *page) repeat(unit string, n int) {
	end := len(p.text) + n
	for len(p.text) < end {
		p.add(unit)
	}
	p.text = p.text[:end]
}

// going calls copy until the loop is loopLen bytes long.
func (p *page) going(next func(i int)) {
	p.begin()
	for i := 1; len(p.text) < p.onset+loopLen; i++ {
		next(i)
	}
}

// between returns a number from low to high-1.
func (p *page) between(low, high int) int { return low + p.r.IntN(high-low) }

func (p *page) pick(of ...string) string { return of[p.r.IntN(len(of))] }

// times calls do with 1 to n, where n is between low and high-1.
func (p *page) times(low, high int, do func(i int)) {
	n := p.between(low, high)
	for i := 1; i <= n; i++ {
		do(i)
	}
}

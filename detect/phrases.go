package detect

const (
	// countsMax is how many phrases are counted at the same time; 4,096 are
	// about 25 KiB of prose that never repeats. A loop needs only its own.
	countsMax = 4096
	countsMin = 512
	// ways is how many places there are for a phrase.
	ways = 8

	countBits = 3
	tagBits   = 16 - countBits
	countMask = 1<<countBits - 1
	// minBits is how many bits of the hash choose the place in the shortest
	// table. The tag is what follows them, so that a longer table finds in it
	// the bits that it needs more.
	minBits = 6
)

// phraseCounts counts phrases, each up to 7, in little memory: a place holds 13
// bits of the phrase's hash and its count. Where eight others are in the way, the
// one seen longest ago gives way; so a loop soon has the places it needs.
type phraseCounts struct {
	places []uint16
	added  int // phrases that had no place when they came
}

// count counts a phrase by its hash and returns how often it had come before,
// at most 7.
func (p *phraseCounts) count(hash uint64) int {
	if p.added >= len(p.places)/2 && len(p.places) < countsMax {
		p.grow()
	}
	hash = hash * 0x9E3779B97F4A7C15 >> (64 - minBits - tagBits) // the best mixed bits
	first := int(hash) & (len(p.places)/ways - 1) * ways         // #nosec G115 -- 20 bits
	set := p.places[first : first+ways]
	tag := uint16(hash>>minBits) << countBits // #nosec G115 -- the bits above it are not needed
	for i, place := range set {
		if count := place & countMask; count != 0 && place&^countMask == tag {
			toFront(set, i, tag|min(count+1, countMask))
			return int(count)
		}
	}
	p.added++
	toFront(set, ways-1, tag|1)
	return 0
}

// toFront puts a place first and drops the one at i: places are in the order in
// which they were seen last.
func toFront(set []uint16, i int, place uint16) {
	copy(set[1:i+1], set[:i])
	set[0] = place
}

// grow doubles the table.
func (p *phraseCounts) grow() {
	sets := len(p.places) / ways
	p.places = extend(p.places, max(2*len(p.places), countsMin))
	clear(p.places[sets*ways:])
	// The bit of the hash that now tells the two halves apart.
	bit := uint16(sets>>minBits) << countBits // #nosec G115 -- at most countsMax
	for i := range sets {
		low, high := p.places[i*ways:][:ways], p.places[(sets+i)*ways:][:0]
		set := low[:0]
		for _, place := range low {
			if place&bit == 0 {
				set = append(set, place)
			} else {
				high = append(high, place)
			}
		}
		clear(low[len(set):])
	}
}

// reset forgets all phrases.
func (p *phraseCounts) reset() { *p = phraseCounts{places: p.places[:0]} }

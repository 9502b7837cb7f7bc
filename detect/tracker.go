package detect

import "math"

const (
	// ringMax is the longest distance at which a repetition is seen. A unit
	// must be 16 bytes shorter: that many of it are compared to begin with.
	ringMax = 16 << 10
	ringMin = 1 << 10

	// gram is the number of bytes that must be alike for a period to be
	// followed. Ordinary text repeats shorter ones all the time.
	gram = 16
	// stride is how often a period is looked for while none is followed: at
	// every so many bytes. What that misses, lookBack brings in again.
	stride = 4
	// lookBack bounds how far a repetition is followed backwards when it is
	// found. It is found late if another period was being followed.
	lookBack = 256
)

// tracker follows the period of a text: at each time one candidate, by
// comparing each byte with the one a period before. When these differ, an index
// of the last place of each gram proposes the next candidate. That is the
// nearest place at which the last 16 bytes stood before, so a period is never
// a multiple of a shorter one.
type tracker struct {
	ring  []byte   // the last bytes; the length is a power of two
	index []uint16 // where each gram ended last, by its hash, modulo 2¹⁶; a quarter as long
	size  int      // bytes so far
	hash  uint64   // of the last gram

	period int // zero if none is followed
	run    int // how many bytes are as they were a period before
	look   int // the run at which the unit is to be looked at
}

// repeated returns the length of the repetition, its first copy included.
func (t *tracker) repeated() int { return t.run + t.period }

// lookAt sets how long a repetition is looked at next.
func (t *tracker) lookAt(repeated int) { t.look = repeated - t.period }

// lookNoMore says that this repetition will never matter.
func (t *tracker) lookNoMore() { t.look = math.MaxInt }

// feed takes in text up to the byte at which the unit is to be looked at, and
// returns how much that was; due is false if that byte did not come. The first
// look is when the least demanding kind of unit would be a loop, that is at
// first repeated bytes or more: to look at every candidate's unit would cost
// more than all else.
func (t *tracker) feed(text []byte, first int, times times) (n int, due bool) {
	for n < len(text) && !due {
		if t.size == len(t.ring) && len(t.ring) < ringMax {
			t.grow()
		}
		piece := text[n:]
		if len(t.ring) < ringMax {
			piece = piece[:min(len(piece), len(t.ring)-t.size)]
		}
		var m int
		m, due = t.follow(piece, first, times)
		n += m
	}
	return n, due
}

func (t *tracker) follow(text []byte, first int, times times) (n int, due bool) {
	ring, index := t.ring, t.index
	shift := indexShift(index)
	at, hash, period, run, look := t.size, t.hash, t.period, t.run, t.look
	for n < len(text) && !due {
		b := text[n]
		if period != 0 {
			if b == ring[(at-period)&(len(ring)-1)] {
				run++
			} else {
				period = 0
			}
		}
		ring[at&(len(ring)-1)] = b
		hash = hashGram(hash, b)
		last := &index[indexSlot(hash, shift)&(len(index)-1)]
		if period == 0 && at&(stride-1) == 0 {
			distance := int(uint16(at) - *last) // #nosec G115 -- modulo 2¹⁶, as the index is
			if b == ring[(at-distance)&(len(ring)-1)] {
				if run = t.alike(at, distance); run >= gram {
					period = distance
					look = times.least(first, period) - period
				}
			}
		}
		*last = uint16(at) // #nosec G115 -- modulo 2¹⁶
		at++
		n++
		due = period != 0 && run >= look
	}
	t.size, t.hash, t.period, t.run, t.look = at, hash, period, run, look
	return n, due
}

// alike returns how many bytes up to the one at are as they were at the
// distance before, at most lookBack.
func (t *tracker) alike(at, distance int) int {
	if distance == 0 {
		return 0
	}
	n, most := 0, min(lookBack, len(t.ring)-distance, at-distance+1)
	for n < most && t.ring[(at-n)&(len(t.ring)-1)] == t.ring[(at-n-distance)&(len(t.ring)-1)] {
		n++
	}
	return n
}

// hashGram takes b into the hash of the last 16 bytes; what came before them
// has been shifted out.
func hashGram(hash uint64, b byte) uint64 { return hash<<4 + uint64(b) }

// indexSlot spreads hashes over the index: Fibonacci hashing, with 2⁶⁴ divided
// by the golden ratio.
func indexSlot(hash uint64, shift int) int {
	return int(hash * 0x9E3779B97F4A7C15 >> (shift & 63)) // #nosec G115 -- shifted to below the index's length
}

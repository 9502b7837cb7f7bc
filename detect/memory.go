package detect

import "math/bits"

// grow doubles the ring while all of the text is still in it, and makes the
// index anew, as if both had always been so long. What the index held before
// stays where nothing overwrites it, and does no harm: were it the place of a
// gram of this text, it would be overwritten.
func (t *tracker) grow() {
	length := max(2*len(t.ring), ringMin)
	t.ring = extend(t.ring, length)
	t.index = extend(t.index, length/4)
	shift, hash := indexShift(t.index), uint64(0)
	for at, b := range t.ring[:t.size] {
		hash = hashGram(hash, b)
		t.index[indexSlot(hash, shift)] = uint16(at) // #nosec G115 -- below ringMax
	}
}

// reset forgets the text. The memory is kept, but used from its shortest
// length on again, so that the next text is not read differently than the
// first.
func (t *tracker) reset() {
	*t = tracker{ring: t.ring[:0], index: t.index[:0]}
}

// indexShift leaves as many bits of a hash as the index has.
func indexShift(index []uint16) int {
	return 64 - bits.Len(uint(len(index)-1)) // #nosec G115 -- a length
}

// extend returns s at the given length, in new memory if it has to be. What is
// behind the old length is anything.
func extend[T byte | uint16](s []T, length int) []T {
	if length <= cap(s) {
		return s[:length]
	}
	longer := make([]T, length)
	copy(longer, s)
	return longer
}

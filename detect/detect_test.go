package detect_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/detect"
	"github.com/doomproxy/doomproxy/detect/corpus"
)

func Example() {
	var d detect.Detector // watches thinking
	text := "I should look at the tests.\n" + strings.Repeat("Wait, let me check again. ", 40)
	for _, s := range d.Write([]byte(text)) {
		fmt.Println(s.Part, s.TailLabel(), "offset", s.Offset, "period", s.Period, "copies", s.Copies)
	}
	// Output: exact tail_repetition:8@thinking offset 796 period 26 copies 29
}

// TestParts finds a loop by the parts that are on, and no others.
func TestParts(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("I will have to look at the same file again. ", 200))
	for off := detect.Part(0); off <= everyPart; off++ {
		d := &detect.Detector{Off: off}
		var fired detect.Part
		for _, s := range watch(d, text) {
			fired |= s.Part
		}
		if want := everyPart &^ off; fired != want {
			t.Errorf("with %03b off: %03b fired, want %03b", off, fired, want)
		}
		if off == everyPart && d.Memory() != 0 {
			t.Errorf("with all parts off: %d bytes of memory, want none", d.Memory())
		}
	}
}

// TestOrder raises signals in the order of their offsets, whichever part
// looked first, and at the offset at which they would come byte by byte.
func TestOrder(t *testing.T) {
	t.Parallel()
	text := find(t, corpus.Loops(), "phrase-changes-at-times").Sample(1).Text
	whole := watch(new(detect.Detector), text)
	if len(whole) < 3 || !slices.ContainsFunc(whole, func(s detect.Signal) bool { return s.Part != detect.Exact }) {
		t.Fatalf("got %+v, want signals of several parts", whole)
	}
	var bytewise []detect.Signal
	d := new(detect.Detector)
	for i := range text {
		for _, s := range d.Write(text[i : i+1]) {
			if s.Offset != int64(i+1) {
				t.Errorf("got offset %d with byte %d", s.Offset, i)
			}
			bytewise = append(bytewise, s)
		}
	}
	if !slices.Equal(whole, bytewise) {
		t.Errorf("whole: got %+v\nwant as byte by byte: %+v", whole, bytewise)
	}
	if d.Size() != int64(len(text)) {
		t.Errorf("Size: got %d, want %d", d.Size(), len(text))
	}
}

// TestReset reads each text as a new detector would, with the memory that other
// texts left behind.
func TestReset(t *testing.T) {
	t.Parallel()
	var texts [][]byte
	for _, shape := range slices.Concat(corpus.Loops(), corpus.Legitimate()) {
		texts = append(texts, shape.Sample(0).Text)
	}
	// Those just shorter than the ring at first are found late now and then.
	for period := 7000; period < 8000; period += 40 {
		texts = append(texts, bytes.Repeat(random(period), 9))
	}
	texts = append(texts, []byte("12 "), []byte(strings.Repeat(" 1st and second and then once more,", 800)))
	used := new(detect.Detector)
	for i, text := range texts {
		used.Channel = detect.Channel(i % 3)
		fresh := &detect.Detector{Channel: used.Channel}
		got, want := slices.Clone(used.Write(text)), fresh.Write(text)
		if !slices.Equal(got, want) {
			t.Errorf("%.40q: got %+v, want %+v", text, got, want)
		}
		used.Reset()
		if used.Size() != 0 {
			t.Fatalf("Size after Reset: got %d", used.Size())
		}
	}
}

// TestInput leaves the text as it is, and does not look at it later.
func TestInput(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("The same sentence over AND over. ", 100))
	before := bytes.Clone(text)
	got := watch(new(detect.Detector), text)
	if !bytes.Equal(text, before) {
		t.Error("the text was changed")
	}
	d := new(detect.Detector)
	var reused []detect.Signal
	buffer := make([]byte, 10)
	for piece := range slices.Chunk(text, len(buffer)) {
		n := copy(buffer, piece)
		reused = append(reused, d.Write(buffer[:n])...)
		clear(buffer)
	}
	if !slices.Equal(got, reused) {
		t.Errorf("from a buffer used again: got %+v, want %+v", reused, got)
	}
}

// TestAnyPeriod finds random units of all lengths at the byte that makes them a
// loop, or at most a few hundred bytes later if they are long.
func TestAnyPeriod(t *testing.T) {
	t.Parallel()
	for period := 1; period <= 16<<10-16; period += 1 + period/7 {
		unit := random(period)
		text := []byte("Something else than that.#")
		onset := len(text)
		text = append(text, bytes.Repeat(unit, 4+3000/period)...)
		signals := watch(only(detect.Thinking, detect.Exact), text)
		if len(signals) == 0 {
			t.Errorf("period %d: not found", period)
			continue
		}
		s, late := signals[0], int64(0)
		if period > 512 {
			late = 500
		}
		if s.Period != period || s.Start() < int64(onset) || s.Start() > int64(onset)+late {
			t.Errorf("period %d: got period %d from %d on, want from %d on", period, s.Period, s.Start(), onset)
		}
	}
}

// random returns n bytes of short words without sense.
func random(n int) []byte {
	r := rand.New(rand.NewPCG(4, uint64(n))) // #nosec G115 -- a length
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + r.IntN(26)) // #nosec G115 -- a letter
		if i%6 == 5 {
			text[i] = ' '
		}
	}
	return text
}

// TestOnce raises one signal of Counter for each loop, and of Saturation for
// each stretch of text that says nothing new.
func TestOnce(t *testing.T) {
	t.Parallel()
	sample := find(t, corpus.Loops(), "turn-counter").Sample(0)
	loop := sample.Text[sample.Onset:]
	text := slices.Concat(loop, prose(t, 20<<10), loop)
	for _, part := range []detect.Part{detect.Counter, detect.Saturation} {
		signals := watch(only(detect.Thinking, part), text)
		if len(signals) != 2 || signals[0].Offset > int64(len(loop)) || signals[1].Offset < int64(len(text)-len(loop)) {
			t.Errorf("%s: got %+v, want a signal in each of two loops", part, signals)
		}
	}
}

// TestWindow raises Saturation as soon as the window is full, if all of it was
// said before but for the few words that it takes to say it often enough.
func TestWindow(t *testing.T) {
	t.Parallel()
	text := []byte(strings.Repeat("one two all the way ", 300))
	for channel, want := range map[detect.Channel]int64{detect.Thinking: 512, detect.Response: 1024} {
		signals := watch(only(channel, detect.Saturation), text)
		if len(signals) == 0 || signals[0].Offset != 4*want {
			t.Errorf("%s: got %+v, want a signal after %d words", channel, signals, want)
		}
	}
}

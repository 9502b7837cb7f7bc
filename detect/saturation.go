package detect

// blockWords is how many words are summed up as one: the window slides by so
// many.
const blockWords = 16

// saturation finds text whose phrases were all said before, in whatever order:
// a paragraph that starts anew at random places, drafts that go round in
// circles. A phrase is five words of folded text. The signal is raised when
// nearly all words of the window end a phrase that had come several times
// before, and the window reads like prose.
type saturation struct {
	word    uint64 // hash of the word being read, zero between words
	phrase  uint64 // hash of the last words
	phrases phraseCounts

	block  block   // being filled
	words  int     // words so far
	window block   // the sum of blocks
	blocks []block // the window's, a ring; as many as have come, at first
	raised bool    // and not fallen below half of the words since
}

// block sums up some words: how many of them end a phrase that had come often
// enough, and the characters of the words and between them.
type block struct {
	seen int32
	census
}

func (b *block) add(c *block, sign int32) {
	b.seen += sign * c.seen
	for i := range b.census {
		b.census[i] += sign * c.census[i]
	}
}

// feed takes in folded text up to the word that fills the window, or the next
// block of it, if enough of its words were seen before. It returns how much
// that was; due is false if that word did not come.
func (s *saturation) feed(p *profile, text []byte) (n int, due bool) {
	word := s.word
	for n < len(text) && !due {
		b := text[n]
		n++
		c := classOf[b]
		if word != 0 && c.endsWord() {
			due = s.endWord(p, word)
			word = 0
		}
		s.block.census[c]++
		if word != 0 || c.inWord() {
			word = (word ^ uint64(b)) * 0x100000001B3 // as FNV-1a does
		}
	}
	s.word = word
	return n, due
}

// endWord counts the phrase that ends with the word just read.
func (s *saturation) endWord(p *profile, word uint64) (due bool) {
	s.phrase = s.phrase<<13 + word // the fifth word back is shifted out
	if s.phrases.count(s.phrase) >= p.seen {
		s.block.seen++
	}
	s.words++
	return s.words%blockWords == 0 && s.endBlock(p)
}

// endBlock slides the window by the block just filled.
func (s *saturation) endBlock(p *profile) (due bool) {
	length := p.words / blockWords
	if len(s.blocks) < length {
		s.blocks = append(s.blocks, block{})
	}
	oldest := &s.blocks[(s.words/blockWords-1)%length]
	s.window.add(oldest, -1)
	*oldest = s.block
	s.window.add(oldest, +1)
	s.block = block{}
	seen := int(s.window.seen)
	if seen*2 < p.words {
		s.raised = false
	}
	return !s.raised && s.words >= p.words && seen*100 >= p.percent*p.words
}

// judge returns a signal if the window reads like prose. It is raised once for
// a stretch of such text.
func (s *saturation) judge(p *profile) (Signal, bool) {
	if !s.window.prose() {
		return Signal{}, false
	}
	s.raised = true
	copies := p.seen + 1
	return Signal{
		Part:      Saturation,
		Repeated:  s.window.bytes(),
		Copies:    copies,
		Threshold: tightness(copies, warnOnly),
	}, true
}

// reset forgets the text and keeps the memory.
func (s *saturation) reset() {
	s.phrases.reset()
	*s = saturation{phrases: s.phrases, blocks: s.blocks[:0]}
}

package detect

// census counts the characters of a text by class.
type census [classes]int32

func (c *census) of(class class) int64 { return int64(c[class]) }

func (c *census) letters() int64 { return c.of(letter) + c.of(ideograph) }

// bytes returns the length of the text.
func (c *census) bytes() int64 { return c.total() + c.of(inside) }

// total returns the number of characters.
func (c *census) total() int64 {
	return c.letters() + c.of(digit) + c.of(space) + c.of(mark) + c.of(structural)
}

// atLeast reports whether n is at least percent of the characters.
func (c *census) atLeast(percent, n int64) bool { return n*100 >= percent*c.total() }

// prose reports whether the text reads like prose. In English, letters are
// about 78 % and spaces 17 %, while code is below 68 % letters and data has
// few spaces or much structure. Scripts without spaces are told by their
// punctuation alone.
func (c *census) prose() bool {
	if c.of(structural)*100 > 5*c.total() {
		return false
	}
	return c[ideograph] > c[letter] || c.atLeast(68, c.letters()) && c.atLeast(9, c.of(space))
}

// kind is what the unit of an exact repetition consists of. The more of it
// ordinary text repeats, the longer it must go on.
type kind uint8

const (
	words kind = iota
	marks      // punctuation, white space, or one short token over and over
	data       // digits, base64, tables of values
	kinds
)

const (
	shortToken = 24 // bytes; special tokens of known models have up to 20
	longWord   = 24 // letters and digits; prose has shorter ones, base64 longer
	shortRow   = 64 // bytes; what repeats a longer row of marks is a drawing, no flood
)

// unit is what was learnt of the unit of a repetition.
type unit struct {
	census
	period   int
	tokens   int
	longest  int  // most letters and digits in a row
	template bool // holds <|, which begins a token of a chat template
}

// unit looks at the last period bytes.
func (t *tracker) unit() unit {
	u := unit{period: t.period}
	ascii, previous := int64(0), byte(0)
	first, word := -1, 0
	for i := t.size - t.period; i < t.size; i++ {
		b := t.ring[i&(len(t.ring)-1)]
		class := classOf[b]
		u.census[class]++
		if b < 0x80 {
			ascii++
		}
		if class.inWord() {
			word++
		} else if class != inside {
			if first < 0 {
				first = word
			}
			u.longest = max(u.longest, word)
			word = 0
		}
		u.template = u.template || previous == '<' && b == '|'
		previous = b
	}
	// The unit comes again and again: its last word goes on with its first.
	u.longest = max(u.longest, word+max(first, 0))
	u.tokens = max(1, int(ascii/4+u.total()-ascii))
	return u
}

// kind tells what the unit consists of.
func (u *unit) kind() kind {
	var (
		letters = u.letters()
		digits  = u.of(digit)
		others  = u.of(mark) + u.of(structural)
		visible = letters + digits + others
	)
	switch {
	case u.period < shortRow && u.atLeast(80, others+u.of(space)):
		return marks
	case u.period <= shortToken && u.census[space] == 0 && digits*2 <= letters:
		return marks
	case digits*3 >= letters, letters*100 < 45*visible:
		return data
	case u.of(structural)*100 >= 20*visible && !u.template:
		return data
	case u.census[ideograph] <= u.census[letter] && u.longest >= longWord:
		return data
	}
	return words
}

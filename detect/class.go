package detect

// class is what a character is, as told by its first byte.
type class uint8

const (
	inside class = iota // no character's first byte, or broken UTF-8
	letter              // of a script with spaces between words
	digit
	ideograph // a letter of a script without spaces, a word of its own
	space
	mark       // punctuation of prose, symbols, control characters
	structural // punctuation of code, data and markup
	classes
)

// inWord reports whether a character of the class is part of a word.
func (c class) inWord() bool { return inside < c && c <= ideograph }

// endsWord reports whether the word before a character of the class is over.
func (c class) endsWord() bool { return c >= ideograph }

// structuralMarks are the ASCII marks that prose has little use for.
const structuralMarks = "#$%&*+/<=>@[\\]^_`{|}~"

// classOf tells the class by the first byte alone. That is right for whole
// scripts but not for each character: U+2000 to U+2FFF, where typography,
// arrows and boxes are, counts as marks, and so does all that is encoded from
// EE on, full-width forms and emoji; U+3000 to U+DFFF counts as ideographs.
var classOf = func() (table [256]class) {
	for b := range table {
		switch {
		case 'a' <= b && b <= 'z', 'A' <= b && b <= 'Z':
			table[b] = letter
		case '0' <= b && b <= '9':
			table[b] = digit
		case b == ' ', '\t' <= b && b <= '\r':
			table[b] = space
		case b < 0x80:
			table[b] = mark
		case b < 0xC0:
			table[b] = inside
		case b < 0xC3: // to U+00BF
			table[b] = mark
		case b == 0xE0: // from Devanagari over Thai to Lao
			table[b] = letter
		case b == 0xE2, b >= 0xEE:
			table[b] = mark
		case b >= 0xE3:
			table[b] = ideograph
		default:
			table[b] = letter
		}
	}
	for _, b := range []byte(structuralMarks) {
		table[b] = structural
	}
	return table
}()

// foldOf is a byte as Counter and Saturation see it: every digit is 0, white
// space is a space, and ASCII letters are lower case.
var foldOf = func() (table [256]byte) {
	for b := range table {
		switch classOf[b] {
		case digit:
			table[b] = '0'
		case space:
			table[b] = ' '
		default:
			table[b] = byte(b)
		}
		if 'A' <= b && b <= 'Z' {
			table[b] = byte(b) + 'a' - 'A'
		}
	}
	return table
}()

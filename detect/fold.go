package detect

// pieceLen is how many bytes of text are folded at a time.
const pieceLen = 64

// foldedPiece is a piece of folded text, and where in the piece of text each
// byte of it came from.
type foldedPiece struct {
	text [pieceLen]byte
	from [pieceLen]uint8
	n    int
}

// end returns where in the piece of text the first n folded bytes end.
func (f *foldedPiece) end(n int) int64 { return int64(f.from[n-1]) + 1 }

// folder makes numbers, white space and case alike: it turns "Try 12:\n\n" into
// "try 0: ".
type folder struct{ previous byte }

func (f *folder) fold(piece *foldedPiece, text []byte) {
	n, previous := 0, f.previous
	for i, b := range text {
		b = foldOf[b]
		if b == previous && (b == ' ' || b == '0') {
			continue // the same run goes on
		}
		previous = b
		piece.text[n&(pieceLen-1)] = b
		piece.from[n&(pieceLen-1)] = uint8(i) // #nosec G115 -- below pieceLen
		n++
	}
	piece.n, f.previous = n, previous
}

package stationarity

import "strings"

// word reads the word that begins at sc.i and, if the word begins some noise, all
// of that: then it returns what stands for the noise.
//
// Noise is what differs between two runs of one command that found the same. It
// is told by its form, or by the word before it, and a number that has neither is
// taken for a result: better a run that is found later, or not at all, than a
// poll that is told to stop although it sees progress.
func (sc *scanner) word() (noise string) {
	s, lo := sc.s, sc.i
	var seen uint8
	hi := lo
	for hi < len(s) && classes[s[hi]]&isWord != 0 {
		seen |= classes[s[hi]]
		hi++
	}
	end := 0
	if seen&isDigit != 0 || seen == isHex {
		noise, end = sc.noise(span{lo, hi}, seen)
	}
	if noise == "" && sc.labelledID(lo) {
		noise, end = noiseID, hi
	}
	if noise == "" {
		end = hi
	}
	sc.i = end
	sc.before, sc.last = sc.last, span{lo, end}
	return noise
}

// noise returns the noise that a word begins, and where it ends. seen are the
// classes of the word's bytes.
func (sc *scanner) noise(w span, seen uint8) (noise string, end int) {
	s := sc.s
	if end := id(s, w, seen); end > 0 {
		return noiseID, end
	}
	if classes[s[w.lo]]&isDigit == 0 {
		return "", 0
	}
	previous := byte(0)
	if w.lo > 0 {
		previous = s[w.lo-1]
	}
	if end := dateTime(s, w.lo); end > 0 {
		return noiseTime, end
	}
	if previous == '.' {
		return "", 0
	}
	if end := clock(s, w.lo); end > 0 && previous != ':' {
		return noiseTime, end
	}
	if end := duration(s, w.lo); end > 0 {
		return noiseDuration, end
	}
	if seen == isDigit {
		return sc.labelled(w)
	}
	return "", 0
}

// label returns the word before lo if nothing but quotes, blanks and one colon or
// equals sign stand between, as in `"elapsed": 3` and `elapsed=3`.
func (sc *scanner) label(lo int) string {
	between := sc.s[sc.last.hi:lo]
	if sc.last.hi == 0 || strings.Count(between, ":")+strings.Count(between, "=") != 1 ||
		strings.Trim(between, `"'\ :=`) != "" {
		return ""
	}
	return sc.s[sc.last.lo:sc.last.hi]
}

// labelled tells numbers that only their label makes durations and timestamps.
func (sc *scanner) labelled(w span) (noise string, end int) {
	end = fraction(sc.s, w.hi)
	label := sc.label(w.lo)
	if label == "" || !boundary(sc.s, end) {
		return "", 0
	}
	lower := strings.ToLower(label)
	switch {
	case strings.Contains(lower, "duration"), strings.Contains(lower, "elapsed"),
		strings.HasSuffix(lower, "wall_time"), strings.HasSuffix(lower, "walltime"):
		return noiseDuration, end
	case isEpoch(sc.s[w.lo:w.hi]) && namesTime(label, lower):
		return noiseTime, end
	}
	return "", 0
}

// labelledID reports whether the word at lo is an id that codex gives to what a
// command printed, or to a command that still runs.
func (sc *scanner) labelledID(lo int) bool {
	s := sc.s
	if s[sc.last.lo:sc.last.hi] != "ID" || lo-sc.last.hi > 2 || strings.Trim(s[sc.last.hi:lo], ": ") != "" {
		return false
	}
	before := s[sc.before.lo:sc.before.hi]
	return before == "Chunk" || before == "session"
}

// namesTime reports whether a label may be that of a point in time.
func namesTime(label, lower string) bool {
	switch lower {
	case "ts", "created", "updated", "modified", "expires", "exp", "iat", "now", "epoch":
		return true
	}
	for _, suffix := range []string{"time", "timestamp", "date", "_at", "_ts"} {
		if strings.HasSuffix(lower, suffix) {
			return true
		}
	}
	return strings.HasSuffix(label, "At") // as in createdAt
}

// isEpoch reports whether digits may be the seconds, or smaller units, from 1970
// to a day between 2017 and 2033.
func isEpoch(digits string) bool {
	switch len(digits) {
	case 10, 13, 16, 19:
		return digits[0] == '1' && digits[1] >= '5'
	}
	return false
}

// callPrefixes begin the ids of calls, items and responses.
var callPrefixes = []string{"call_", "fc_", "ctc_", "lsh_", "msg_", "rs_", "resp_", "req_", "toolu_"}

// id returns the end of the id that a word begins, 0 if it begins none: a UUID, a
// hexadecimal number of 8 digits or more, or the id of a call.
func id(s string, w span, seen uint8) int {
	word := s[w.lo:w.hi]
	if seen&^(isDigit|isHex) == 0 {
		if end := uuid(s, w); end > 0 {
			return end
		}
		// Digits alone are a number, letters alone a word, and both with one e
		// among them may be a number, too.
		if len(word) < 8 || seen != isDigit|isHex || strings.Count(strings.ToLower(word), "e") == 1 && letters(word) == 1 {
			return 0
		}
		return w.hi
	}
	if len(word) >= 10 && (word[:2] == "0x" || word[:2] == "0X") && letters(word[2:]) >= 0 {
		return w.hi
	}
	if seen&isLow != 0 {
		for _, prefix := range callPrefixes {
			if len(word) >= len(prefix)+8 && strings.HasPrefix(word, prefix) {
				return w.hi
			}
		}
	}
	return 0
}

// letters counts the letters of a hexadecimal number, -1 if it is none.
func letters(word string) (n int) {
	for i := range len(word) {
		switch classes[word[i]] {
		case isDigit:
		case isHex:
			n++
		default:
			return -1
		}
	}
	return n
}

// uuid returns the end of the UUID whose first group is a word, 0 if it is none.
func uuid(s string, w span) int {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if w.hi-w.lo != 8 || len(s)-w.lo < len(form) {
		return 0
	}
	for i := range len(form) {
		switch b := s[w.lo+i]; {
		case form[i] == '-' && b != '-':
			return 0
		case form[i] == 'x' && classes[b]&(isDigit|isHex) == 0:
			return 0
		}
	}
	if !boundary(s, w.lo+len(form)) {
		return 0
	}
	return w.lo + len(form)
}

// boundary reports whether no word goes on at i.
func boundary(s string, i int) bool { return i >= len(s) || classes[s[i]]&isText == 0 }

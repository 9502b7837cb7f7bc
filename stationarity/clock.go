package stationarity

import "strings"

// form returns the end of what has a form at i, 0 if it is something else there.
// In a form, 0 stands for a digit, and any other byte for itself.
func form(s string, i int, form string) int {
	if i < 0 || len(s)-i < len(form) {
		return 0
	}
	for j := range len(form) {
		if b := s[i+j]; b != form[j] && (form[j] != '0' || b < '0' || b > '9') {
			return 0
		}
	}
	return i + len(form)
}

// digits returns the end of the digits at i.
func digits(s string, i int) int {
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	return i
}

// fraction returns the end of the decimals at i, which is i if there are none.
func fraction(s string, i int) int {
	if i+1 < len(s) && s[i] == '.' {
		if end := digits(s, i+1); end > i+1 {
			return end
		}
	}
	return i
}

// dateTime returns the end of the date with a time at i, 0 if there is none. A
// date alone is not taken for a timestamp.
func dateTime(s string, i int) int {
	end := max(form(s, i, "0000-00-00"), form(s, i, "0000/00/00"))
	if end == 0 {
		if end = form(s, i, "00000000T000000"); end == 0 {
			return 0
		}
		return zone(s, end)
	}
	if end == len(s) || strings.IndexByte("Tt ", s[end]) < 0 {
		return 0
	}
	if end = form(s, end+1, "00:00"); end == 0 {
		return 0
	}
	if seconds := form(s, end, ":00"); seconds > 0 {
		end = decimals(s, seconds)
	}
	return zone(s, end)
}

// clock returns the end of the time of day, or the hours, minutes and seconds
// that something took, at i, 0 if there are none.
func clock(s string, i int) int {
	hours := digits(s, i)
	if hours-i > 2 {
		return 0
	}
	end := form(s, hours, ":00:00")
	if end == 0 || s[hours+1] > '5' || s[hours+4] > '5' {
		return 0
	}
	end = decimals(s, end)
	if end < len(s) && s[end] == ':' {
		return 0
	}
	if half := s[end:min(end+3, len(s))]; strings.EqualFold(half, " am") || strings.EqualFold(half, " pm") {
		end += len(half)
	}
	return zone(s, end)
}

// decimals returns the end of a fraction of a second at i, which may stand behind
// a comma, too.
func decimals(s string, i int) int {
	if i+1 < len(s) && s[i] == ',' {
		if end := digits(s, i+1); end > i+1 {
			return end
		}
	}
	return fraction(s, i)
}

// zone returns the end of the zone of a time that ends at i; 0 if a word goes on
// there.
func zone(s string, i int) int {
	if i < len(s) && (s[i] == 'Z' || s[i] == 'z') {
		i++
	}
	for _, f := range []string{"+00:00", "-00:00", "+0000", "-0000"} {
		if end := form(s, i, f); end > 0 {
			i = end
			break
		}
	}
	if !boundary(s, i) {
		return 0
	}
	return i
}

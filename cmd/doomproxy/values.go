package main

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doomproxy/doomproxy/proxy"
)

// value takes a setting from text.
type value struct {
	allowed string // what may be given
	// set returns whether the text is allowed and, if it is but lies outside of
	// the range, what is used in its place.
	set func(text string) (instead string, ok bool)
	// shown is what of the text may be shown in a message; nil means all.
	shown func(text string) string
	// empty says that empty text is a value. Else an empty environment variable
	// is taken for one that is not set: some ways to start a process know no other.
	empty bool
}

// oneOf is a value that is one of a few words.
func oneOf[T ~string](target *T, words ...T) value {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	last := len(list) - 1
	return value{
		allowed: strings.Join(list[:last], ", ") + " or " + list[last],
		set: func(text string) (string, bool) {
			for _, w := range words {
				if text == string(w) {
					*target = w
					return "", true
				}
			}
			return "", false
		},
	}
}

// noneOf is the word for an empty list.
const noneOf = "none"

// anyOf is a list of some of a few words.
func anyOf[T ~string](target *[]T, words ...T) value {
	return value{
		allowed: noneOf + ", or some of these with commas between: " + joined(words),
		empty:   true,
		set: func(text string) (string, bool) {
			*target = []T{}
			if text == "" || text == noneOf {
				return "", true
			}
			for word := range strings.SplitSeq(text, ",") {
				w := T(strings.TrimSpace(word))
				if !slices.Contains(words, w) {
					return "", false
				}
				*target = append(*target, w)
			}
			return "", true
		},
	}
}

// joined writes a list as anyOf takes it.
func joined[T ~string](words []T) string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return strings.Join(list, ",")
}

func level(target *slog.Level) value {
	var name string
	v := oneOf(&name, "debug", "info", "warn", "error")
	return value{allowed: v.allowed, set: func(text string) (string, bool) {
		_, ok := v.set(text)
		return "", ok && target.UnmarshalText([]byte(name)) == nil
	}}
}

// whole is a number that is brought into its range.
func whole(target *int, lo, hi int) value { return clamped(target, lo, hi, lo, hi) }

// wholeOr is a number in place of which another is used, if it is out of range.
func wholeOr(target *int, lo, hi, other int) value { return clamped(target, lo, hi, other, other) }

func clamped(target *int, lo, hi, below, above int) value {
	allowed := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if hi == math.MaxInt32 {
		allowed = fmt.Sprintf("a whole number, at least %d", lo)
	}
	return value{allowed: allowed, set: func(text string) (string, bool) {
		if !wholeNumber.MatchString(text) {
			return "", false
		}
		// Of a number that is too large for an int64 the nearest one is used.
		n, _ := strconv.ParseInt(text, 10, 64)
		switch {
		case n < int64(lo):
			*target = below
		case n > int64(hi):
			*target = above
		default:
			*target = int(n)
			return "", true
		}
		return strconv.Itoa(*target), true
	}}
}

var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

// number is a number that has to be in its range.
func number(target *int, lo, hi int) value {
	return value{allowed: fmt.Sprintf("a whole number from %d to %d", lo, hi), set: func(text string) (string, bool) {
		n, err := strconv.Atoi(text)
		*target = n
		return "", err == nil && n >= lo && n <= hi
	}}
}

// maxSize is the largest limit that can be set where all of it may have to be
// held in memory for one request.
const maxSize = 1 << 30

// units are those of sizes, the largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// size is a number of bytes, at most so many.
func size[T int | int64](target *T, most int64) value {
	return value{allowed: "bytes from 1 to " + inBytes(most) + ", such as 1048576, 512KiB or 64MiB", set: func(text string) (string, bool) {
		for _, unit := range units {
			digits, ok := strings.CutSuffix(text, unit.suffix)
			if !ok {
				continue
			}
			n, err := strconv.ParseUint(digits, 10, 63)
			if err != nil || n == 0 || int64(n) > most/unit.bytes {
				return "", false
			}
			*target = T(int64(n) * unit.bytes)
			return "", true
		}
		return "", false
	}}
}

// inBytes writes a size in the largest unit that divides it.
func inBytes(n int64) string {
	for _, unit := range units {
		if n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return ""
}

func anyText(target *string) value {
	return value{allowed: "any text", set: func(text string) (string, bool) {
		*target = text
		return "", true
	}}
}

// secret is text that no message repeats.
func secret(target *string, allowed string) value {
	v := anyText(target)
	v.allowed, v.shown = allowed, func(string) string { return "…" }
	return v
}

// leastTime is the shortest limit of a wait: less is a typing error.
const leastTime = 10 * time.Millisecond

// mostTime is the longest time that can be set, ten years: sums of a few of them
// still are times.
const mostTime = 87600 * time.Hour

// duration is a time of at least the given length.
func duration(target *time.Duration, least time.Duration) value {
	return value{allowed: fmt.Sprintf("a time such as 30s or 12h, at least %s and at most 87600h", least), set: func(text string) (string, bool) {
		d, err := time.ParseDuration(text)
		*target = d
		return "", err == nil && d >= least && d <= mostTime
	}}
}

// filePath names a file.
func filePath(target *string) value {
	return value{
		allowed: "the path of a file",
		set: func(text string) (string, bool) {
			*target = text
			return "", text != "" && !looksLikeContent(text)
		},
		shown: func(text string) string {
			if looksLikeContent(text) {
				return "…"
			}
			return text
		},
	}
}

// looksLikeContent reports whether text is that of a file with a certificate or
// a key, which is easily given in place of its path.
func looksLikeContent(text string) bool {
	return strings.ContainsAny(text, "\r\n\x00") || strings.Contains(text, "-----")
}

// hostPort is an address to listen on.
func hostPort(target *string) value {
	return value{allowed: "HOST:PORT, such as 127.0.0.1:3666", set: func(text string) (string, bool) {
		_, port, err := net.SplitHostPort(text)
		if err != nil {
			return "", false
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return "", false
		}
		*target = text
		return "", true
	}}
}

// optional lets a value also be empty.
func optional(v value) value {
	set := v.set
	v.empty = true
	v.allowed += ", or nothing"
	v.set = func(text string) (string, bool) {
		if text == "" {
			return "", true
		}
		return set(text)
	}
	return v
}

var upstreamName = regexp.MustCompile(`^[A-Za-z0-9_-]+=`)

// upstreamURL is where requests go.
func upstreamURL(target *proxy.Config) value {
	return value{
		allowed: "an http or https URL such as https://api.example.com/v1, without user name or password (the agent sends its own key)",
		set: func(text string) (string, bool) {
			if name := upstreamName.FindString(text); name != "" {
				target.UpstreamName = strings.TrimSuffix(name, "=")
				text = text[len(name):]
			}
			u, err := url.Parse(text)
			if err != nil {
				return "", false
			}
			target.Upstream = u
			_, err = proxy.New(proxy.Config{Upstream: u})
			return "", err == nil
		},
		shown: redacted,
	}
}

// redacted leaves out of a URL what may be secret.
func redacted(text string) string {
	shown, _, more := strings.Cut(text, "?")
	if i := strings.LastIndexByte(shown, '@'); i >= 0 {
		shown = "…" + shown[i:]
	}
	if more {
		shown += "?…"
	}
	return shown
}

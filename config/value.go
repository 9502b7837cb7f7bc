package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is how a value of one type is read from text, and written as such.
type kind struct {
	allowed string // what may be given
	// parse returns what the text means. For a number that is brought into its
	// range instead is what it became. It is false if the text is not allowed.
	parse func(text string) (v any, instead string, ok bool)
	// elements reads the elements of a list, as a file gives them; nil for what is
	// no list.
	elements func(path string, list []given) (any, error)
	// format writes a value as parse takes it.
	format func(v any) string
	// shown is what of a text may be repeated; nil means all.
	shown func(text string) string
}

// newKind returns the kind of a field of Config. A field of a type that it does
// not know is a mistake in this package.
func newKind(f reflect.StructField) kind {
	tag := f.Tag
	words := strings.Fields(tag.Get("words"))
	switch f.Type {
	case reflect.TypeFor[int]():
		return numbers(tag)
	case reflect.TypeFor[Size]():
		return sizes(tag)
	case reflect.TypeFor[time.Duration]():
		return durations(tag)
	case reflect.TypeFor[bool]():
		return booleans()
	case reflect.TypeFor[[]string]():
		switch {
		case len(words) > 0:
			return wordLists(words)
		case tag.Get("kind") == "tools":
			return toolLists()
		}
		return hostLists()
	case reflect.TypeFor[[]Token]():
		return tokenLists()
	case reflect.TypeFor[[]Profile]():
		return profileLists()
	}
	k := texts(tag.Get("kind"))
	if len(words) > 0 {
		k = oneOf(words)
	}
	if tag.Get("default") == "" || tag.Get("optional") != "" {
		k = optional(k)
	}
	if f.Type == reflect.TypeFor[Secret]() {
		k = secret(k)
	}
	return k
}

// texts returns the kind of a text with some form.
func texts(form string) kind {
	switch form {
	case "address":
		return text("HOST:PORT, such as 127.0.0.1:3666", isAddress, nil)
	case "url":
		return text("an http or https URL such as https://api.example.com/v1, without user name or password (the agent sends its own key)", isUpstream, redacted)
	case "path":
		return text("the path of a file", isPath, pathOnly)
	case "directory":
		return text("the path of a directory", isPath, pathOnly)
	case "redis":
		return text("redis://HOST:PORT/DATABASE, rediss:// or unix://", isRedis, redacted)
	case "token":
		return text("visible ASCII characters without blanks: a header has to hold it", isToken, nil)
	}
	return text("any text", func(string) bool { return true }, nil)
}

func text(allowed string, check func(string) bool, shown func(string) string) kind {
	return kind{
		allowed: allowed,
		parse:   func(text string) (any, string, bool) { return text, "", check(text) },
		format:  func(v any) string { return v.(string) },
		shown:   shown,
	}
}

// optional lets a text also be empty.
func optional(k kind) kind {
	parse := k.parse
	if _, _, ok := parse(""); ok {
		return k
	}
	k.parse = func(text string) (any, string, bool) {
		if text == "" {
			return "", "", true
		}
		return parse(text)
	}
	k.allowed += ", or nothing"
	return k
}

// secret makes a text a Secret, and keeps it out of messages.
func secret(k kind) kind {
	parse, format, redact := k.parse, k.format, k.shown
	k.parse = func(text string) (any, string, bool) {
		v, instead, ok := parse(text)
		return Secret(v.(string)), instead, ok
	}
	k.format = func(v any) string {
		text := format(string(v.(Secret)))
		switch {
		case text == "":
			return ""
		case redact == nil:
			return hidden
		}
		return redact(text)
	}
	k.shown = func(string) string { return hidden } // it may have any form if it is not allowed
	return k
}

// choice lists words: a, b or c.
func choice(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func oneOf(words []string) kind {
	return text(choice(words), func(text string) bool { return slices.Contains(words, text) }, nil)
}

func booleans() kind {
	k := oneOf([]string{"true", "false"})
	k.parse = func(text string) (any, string, bool) { return text == "true", "", text == "true" || text == "false" }
	k.format = func(v any) string { return strconv.FormatBool(v.(bool)) }
	return k
}

// noneOf is the word for an empty list.
const noneOf = "none"

// wordLists is the kind of a list of some words.
func wordLists(words []string) kind {
	return textLists(
		noneOf+", or some of these with commas between: "+strings.Join(words, ","), choice(words),
		func(word string) bool { return slices.Contains(words, word) },
	)
}

// hostLists is the kind of a list of hosts.
func hostLists() kind {
	return textLists(
		noneOf+", or hosts with commas between, each HOST or HOST:PORT", "HOST or HOST:PORT",
		func(host string) bool { return host != noneOf && isHost.MatchString(host) },
	)
}

var isHost = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?$`)

// toolLists is the kind of a list of tools' names.
func toolLists() kind {
	return textLists(
		noneOf+", or names of tools with commas between", "the name of a tool, without commas and blanks",
		func(name string) bool { return name != noneOf && isTool.MatchString(name) },
	)
}

// isTool fits what APIs allow, and names with the prefix of a server.
var isTool = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,128}$`)

// textLists is the kind of a list of texts; each one is what one is to be.
func textLists(allowed, one string, check func(string) bool) kind {
	return kind{
		allowed: allowed,
		parse: func(text string) (any, string, bool) {
			list := []string{}
			if text == "" || text == noneOf {
				return list, "", true
			}
			for word := range strings.SplitSeq(text, ",") {
				word = strings.TrimSpace(word)
				if !check(word) {
					return nil, "", false
				}
				list = append(list, word)
			}
			return list, "", true
		},
		elements: func(path string, list []given) (any, error) {
			return elements(path, list, func(path string, g given) (string, error) {
				if g.kind() != scalar || !check(g.Text) {
					return "", refused(path, g, kind{allowed: one})
				}
				return g.Text, nil
			})
		},
		format: func(v any) string {
			if len(v.([]string)) == 0 {
				return noneOf
			}
			return strings.Join(v.([]string), ",")
		},
	}
}

// elements reads each element of a list.
func elements[T any](path string, list []given, one func(path string, g given) (T, error)) ([]T, error) {
	all := make([]T, len(list))
	var errs []error
	for i, g := range list {
		var err error
		if all[i], err = one(fmt.Sprintf("%s[%d]", path, i), g); err != nil {
			errs = append(errs, err)
		}
		if len(errs) == maxErrors {
			break
		}
	}
	return all, errors.Join(errs...)
}

var (
	name       = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	tokenEntry = regexp.MustCompile(`^([A-Za-z0-9_-]+)=([^=\r\n\x00][^\r\n\x00]*)$`)
)

const allowedName = "letters, digits, - and _"

// tokenLists is the kind of a list of named files.
func tokenLists() kind {
	one := func(path string, g given) (Token, error) {
		if g.kind() != section {
			return Token{}, refused(path, g, kind{allowed: "a section with name and file", shown: hide})
		}
		t := Token{Name: g.Fields["name"].Text, File: g.Fields["file"].Text}
		var errs []error
		if !name.MatchString(t.Name) {
			errs = append(errs, refused(path+".name", g.field("name"), kind{allowed: allowedName, shown: hide}))
		}
		if !isPath(t.File) {
			errs = append(errs, refused(path+".file", g.field("file"), texts("path")))
		}
		return t, errors.Join(errs...)
	}
	return kind{
		allowed: "NAME=FILE, or several with commas between, where each file holds one token and each name is another one",
		parse: func(text string) (any, string, bool) {
			list := []Token{}
			if text == "" {
				return list, "", true
			}
			for entry := range strings.SplitSeq(text, ",") {
				m := tokenEntry.FindStringSubmatch(strings.TrimSpace(entry))
				if m == nil || hasName(list, m[1]) {
					return nil, "", false
				}
				list = append(list, Token{m[1], m[2]})
			}
			return list, "", true
		},
		elements: func(path string, list []given) (any, error) {
			tokens, err := elements(path, list, one)
			if err != nil {
				return nil, err
			}
			for i, t := range tokens {
				if hasName(tokens[:i], t.Name) {
					return nil, refused(fmt.Sprintf("%s[%d].name", path, i), list[i].field("name"), kind{allowed: "another name than those above"})
				}
			}
			return tokens, nil
		},
		format: func(v any) string {
			var entries []string
			for _, t := range v.([]Token) {
				entries = append(entries, t.Name+"="+t.File)
			}
			return strings.Join(entries, ",")
		},
		shown: func(text string) string {
			// What is no entry may be a token, given in place of its file.
			list := strings.Split(text, ",")
			for i, entry := range list {
				if !tokenEntry.MatchString(strings.TrimSpace(entry)) {
					list[i] = hidden
				}
			}
			return strings.Join(list, ",")
		},
	}
}

func hasName(list []Token, name string) bool {
	return slices.ContainsFunc(list, func(t Token) bool { return t.Name == name })
}

func hide(string) string { return hidden }

// closes are the words for how a cut attempt is closed.
var closes = []string{"tombstone", "dangling"}

// profileLists is the kind of a list of profiles.
func profileLists() kind {
	one := func(path string, g given) (Profile, error) {
		if g.kind() != section {
			return Profile{}, refused(path, g, kind{allowed: "a section with user_agent_prefix and close"})
		}
		p := Profile{UserAgentPrefix: g.Fields["user_agent_prefix"].Text, Close: g.Fields["close"].Text}
		var errs []error
		if p.UserAgentPrefix == "" {
			errs = append(errs, refused(path+".user_agent_prefix", g.field("user_agent_prefix"), kind{allowed: "how a User-Agent begins"}))
		}
		if !slices.Contains(closes, p.Close) {
			errs = append(errs, refused(path+".close", g.field("close"), kind{allowed: choice(closes)}))
		}
		return p, errors.Join(errs...)
	}
	return kind{
		allowed: noneOf + ", or PREFIX=" + strings.Join(closes, "|") + " of a User-Agent, or several with commas between; the first that fits holds",
		parse: func(text string) (any, string, bool) {
			list := []Profile{}
			if text == noneOf {
				return list, "", true
			}
			for entry := range strings.SplitSeq(text, ",") {
				i := strings.LastIndexByte(entry, '=')
				prefix, closing := strings.TrimLeft(entry[:max(i, 0)], " "), strings.TrimSpace(entry[i+1:])
				if prefix == "" || !slices.Contains(closes, closing) {
					return nil, "", false
				}
				list = append(list, Profile{prefix, closing})
			}
			return list, "", true
		},
		elements: func(path string, list []given) (any, error) { return elements(path, list, one) },
		format: func(v any) string {
			entries := []string{}
			for _, p := range v.([]Profile) {
				entries = append(entries, p.UserAgentPrefix+"="+p.Close)
			}
			if len(entries) == 0 {
				return noneOf
			}
			return strings.Join(entries, ",")
		},
	}
}

// bounds returns the two ends of a range, each the fallback if it is missing.
func bounds[T any](tag reflect.StructTag, parse func(string) (T, bool), lowest, highest T) (lo, hi T) {
	low, high, _ := strings.Cut(tag.Get("range"), "..")
	lo, hi = lowest, highest
	if v, ok := parse(low); ok {
		lo = v
	}
	if v, ok := parse(high); ok {
		hi = v
	}
	return lo, hi
}

var wholeNumber = regexp.MustCompile(`^[+-]?[0-9]+$`)

func number(text string) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil
}

// numbers is the kind of a number that has to be in its range, or is brought
// into it.
func numbers(tag reflect.StructTag) kind {
	lo, hi := bounds(tag, number, 0, math.MaxInt32)
	allowed := fmt.Sprintf("a whole number from %d to %d", lo, hi)
	if hi == math.MaxInt32 {
		allowed = fmt.Sprintf("a whole number, at least %d", lo)
	}
	clamp := tag.Get("clamp")
	parse := func(text string) (any, string, bool) {
		if !wholeNumber.MatchString(text) {
			return 0, "", false
		}
		// Of a number that is too large for an int64 the nearest one is used.
		n, _ := strconv.ParseInt(text, 10, 64)
		near := int(min(max(n, int64(lo)), int64(hi)))
		if int64(near) == n {
			return near, "", true
		}
		if other, ok := number(clamp); ok {
			near = other
		}
		return near, strconv.Itoa(near), clamp != ""
	}
	return kind{allowed: allowed, parse: parse, format: func(v any) string { return strconv.Itoa(v.(int)) }}
}

// Size is a number of bytes.
type Size int64

// units are those of sizes, the largest first.
var units = []struct {
	suffix string
	bytes  int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"", 1}}

// String writes a size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range units {
		if n := int64(s); n%unit.bytes == 0 && n != 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return "0"
}

func parseSize(text string) (Size, bool) {
	for _, unit := range units {
		digits, ok := strings.CutSuffix(text, unit.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(digits, 10, 63)
		if err != nil || n > math.MaxInt64/uint64(unit.bytes) { // #nosec G115 -- a unit is positive
			return 0, false
		}
		return Size(n) * Size(unit.bytes), true
	}
	return 0, false
}

func sizes(tag reflect.StructTag) kind {
	lo, hi := bounds(tag, parseSize, 1, math.MaxInt64)
	return kind{
		allowed: fmt.Sprintf("bytes from %s to %s, such as 1048576, 512KiB or 64MiB", lo, hi),
		parse: func(text string) (any, string, bool) {
			n, ok := parseSize(text)
			return n, "", ok && n >= lo && n <= hi
		},
		format: func(v any) string { return v.(Size).String() },
	}
}

// mostTime is the longest time that can be set, ten years: sums of a few of them
// still are times.
const mostTime = 87600 * time.Hour

func duration(text string) (time.Duration, bool) {
	d, err := time.ParseDuration(text)
	return d, err == nil
}

func durations(tag reflect.StructTag) kind {
	lo, hi := bounds(tag, duration, 0, mostTime)
	return kind{
		allowed: fmt.Sprintf("a time such as 30s or 12h, at least %s and at most %s", shortTime(lo), shortTime(hi)),
		parse: func(text string) (any, string, bool) {
			d, ok := duration(text)
			return d, "", ok && d >= lo && d <= hi
		},
		format: func(v any) string { return shortTime(v.(time.Duration)) },
	}
}

// shortTime writes a time without units that are zero: 4m, not 4m0s.
func shortTime(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func isPath(text string) bool { return text != "" && !looksLikeContent(text) }

func pathOnly(text string) string {
	if looksLikeContent(text) {
		return hidden
	}
	return text
}

// looksLikeContent reports whether text is that of a file with a certificate or
// a key, which is easily given in place of its path.
func looksLikeContent(text string) bool {
	return strings.ContainsAny(text, "\r\n\x00") || strings.Contains(text, "-----")
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil
}

// isUpstream is what proxy.New demands.
func isUpstream(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil && u.Fragment == ""
}

func isRedis(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Opaque == "" && (u.Scheme == "redis" || u.Scheme == "rediss" || u.Scheme == "unix")
}

func isToken(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

var schemes = []string{"http", "https", "redis", "rediss", "unix"}

// redacted leaves out of a URL what may be secret: user, password and query.
func redacted(text string) string {
	shown, query, more := strings.Cut(text, "?")
	if strings.Contains(query, "@") {
		return hidden // a password may go on there
	}
	if i := strings.LastIndexByte(shown, '@'); i >= 0 {
		scheme := ""
		if s, _, ok := strings.Cut(shown[:i], "://"); ok && slices.Contains(schemes, s) {
			scheme = s + "://"
		}
		shown = scheme + hidden + shown[i:]
	}
	if more {
		shown += "?" + hidden
	}
	return shown
}

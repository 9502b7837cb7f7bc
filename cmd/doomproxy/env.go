package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/doomproxy/doomproxy/proxy"
)

const (
	envPrefix  = "DOOMPROXY_"
	fileSuffix = "_FILE"

	// switchVariable is how users of the agent that knows loop reports turn its
	// recovery off. They expect it to work here too.
	switchVariable = "GROK_DOOM_LOOP_RECOVERY"

	// maxFileText is the most that is read from the file of a setting, in bytes.
	maxFileText = 64 << 10
)

// readEnvironment returns the variables that are settings. Others with their
// prefix are noted: a typing error, or something that an orchestrator adds for
// every service it knows.
func readEnvironment(table []*setting, env []string) (vars map[string]string, notes []note) {
	var known []string
	for _, st := range table {
		for _, name := range st.variables() {
			known = append(known, name, name+fileSuffix)
		}
	}
	vars = map[string]string{}
	for _, entry := range slices.Sorted(slices.Values(env)) {
		name, text, _ := strings.Cut(entry, "=")
		switch {
		case !strings.HasPrefix(name, envPrefix):
		case slices.Contains(known, name):
			vars[name] = text
		default:
			notes = append(notes, func(log *slog.Logger) {
				log.Warn("unknown environment variable", "name", name, "nearest", nearest(name, known))
			})
		}
	}
	return vars, notes
}

// fromEnvironment finds the text of a setting in its variables, and the name of
// the one that holds it.
func (st *setting) fromEnvironment(vars map[string]string) (text, source string, err error) {
	var given []string
	for _, name := range st.variables() {
		if t, ok := vars[name]; ok && (t != "" || st.empty) {
			given = append(given, name)
		}
		if vars[name+fileSuffix] != "" {
			given = append(given, name+fileSuffix)
		}
	}
	switch len(given) {
	case 0:
		return "", "", nil
	case 1:
		source = given[0]
	default:
		return "", "", fmt.Errorf("both %s and %s are set, want one of them", given[0], given[1])
	}
	text = vars[source]
	if !slices.Contains(st.variables(), source) {
		if text, err = readText(text); err != nil {
			return "", "", fmt.Errorf("%s: %w", source, err)
		}
	}
	return text, source, nil
}

// readText returns what a file holds, without the line end behind it.
func readText(path string) (string, error) {
	f, err := os.Open(path) // #nosec G304 -- the operator names the file
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxFileText+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFileText {
		return "", fmt.Errorf("%s: %w", path, errFileTooLarge)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

var errFileTooLarge = errors.New("larger than 64 KiB")

// obeySwitch turns the recovery off if its known switch says so and no flag says
// otherwise.
func (s *settings) obeySwitch(table []*setting, env []string) {
	for _, st := range table {
		if st.key == "recovery.mode" && len(st.given.given) > 0 {
			return
		}
	}
	for _, entry := range env {
		name, text, _ := strings.Cut(entry, "=")
		if name != switchVariable || !slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(text)) {
			continue
		}
		s.proxy.Mode = proxy.ModeOff
		s.notes = append(s.notes, func(log *slog.Logger) {
			log.Warn("recovery is off", "because", name, "value", text)
		})
	}
}

// nearest returns the word of a list that takes the fewest changes.
func nearest(word string, list []string) string {
	return slices.MinFunc(list, func(a, b string) int {
		return cmp.Compare(distance(word, a), distance(word, b))
	})
}

// distance is how many characters have to be put in, taken out or changed to
// make one word of another (Levenshtein's).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

package stationarity

import (
	"slices"
	"strings"
)

// maxInjected is how long a text may be that is looked through for what is
// injected. A longer one is the user's.
const maxInjected = 1 << 20

// injectedTags are the elements in which agents wrap what they add to a
// conversation as messages of the user's. Left out are those that report an
// event, since the agent may have waited for it.
var injectedTags = []string{
	"system-reminder", "system_reminder", "environment_context", "environment_details",
	"user_instructions", "codex_internal_context", "recommended_plugins", "app-context",
	"skill", "skills_instructions",
}

// What codex puts before and behind the instructions of a project.
const (
	projectHead = "# AGENTS.md instructions"
	projectTail = "</INSTRUCTIONS>"
)

// injected reports whether a message of the user role is not from the user: if
// that cannot be told of each of its parts, it is from the user.
func injected(it *item, texts []string) bool {
	if !strings.HasPrefix(it.content, "[") {
		return injectedText(it.content, texts)
	}
	for parts := listOf(it.content); parts.at > 0; {
		said := ""
		start, ok := membersBefore(parts.s, parts.at, func(key string, value span) {
			if key == "text" && said == "" {
				said = parts.s[value.lo:value.hi]
			}
		})
		if !ok || !injectedText(said, texts) {
			return false
		}
		parts.step(start, ok)
	}
	return true
}

// injectedText reports whether a JSON string holds only what is injected.
func injectedText(raw string, texts []string) bool {
	if len(raw) > maxInjected {
		return false
	}
	s := strings.TrimSpace(text(raw))
	if s == "" {
		return false
	}
	if strings.HasPrefix(s, nudgePrefix) {
		return true
	}
	if slices.ContainsFunc(texts, func(t string) bool { return strings.TrimSpace(t) == s }) {
		return true
	}
	for s != "" {
		tail := projectTail
		if !strings.HasPrefix(s, projectHead) {
			name := elementName(s)
			if !slices.Contains(injectedTags, name) {
				return false
			}
			tail = "</" + name + ">"
		}
		_, after, ok := strings.Cut(s, tail)
		if !ok {
			return false
		}
		s = strings.TrimSpace(after)
	}
	return true
}

// elementName returns the name of the element that a text begins with, if any.
func elementName(s string) string {
	if s[0] != '<' {
		return ""
	}
	end := strings.IndexAny(s, " >\n")
	if end < 0 {
		return ""
	}
	return s[1:end]
}

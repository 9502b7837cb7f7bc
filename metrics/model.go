package metrics

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Bounds of the model label. The name comes from the client's request, and each
// distinct value costs a series in every metric that carries it, for good.
const (
	maxModels      = 50 // distinct values
	maxModelLength = 64 // characters
)

const (
	otherModel   = "other"   // any model after the first maxModels
	unknownModel = "unknown" // no model, or a name that is no printable text
)

// ModelLabel returns the label value for the model that a request named: its
// first 64 characters, for the first 50 distinct ones; "other" after that;
// "unknown" for an empty name and for one that is not UTF-8 or holds control
// characters.
//
// The result shares no memory with model, which may be part of a request body.
func (m *Metrics) ModelLabel(model string) string {
	if model == "" || !utf8.ValidString(model) || strings.ContainsFunc(model, unicode.IsControl) {
		return unknownModel
	}
	return m.models.label(firstChars(model, maxModelLength))
}

// modelSet holds the models that have a label value of their own. The zero value
// is empty.
type modelSet struct {
	mu     sync.Mutex
	labels map[string]string // guarded by mu; each value is its own key
}

func (s *modelSet) label(model string) string {
	switch model { // a client may send these words; they take no place
	case otherModel:
		return otherModel
	case unknownModel:
		return unknownModel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if label, ok := s.labels[model]; ok {
		return label
	}
	if len(s.labels) >= maxModels {
		return otherModel
	}
	if s.labels == nil {
		s.labels = make(map[string]string, maxModels)
	}
	label := strings.Clone(model)
	s.labels[label] = label
	return label
}

// firstChars returns the first n characters of s, which is valid UTF-8.
func firstChars(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}

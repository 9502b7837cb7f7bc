package corpus_test

import (
	"bytes"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/doomproxy/doomproxy/detect/corpus"
)

func everyShape() []corpus.Shape {
	return slices.Concat(corpus.Loops(), corpus.Legitimate(), corpus.Recovering())
}

// TestShapes holds the numbers of shapes that were asked for, each with a name
// of its own.
func TestShapes(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ got, want int }{
		"loops":      {len(corpus.Loops()), 44},
		"legitimate": {len(corpus.Legitimate()), 29},
	} {
		if test.got < test.want {
			t.Errorf("%s: got %d shapes, want %d or more", what, test.got, test.want)
		}
	}
	names := map[string]bool{}
	for _, shape := range everyShape() {
		if shape.Name == "" || names[shape.Name] {
			t.Errorf("name %q is empty or comes twice", shape.Name)
		}
		names[shape.Name] = true
	}
}

// TestReports has a shape for each public report that was named.
func TestReports(t *testing.T) {
	t.Parallel()
	sources := map[string]bool{}
	for _, shape := range everyShape() {
		sources[shape.Source] = true
	}
	for _, report := range []string{
		"openai/codex#17534", "openai/codex#8006", "anthropics/claude-code#71945", "PrimeIntellect-ai/prime-agent#1029",
		"QwenLM/qwen-code#1775", "1CatAI/1Cat-vLLM#569", "can1357/oh-my-pi#12525", "aaif-goose/goose#9640", "ollama/ollama#17459",
		"ggml-org/llama.cpp#14075", "ggml-org/llama.cpp#19585", "ggml-org/llama.cpp#26039", "dottxt-ai/outlines#1131",
		"MoonshotAI/kimi-code#3214", "can1357/oh-my-pi#10895",

		"google-gemini/gemini-cli#5873", "google-gemini/gemini-cli#7950", "google-gemini/gemini-cli#18975", "google-gemini/gemini-cli#6022",
		"Avarok-Cybersecurity/atlas#393", "Avarok-Cybersecurity/atlas#703", "can1357/oh-my-pi#11129", "RooCodeInc/Roo-Code#9502",
		"typeclaw/typeclaw#669",
	} {
		if !sources[report] {
			t.Errorf("no shape for %s", report)
		}
	}
}

// TestSample makes the same text for the same seed, another for another, and
// loops that begin where they say.
func TestSample(t *testing.T) {
	t.Parallel()
	for _, shape := range everyShape() {
		a, again, b := shape.Sample(1), shape.Sample(1), shape.Sample(2)
		if !bytes.Equal(a.Text, again.Text) || a.Onset != again.Onset {
			t.Errorf("%s: two texts for one seed", shape.Name)
		}
		if bytes.Equal(a.Text, b.Text) && shape.Name != "truth-table" {
			t.Errorf("%s: one text for two seeds", shape.Name)
		}
		loops := shape.Group != corpus.None
		if onset := a.Onset < len(a.Text); onset != loops {
			t.Errorf("%s: onset at %d of %d", shape.Name, a.Onset, len(a.Text))
		}
		if left := len(a.Text) - a.Onset; loops && left < 2500 {
			t.Errorf("%s: loops for %d bytes, want more than is needed to see it", shape.Name, left)
		}
	}
}

// TestRepeats repeats what is said to be repeated: what follows a loop's onset
// by a while stood before, but for loops that change.
func TestRepeats(t *testing.T) {
	t.Parallel()
	for _, shape := range corpus.Loops() {
		if shape.Group == corpus.Counters || shape.Group == corpus.Drifts {
			continue
		}
		sample := shape.Sample(3)
		loop := sample.Text[sample.Onset:]
		middle := loop[len(loop)/2:][:20]
		if bytes.Contains(sample.Text[:sample.Onset], middle) || !bytes.Contains(loop[:len(loop)/2], middle) {
			t.Errorf("%s: %q does not come in the loop before, or comes before the loop", shape.Name, middle)
		}
	}
}

// TestCut cuts without loss, many times inside a character.
func TestCut(t *testing.T) {
	t.Parallel()
	var text []byte
	for _, shape := range corpus.Loops() {
		text = append(text, shape.Sample(1).Text...)
	}
	text = text[:len(text)/4]
	for seed := range uint64(3) {
		pieces := corpus.Cut(text, seed)
		if !bytes.Equal(bytes.Join(pieces, nil), text) {
			t.Fatalf("seed %d: the pieces are not the text", seed)
		}
		inside := 0
		for _, piece := range pieces {
			if len(piece) > 0 && !utf8.RuneStart(piece[0]) {
				inside++
			}
		}
		if inside < 100 || len(pieces) < len(text)/100 {
			t.Errorf("seed %d: %d cuts of %d bytes, %d inside a character; want one in 100 bytes, and 100", seed, len(pieces), len(text), inside)
		}
	}
}

// TestNearMisses adds one byte to an exact repetition, or to one that counts.
func TestNearMisses(t *testing.T) {
	t.Parallel()
	for _, near := range slices.Concat(corpus.ExactMisses(), corpus.CounterMisses()) {
		if !bytes.HasPrefix(near.Hit, near.Miss) || len(near.Hit) != len(near.Miss)+1 {
			t.Errorf("%s: %d bytes miss and %d hit, want one more", near.Name, len(near.Miss), len(near.Hit))
		}
	}
}

package corpus

import (
	"fmt"
	"strings"
)

// paragraphs are loops of about 300 bytes.
func paragraphs() []Shape {
	return []Shape{
		{Name: "paragraph", Group: Paragraphs, Source: "QwenLM/qwen-code#1775", write: again(func(p *page) string {
			return exactly(p.sentences(300), 298) + "\n\n"
		})},
		{Name: "paragraph-with-list", Group: Paragraphs, write: again(func(p *page) string {
			return p.sentence() + "\n" + list(p, 5)
		})},
		{Name: "paragraph-han", Group: Paragraphs, write: again(func(p *page) string {
			return p.han() + p.han() + p.han() + p.han() + p.han() + "\n\n"
		})},
		{Name: "function", Group: Paragraphs, write: again(func(p *page) string { return function(p) + "\n" })},
		{Name: "tool-call", Group: Paragraphs, write: again(func(p *page) string {
			return "I will " + p.pick(doing...) + " it.\n<tool_call>\n<function=read>\n<parameter=path>\n" + p.path() +
				"\n</parameter>\n<parameter=mode>\n" + p.noun() + "\n</parameter>\n</function>\n</tool_call>\n" + p.sentence() + "\n"
		})},
		{Name: "draft-cycle", Group: Paragraphs, Source: "aaif-goose/goose#9640", write: again(func(p *page) string {
			a, b := p.path(), p.path()
			return "I'll write the " + p.noun() + " to " + a + ".\n\nWait, I'll also write the " + p.noun() + " to " + b +
				".\n\nActually, I'll write the " + p.noun() + ".\n\n"
		})},
	}
}

// blocks are loops of a page or more, and found after three copies.
func blocks() []Shape {
	return []Shape{
		{Name: "block-2k", Group: Blocks, write: again(func(p *page) string { return exactly(p.sentences(2050), 2047) + "\n" })},
		{Name: "block-92-lines", Group: Blocks, Source: "ggml-org/llama.cpp#26039", write: func(p *page) {
			p.begin()
			var b strings.Builder
			for i := range 92 {
				fmt.Fprintf(&b, "%s%s = %s(%s)\n", strings.Repeat("    ", i%4), p.identifier(), p.identifier(), p.noun())
			}
			p.repeat(b.String(), 32*b.Len())
		}},
		{Name: "block-alike-lines", Group: Blocks, write: again(func(p *page) string {
			var b strings.Builder
			name := p.identifier()
			for i := range 60 {
				fmt.Fprintf(&b, "%s.set(%d, %q);\n", name, i, p.noun())
			}
			return b.String()
		})},
		{Name: "block-with-rules", Group: Blocks, write: again(func(p *page) string {
			return strings.Repeat("=", 72) + "\n" + p.sentences(900) + "\n" + strings.Repeat("-", 72) + "\n" + p.sentences(700) + "\n"
		})},
		{Name: "block-8k", Group: Blocks, write: again(func(p *page) string { return exactly(p.sentences(8200), 8192) })},
		{Name: "block-15k", Group: Blocks, write: again(func(p *page) string { return exactly(p.sentences(15100), 15000) })},
	}
}

// exactly cuts a text to n bytes.
func exactly(s string, n int) string { return s[:n] }

// list returns a list of n items.
func list(p *page, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString("- " + p.pick(doing...) + " the " + p.adjective() + " " + p.noun() + "\n")
	}
	return b.String()
}

// function returns a small function.
func function(p *page) string {
	name, a, b := p.identifier(), p.noun(), p.identifier()
	return fmt.Sprintf("func %s(%s *%s) error {\n\tfor _, v := range %s.%ss {\n\t\tif !v.%s() {\n\t\t\treturn fmt.Errorf(\"%s: %s\")\n\t\t}\n\t}\n\treturn %s.%s()\n}\n",
		name, a, p.identifier(), a, p.noun(), b, p.noun(), p.sentence(), a, p.identifier())
}

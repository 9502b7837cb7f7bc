package corpus

import "strings"

// again makes a loop of the unit that is returned.
func again(unit func(p *page) string) func(*page) {
	return func(p *page) { p.loop(unit(p)) }
}

// phrases are loops of a few words, found by the least number of bytes.
func phrases() []Shape {
	return []Shape{
		{Name: "two-word-line", Group: Phrases, Source: "openai/codex#17534", write: again(func(p *page) string {
			return p.pick(verbs...) + " " + p.noun() + "\n"
		})},
		{Name: "one-word-lines", Group: Phrases, write: again(func(p *page) string {
			return p.adjective() + "\n"
		})},
		{Name: "three-words", Group: Phrases, Source: "openai/codex#8006", write: again(func(p *page) string {
			return p.noun() + " " + p.pick(doing...) + " " + p.adjective() + " "
		})},
		{Name: "two-words", Group: Phrases, Source: "anthropics/claude-code#71945", write: again(func(p *page) string {
			return p.pick(doing...) + " " + p.noun() + " "
		})},
		{Name: "the-the", Group: Phrases, Source: "PrimeIntellect-ai/prime-agent#1029", write: func(p *page) {
			p.begin()
			word := p.pick("the", "and", "to", "of")
			p.add(strings.ToUpper(word[:1]) + word[1:] + " ")
			p.onset = len(p.text)
			p.repeat(word+" ", loopLen)
		}},
		{Name: "two-lines", Group: Phrases, write: again(func(p *page) string {
			return p.pick(thinking...) + " " + p.pick(doing...) + " it.\n" + p.pick("Done.", "Wait.", "OK.") + "\n"
		})},
		{Name: "sentence", Group: Phrases, Source: "anomalyco/opencode#44962", write: again(func(p *page) string {
			return p.pick(thinking...) + " " + p.pick(doing...) + " the " + p.adjective() + " " + p.noun() + ". "
		})},
		{Name: "sentence-and-think-end", Group: Phrases, Source: "1CatAI/1Cat-vLLM#569", write: again(func(p *page) string {
			return p.pick(thinking...) + " " + p.pick(doing...) + " the " + p.noun() + ".\n</think>\n\n"
		})},
		{Name: "sentence-and-template-token", Group: Phrases, write: again(func(p *page) string {
			return p.clause() + "<|" + p.pick("im_end", "im_start", "end", "channel") + "|>"
		})},
		{Name: "bullet", Group: Phrases, write: again(func(p *page) string {
			return "- " + p.pick(doing...) + " the " + p.noun() + "\n"
		})},
		{Name: "wait", Group: Phrases, write: again(func(p *page) string {
			return p.pick("Wait, let me", "Actually, let me", "Hmm, I will") + " " + p.pick(doing...) + " that again.\n\n"
		})},
		{Name: "code-line", Group: Phrases, write: again(func(p *page) string {
			return "    " + p.identifier() + "." + p.identifier() + "(" + p.noun() + ");\n"
		})},
		{Name: "open-fence", Group: Phrases, write: func(p *page) {
			p.begin()
			p.addf("```go\nfunc %s() error {\n", p.identifier())
			p.onset = len(p.text)
			p.repeat("\tif err := "+p.identifier()+"(); err != nil {\n\t\treturn err\n\t}\n", loopLen)
		}},
		{Name: "same-read", Group: Phrases, Source: "MoonshotAI/kimi-code#3214", write: func(p *page) {
			p.begin()
			call := "Read(" + p.path() + ")\n"
			for range 90 {
				p.add(call)
			}
		}},
		{Name: "long-sentence", Group: Phrases, write: again(func(p *page) string {
			return p.pick(thinking...) + " " + p.pick(doing...) + " the " + p.noun() + ", " + p.pick(linking...) + " " + p.clause() + ".\n"
		})},
		{Name: "han", Group: Phrases, write: again((*page).han)},
		{Name: "cyrillic", Group: Phrases, write: again((*page).cyrillic)},
		{Name: "arabic", Group: Phrases, write: again((*page).arabic)},
		{Name: "emoji-and-words", Group: Phrases, write: again(func(p *page) string {
			return p.pick("✅", "🚀", "🤔", "❌") + " " + p.pick(doing...) + " " + p.noun() + "\n"
		})},
	}
}

// floods are loops of hardly any words, and of data.
func floods() []Shape {
	return []Shape{
		{Name: "one-letter", Group: Floods, Source: "ggml-org/llama.cpp#14075", write: again(func(p *page) string {
			return p.noise(1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
		})},
		{Name: "question-marks", Group: Floods, Source: "can1357/oh-my-pi#12525", write: again(func(p *page) string {
			return p.pick("?!", "!?", "?!?", "??!")
		})},
		{Name: "slashes", Group: Floods, write: again(func(p *page) string { return p.pick("/", "//", "\\", "|") })},
		{Name: "exclamation-marks", Group: Floods, Source: "syv-ai/qwen38-27b-rtx3090#8", write: again(func(*page) string { return "! " })},
		{Name: "spaces-in-json", Group: Floods, write: func(p *page) {
			p.begin()
			p.addf(`{"%s": "%s",`, p.noun(), p.path())
			p.onset = len(p.text)
			p.repeat(" ", loopLen)
		}},
		{Name: "newlines", Group: Floods, write: again(func(p *page) string { return p.pick("\n", "\n\n", "\\n", " \n") })},
		{Name: "one-token", Group: Floods, Source: "google-gemini/gemini-cli#5813", write: again(func(p *page) string {
			return p.pick("ny", "lol", "haha", "assistant", "ĠĠ", "ello")
		})},
		{Name: "unused-token", Group: Floods, Source: "ollama/ollama#17459", write: again(func(p *page) string {
			return "<unused" + p.noise(2, digits) + ">"
		})},
		{Name: "end-token", Group: Floods, write: again(func(p *page) string {
			return p.pick("<|endoftext|>", "<|im_end|>", "</s>", "<pad>", "</think>")
		})},
		{Name: "dots", Group: Floods, write: again(func(p *page) string { return p.pick(".", "...", ". ", "…") })},
		{Name: "dashes", Group: Floods, write: again(func(p *page) string { return p.pick("-", "=", "─", "—", "*") })},
		{Name: "emoji", Group: Floods, write: again(func(p *page) string { return p.pick("🚀", "😂", "✨✅", "👍🏽") })},
		{Name: "full-width", Group: Floods, write: again(func(p *page) string { return p.pick("！", "。", "？！", "，") })},
		{Name: "broken-utf8", Group: Floods, write: again(func(p *page) string { return p.pick("\uFFFD", "\xFF", "\xC3") })},
		{Name: "closing-brackets", Group: Floods, write: again(func(p *page) string { return p.pick(")}", "}\n", "]]", ")\n\t", "}}") })},

		{Name: "zeros", Group: Data, write: again(func(p *page) string { return p.pick("0", "0, ", "00 ", "0x00, ") })},
		{Name: "digits", Group: Data, write: again(func(p *page) string { return p.noise(p.between(3, 40), digits) })},
		{Name: "base64-line", Group: Data, write: again(func(p *page) string { return p.noise(76, base64Alphabet) + "\n" })},
		{Name: "hex-dump-line", Group: Data, write: again(func(p *page) string {
			return p.noise(8, hexAlphabet) + " " + p.noise(8, hexAlphabet) + " " + p.noise(8, hexAlphabet) + "\n"
		})},
		{Name: "json-item", Group: Data, Source: "dottxt-ai/outlines#1131", write: func(p *page) {
			p.begin()
			p.addf(`{"%s": [`, p.noun())
			p.onset = len(p.text)
			p.repeat(`{"id": `+p.noise(4, digits)+`, "`+p.noun()+`": "`+p.adjective()+`", "`+p.noun()+`": `+p.noise(2, digits)+`}, `, loopLen)
		}},
	}
}

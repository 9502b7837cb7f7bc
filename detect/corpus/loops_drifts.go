package corpus

import "strings"

// counters are loops that are alike but for numbers, case or spacing.
func counters() []Shape {
	return []Shape{
		{Name: "turn-counter", Group: Counters, Source: "ggml-org/llama.cpp#19585", write: func(p *page) {
			unit := p.sentence()
			p.going(func(i int) { p.addf("Turn %d: %s\n", i, unit) })
		}},
		{Name: "template-turn-counter", Group: Counters, write: func(p *page) {
			noun := p.noun()
			p.going(func(i int) {
				p.addf("<|im_start|>user\n%s %d<|im_end|>\n<|im_start|>assistant\n", noun, i)
			})
		}},
		{Name: "attempt-counter", Group: Counters, write: func(p *page) {
			verb, noun := p.pick(doing...), p.noun()
			p.going(func(i int) { p.addf("Attempt %d. I will %s the %s once more, and then see.\n", i, verb, noun) })
		}},
		{Name: "calls-with-one-field-varied", Group: Counters, Source: "can1357/oh-my-pi#10895", write: func(p *page) {
			verb, noun := p.pick(doing...), p.noun()
			p.going(func(i int) { p.addf("Let me %s the %s from line %d on.\n", verb, noun, 1+40*(i%303)) })
		}},
		{Name: "paragraph-counter", Group: Counters, write: func(p *page) {
			unit := p.sentences(300)
			p.going(func(i int) { p.addf("Step %d. %s\n\n", i, unit) })
		}},
		{Name: "random-numbers", Group: Counters, write: func(p *page) {
			a, b := p.clause(), p.clause()
			p.going(func(int) { p.addf("When %s we get %d, and %s.\n", a, p.r.IntN(1e6), b) })
		}},
		{Name: "random-spacing", Group: Counters, write: func(p *page) {
			unit := strings.Fields(p.sentences(200))
			p.going(func(int) {
				for _, word := range unit {
					p.add(word + p.pick(" ", " ", " ", "\n", "  ", "\n\n"))
				}
			})
		}},
		{Name: "random-case", Group: Counters, write: func(p *page) {
			unit := strings.Fields(p.sentence())
			p.going(func(int) {
				for _, word := range unit {
					if p.r.IntN(4) == 0 {
						word = strings.ToUpper(word)
					}
					p.add(word + " ")
				}
			})
		}},
		{Name: "page-counter", Group: Counters, write: func(p *page) {
			unit := p.sentences(900)
			p.going(func(i int) { p.addf("%s (%d)\n", unit, i) })
		}},
	}
}

// drifts are loops of the same phrases in changing order, or with changing
// words between them.
func drifts() []Shape {
	return []Shape{
		{Name: "paragraph-cut-anywhere", Group: Drifts, write: func(p *page) {
			unit := p.sentences(p.between(300, 900))
			p.going(func(int) { p.add(unit[:p.between(len(unit)/4, len(unit))]) })
		}},
		{Name: "wait-actually", Group: Drifts, Source: "aaif-goose/goose#9640", write: func(p *page) {
			var steps []string
			for _, start := range []string{"I'll", "Wait, I'll first", "Actually, I'll", "Hold on, I should"} {
				steps = append(steps, start+" "+p.pick(doing...)+" the "+p.noun()+" of the "+p.adjective()+" "+p.noun()+".\n\n")
			}
			p.going(func(int) { p.add(p.pick(steps...)) })
		}},
		{Name: "shuffled-sentences", Group: Drifts, write: func(p *page) {
			unit := make([]string, 6)
			for i := range unit {
				unit[i] = p.clause() + ". "
			}
			p.going(func(int) {
				p.r.Shuffle(len(unit), func(i, j int) { unit[i], unit[j] = unit[j], unit[i] })
				p.add(strings.Join(unit, ""))
			})
		}},
		{Name: "shuffled-sentences-han", Group: Drifts, write: func(p *page) {
			unit := []string{p.han(), p.han(), p.han(), p.han()}
			p.going(func(int) { p.add(p.pick(unit...)) })
		}},
		{Name: "one-word-changes", Group: Drifts, write: func(p *page) {
			head, tail := p.sentences(150), p.sentences(150)
			words := []string{p.adjective(), p.adjective(), p.adjective()}
			p.going(func(int) { p.add(head + " It is " + p.pick(words...) + ". " + tail + "\n") })
		}},
		{Name: "phrase-changes-at-times", Group: Drifts, Source: "mudler/LocalAI#969", write: func(p *page) {
			units := []string{p.sentence() + "\n", p.sentence() + "\n", p.sentence() + "\n"}
			p.going(func(int) {
				unit := p.pick(units...)
				for range p.between(2, 9) {
					p.add(unit)
				}
			})
		}},
		{Name: "restarted-block", Group: Drifts, write: func(p *page) {
			unit := p.sentences(1200)
			p.going(func(int) {
				at := p.r.IntN(len(unit) - 400)
				p.add(unit[at:p.between(at+400, len(unit)+1)])
			})
		}},
		{Name: "riddles", Group: Drifts, Source: "instructlab/instructlab#137", write: func(p *page) {
			p.going(func(int) {
				p.add("Why was the " + p.pick("book", "tree", "sun", "clock", "river") + " so excited?\nBecause it had so many " +
					p.pick("pages", "leaves", "rays", "hands", "fish") + " to " + p.pick("turn", "shine", "show") + "!\n\n")
			})
		}},
	}
}

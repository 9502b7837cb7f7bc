package corpus

import "strings"

// writing is prose that says things again on purpose, or goes on for long.
func writing() []Shape {
	return []Shape{
		{Name: "thoughts", write: func(p *page) { p.thoughts(p.between(2000, 60000)) }},
		{Name: "refrain", write: func(p *page) {
			refrain := p.clause() + ",\n" + p.clause() + ",\nla la la la la la la la,\n" + p.clause() + ".\n\n"
			p.times(4, 9, func(int) {
				p.times(4, 7, func(int) { p.add(p.clause() + ",\n") })
				p.add("\n" + refrain)
			})
		}},
		{Name: "quoted-twice", write: func(p *page) {
			text := p.sentences(p.between(500, 6000))
			p.add(text + "\n\n" + p.sentence() + "\n\n" + text + "\n\n" + p.sentence() + "\n")
		}},
		{Name: "licence-headers", write: func(p *page) {
			licence := "// " + strings.Join([]string{p.sentence(), p.sentence(), p.sentence()}, "\n// ") + "\n\n"
			p.times(5, 20, func(int) { p.add(licence + function(p) + "\n") })
		}},
		{Name: "drafts", write: func(p *page) {
			text := strings.SplitAfter(p.sentences(800), ". ")
			p.times(3, 4, func(i int) {
				p.addf("Draft %d:\n", i)
				for _, s := range text {
					if p.r.IntN(5) == 0 {
						s = p.sentence() + " "
					}
					p.add(s)
				}
				p.add("\n\n")
			})
		}},
		{Name: "questions-and-answers", write: func(p *page) {
			p.times(10, 40, func(i int) { p.addf("Q%d: %s\nA%d: %s\n\n", i, p.sentence(), i, p.sentence()) })
		}},
		{Name: "han-prose", write: func(p *page) { p.times(20, 200, func(int) { p.add(p.han()) }) }},
		{Name: "cyrillic-prose", write: func(p *page) { p.times(20, 100, func(int) { p.add(p.cyrillic()) }) }},
	}
}

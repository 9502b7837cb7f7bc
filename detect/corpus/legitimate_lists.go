package corpus

import "strings"

// lists are texts whose lines begin alike.
func lists() []Shape {
	return []Shape{
		{Name: "batch-moves", Source: "google-gemini/gemini-cli#5873", write: func(p *page) {
			from, to := "src/components/"+p.noun(), "src/features/"+p.noun()+"/components"
			p.times(40, 120, func(int) {
				file := p.identifier() + ".tsx"
				p.addf("git mv %s/%s %s/%s\n", from, file, to, file)
			})
		}},
		{Name: "shared-prefix", Source: "google-gemini/gemini-cli#18975", write: func(p *page) {
			prefix := "projects/my-cloud-project-" + p.noise(5, digits) + "/locations/us-central1/services/"
			p.times(20, 120, func(int) { p.add("* " + prefix + p.noun() + "-" + p.noun() + "\n") })
		}},
		{Name: "block-wise-loading", Source: "google-gemini/gemini-cli#7950", write: func(p *page) {
			file := p.path()
			p.times(20, 60, func(i int) {
				p.addf("Block %d: `%s` rows %d-%d. %s\n", i, file, 1000*i, 1000*i+999, p.sentence())
			})
		}},
		{Name: "paged-reads", Source: "RooCodeInc/Roo-Code#9502", write: func(p *page) {
			file := p.path()
			for i := range 50 {
				p.addf(`{"path":"%s","start_line":%d,"end_line":%d}`+"\n", file, 200*i+1, 200*i+200)
			}
		}},
		{Name: "polls", Source: "typeclaw/typeclaw#669", write: func(p *page) {
			p.times(20, 60, func(i int) {
				p.addf("Poll %d at 12:%02d:%02d: the %s is %s, %d of %d done.\n", i, i/2, i%2*30,
					p.noun(), p.pick("running", "queued", "waiting", "building"), i*3+p.r.IntN(3), 200)
			})
		}},
		{Name: "numbered-steps", write: func(p *page) {
			p.times(20, 80, func(i int) { p.addf("%d. %s\n", i, p.sentence()) })
		}},
		{Name: "checklist", write: func(p *page) {
			p.times(20, 80, func(int) {
				p.addf("- [%s] %s the %s of the %s\n", p.pick("x", " "), p.pick(doing...), p.noun(), p.noun())
			})
		}},
		{Name: "progress", write: func(p *page) {
			total := p.between(30, 50)
			p.times(total, total+1, func(i int) {
				p.addf("Downloading package %s (%d of %d)\n", p.identifier(), i, total)
			})
		}},
		{Name: "urls", write: func(p *page) {
			host := p.noun() + "." + p.noun() + ".example"
			p.times(30, 90, func(int) { p.add("https://" + host + "/api/v1/" + p.noun() + "/" + p.noise(8, hexAlphabet) + "\n") })
		}},
		{Name: "directory-tree", write: func(p *page) {
			p.times(40, 120, func(int) {
				p.add(strings.Repeat("│   ", p.r.IntN(4)) + "├── " + p.noun() + "_" + p.noun() + ".go\n")
			})
		}},
	}
}

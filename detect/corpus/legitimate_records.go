package corpus

import "strings"

// records are data, a line or an object each.
func records() []Shape {
	return []Shape{
		{Name: "json-list", Source: "can1357/oh-my-pi#11129", write: func(p *page) {
			p.add("[\n")
			p.times(20, 90, func(i int) {
				p.addf("  {\n    \"id\": %d,\n    \"name\": %q,\n    \"enabled\": true,\n    \"tags\": [],\n    \"parent\": null\n  },\n", i, p.noun())
			})
			p.add("]\n")
		}},
		{Name: "json-lines", write: func(p *page) {
			p.times(20, 90, func(i int) {
				p.addf(`{"ts":"2026-03-04T05:%02d:%02d.%03dZ","level":"info","msg":"request","status":200,"path":"/%s"}`+"\n",
					i/60, i%60, p.r.IntN(1000), p.noun())
			})
		}},
		{Name: "csv", write: func(p *page) {
			p.add("id,name,state,amount,currency,country\n")
			p.times(40, 200, func(i int) {
				p.addf("%d,%s,%s,%d.%02d,EUR,DE\n", i, p.noun(), p.pick("open", "paid"), p.r.IntN(900), p.r.IntN(100))
			})
		}},
		{Name: "base64", write: func(p *page) {
			p.times(20, 200, func(int) { p.add(p.noise(76, base64Alphabet) + "\n") })
			p.add(strings.Repeat("A", p.between(20, 400)) + "==\n")
		}},
		{Name: "hex-dump", write: func(p *page) {
			p.times(30, 120, func(i int) {
				p.addf("%08x  ", i*16)
				zero := p.r.IntN(3) == 0
				for range 16 {
					if zero {
						p.add("00 ")
					} else {
						p.add(p.noise(2, hexAlphabet) + " ")
					}
				}
				p.add("\n")
			})
		}},
		{Name: "log", write: func(p *page) {
			p.times(40, 150, func(i int) {
				p.addf("2026-03-04 05:%02d:%02d.%03d INFO  [%s] %s %s took %dms\n", i/60, i%60, p.r.IntN(1000), p.noun(), p.noun(), p.pick(verbs...), p.r.IntN(500))
			})
		}},
		{Name: "stack-trace", write: func(p *page) {
			module := "com." + p.noun() + "." + p.noun()
			p.times(20, 80, func(int) {
				p.addf("\tat %s.%s.%s(%s.java:%d)\n", module, p.noun(), p.identifier(), p.identifier(), p.between(10, 900))
			})
		}},
		{Name: "yaml", write: func(p *page) {
			p.times(10, 50, func(int) {
				p.addf("- name: %s-%s\n  image: registry.example/%s:latest\n  resources:\n    limits:\n      cpu: 100m\n      memory: 128Mi\n", p.noun(), p.noun(), p.noun())
			})
		}},
	}
}

package corpus

import "strings"

// code repeats its own forms, with other names in them.
func code() []Shape {
	return []Shape{
		{Name: "similar-functions", write: func(p *page) {
			p.times(10, 40, func(int) {
				name, field := p.identifier(), p.noun()
				p.addf("// %s returns the %s.\nfunc (c *Client) %s() string {\n\tif c == nil {\n\t\treturn \"\"\n\t}\n\treturn c.%s\n}\n\n", name, field, name, field)
			})
		}},
		{Name: "same-form-docstrings", Source: "Avarok-Cybersecurity/atlas#703", write: func(p *page) {
			p.times(10, 40, func(int) {
				name := p.identifier()
				p.addf("def get_%s(self):\n    \"\"\"Return the %s of the %s.\n\n    Returns:\n        The %s, or None if it is not set.\n    \"\"\"\n    return self._%s\n\n",
					name, p.noun(), p.noun(), p.noun(), name)
			})
		}},
		{Name: "switch-cases", write: func(p *page) {
			p.times(20, 80, func(i int) { p.addf("\tcase %d:\n\t\treturn %q\n", i, p.noun()) })
		}},
		{Name: "imports", write: func(p *page) {
			module := "github.com/" + p.noun() + "/" + p.noun()
			p.times(20, 60, func(int) { p.addf("\t\"%s/%s/%s\"\n", module, p.noun(), p.noun()) })
		}},
		{Name: "error-checks", write: func(p *page) {
			p.times(20, 50, func(int) {
				p.addf("\tif err := %s(%s); err != nil {\n\t\treturn err\n\t}\n", p.identifier(), p.noun())
			})
		}},
		{Name: "test-cases", write: func(p *page) {
			p.times(20, 60, func(int) {
				p.addf("\t\t{name: %q, in: %q, want: %d},\n", p.noun(), p.identifier(), p.r.IntN(100))
			})
		}},
		{Name: "diff", write: func(p *page) {
			p.times(10, 30, func(i int) {
				old := p.identifier()
				p.addf("@@ -%d,3 +%d,3 @@\n import {\n-  %s,\n+  %s,\n } from '%s';\n", i*12, i*12, old, p.identifier(), p.noun())
			})
		}},
		{Name: "html-table", write: func(p *page) {
			p.times(20, 60, func(int) {
				p.addf("<tr><td>%s</td><td>%s</td><td class=\"number\">%d</td><td></td></tr>\n", p.noun(), p.noun(), p.r.IntN(1000))
			})
		}},
		{Name: "css", write: func(p *page) {
			p.times(20, 60, func(int) {
				p.addf(".%s-%s {\n  margin: %dpx;\n  padding: 0 0 0 0;\n  color: #%s;\n}\n\n", p.noun(), p.noun(), p.r.IntN(20), p.noise(6, hexAlphabet))
			})
		}},
		{Name: "sql-inserts", write: func(p *page) {
			table := p.noun()
			p.times(20, 80, func(i int) {
				p.addf("INSERT INTO %s (id, name, state, created) VALUES (%d, '%s', '%s', NULL);\n", table, i, p.noun(), p.adjective())
			})
		}},
		{Name: "sparse-array", write: func(p *page) {
			p.add("var table = [256]byte{\n" + strings.Repeat("\t0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,\n", 8))
			p.times(8, 9, func(int) {
				p.add("\t")
				for range 16 {
					p.addf("%d, ", p.r.IntN(256))
				}
				p.add("\n")
			})
			p.add("}\n")
		}},
	}
}

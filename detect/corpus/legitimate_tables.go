package corpus

import (
	"fmt"
	"strings"
)

// tables are rows and columns, padded and ruled.
func tables() []Shape {
	return []Shape{
		{Name: "table-rule", Source: "google-gemini/gemini-cli#6022", write: func(p *page) {
			n := p.between(4, 12)
			p.add(strings.Repeat("| "+p.noun()+" ", n) + "|\n" + strings.Repeat("|"+strings.Repeat("-", p.between(10, 60)), n) + "|\n")
			p.times(5, 40, func(int) { p.add(strings.Repeat("| "+p.identifier()+" ", n) + "|\n") })
		}},
		{Name: "alignment-row", Source: "lablup/mlxcel#969", write: func(p *page) {
			n := p.between(4, 14)
			p.add(strings.Repeat("| "+p.noun()+" ", n) + "|\n" + strings.Repeat("| :--- ", n) + "|\n")
			p.times(5, 30, func(int) {
				for range n {
					p.add("| " + p.adjective() + " ")
				}
				p.add("|\n")
			})
		}},
		{Name: "long-rules", write: func(p *page) {
			p.times(3, 9, func(int) {
				p.add(p.sentence() + "\n" + strings.Repeat(p.pick("=", "-", "─", "*"), p.between(40, 160)) + "\n")
			})
		}},
		{Name: "ip-table", Source: "Avarok-Cybersecurity/atlas#393", write: func(p *page) {
			net := p.r.IntN(256)
			p.times(60, 254, func(i int) {
				p.addf("| 192.168.%d.%d | %s-%02d | %s |\n", net, i, p.noun(), i, p.pick("up", "down", "unknown"))
			})
		}},
		{Name: "padded-columns", write: func(p *page) {
			p.times(20, 80, func(int) { p.addf("%-40s%-60s%s\n", p.noun(), p.noun(), p.pick("yes", "no")) })
		}},
		{Name: "distinct-numbers", write: func(p *page) {
			p.times(200, 900, func(i int) { p.addf("%d, ", i*i+p.r.IntN(9)) })
		}},
		{Name: "counting", write: func(p *page) {
			p.times(200, 900, func(i int) { p.addf("%d\n", i) })
		}},
		{Name: "matrix", write: func(p *page) {
			n := p.between(6, 14)
			p.times(n, n+1, func(i int) {
				for j := range n {
					p.addf("%d ", map[bool]int{true: 1}[i-1 == j])
				}
				p.add("\n")
			})
		}},
		{Name: "truth-table", write: func(p *page) {
			for i := range 64 {
				p.addf("| %06b | %s |\n", i, strings.Join(strings.Split(fmt.Sprintf("%b", i^i>>1), ""), " | "))
			}
		}},
		{Name: "ascii-art", write: func(p *page) {
			p.times(12, 40, func(i int) {
				p.add(strings.Repeat(" ", 40-i) + strings.Repeat(p.pick("*", "#", "/\\"), i) + "\n")
			})
		}},
		{Name: "boxes", write: func(p *page) {
			p.times(3, 7, func(int) {
				n := p.between(20, 60)
				p.add("┌" + strings.Repeat("─", n) + "┐\n")
				p.times(2, 6, func(int) { p.addf("│ %-*s │\n", n-2, p.noun()) })
				p.add("└" + strings.Repeat("─", n) + "┘\n        │\n        ▼\n")
			})
		}},
	}
}

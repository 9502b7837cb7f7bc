package metrics_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/doomproxy/doomproxy/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

const docs = "../docs/metrics.md"

// description is what a prometheus.Desc tells, which it does as text only.
var description = regexp.MustCompile(`fqName: "([^"]*)".*variableLabels: \{([^}]*)\}`)

// TestDocs compares the table for users with what is registered: neither has a
// metric or a label that the other has not.
func TestDocs(t *testing.T) {
	want := header + table(t)
	if *update {
		if err := os.WriteFile(docs, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the code says; `go test ./metrics -run TestDocs -update` writes it", docs)
	}
	// What a scrape shows is in it, whatever made it.
	reg := prometheus.NewRegistry()
	metrics.New(reg, metrics.Build{})
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name := f.GetName()
		if strings.HasPrefix(name, "doomproxy_") && !strings.Contains(string(got), "| `"+name+"` |") {
			t.Errorf("%s is not in %s", name, docs)
		}
	}
}

const header = `# Metrics

All series of doomproxy, as ` + "`/metrics`" + ` on the admin listener shows them, besides those of the Go runtime
(` + "`go_…`" + `) and the process (` + "`process_…`" + `). This page is made from the code; a test compares the two.

No label holds anything that a user or a model wrote, but the model's name: the first 50 distinct names of
at most 64 characters count, all others are ` + "`other`" + `, and what tells no name is ` + "`unknown`" + `.

Requests are what clients send, attempts what the upstream is asked for, and may bill; steps are an
agent's model calls. None of these numbers is derived from another.

| metric | type | labels | counts |
|---|---|---|---|
`

// table writes a row for each field of Metrics that is a metric.
func table(t *testing.T) string {
	t.Helper()
	m := reflect.ValueOf(metrics.New(nil, metrics.Build{})).Elem()
	comments := fieldComments(t)
	var b strings.Builder
	for i := range m.NumField() {
		field := m.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		c, ok := reflect.TypeAssert[prometheus.Collector](m.Field(i))
		if !ok {
			continue
		}
		descs := make(chan *prometheus.Desc, 1)
		c.Describe(descs)
		d := description.FindStringSubmatch((<-descs).String())
		if d == nil {
			t.Fatalf("%s does not describe itself", field.Name)
		}
		text, values := split(comments[field.Name])
		var labels []string
		for label := range strings.SplitSeq(d[2], ",") {
			if label == "" {
				continue
			}
			if values[label] == "" {
				t.Errorf("the comment of %s does not say which values the label %s has", field.Name, label)
			}
			labels = append(labels, "`"+label+"`: "+values[label])
			delete(values, label)
		}
		for label := range values {
			t.Errorf("the comment of %s tells of a label %s that it has not", field.Name, label)
		}
		if text == "" {
			t.Errorf("%s has no comment", field.Name)
		}
		kind := strings.ToLower(strings.TrimSuffix(field.Type.Name(), "Vec"))
		if field.Type.Kind() == reflect.Pointer {
			kind = strings.ToLower(strings.TrimSuffix(field.Type.Elem().Name(), "Vec"))
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d[1], kind, strings.Join(labels, "<br>"), text)
	}
	return b.String()
}

var labelSentence = regexp.MustCompile(`(?:^|[.] )([a-z_]+(?:, [a-z_]+)*): `)

// split takes a field's comment apart: what it counts, and the values of its
// labels. "a, b: as in X." tells of two labels.
func split(comment string) (text string, values map[string]string) {
	comment = strings.Join(strings.Fields(comment), " ")
	values = map[string]string{}
	found := labelSentence.FindAllStringSubmatchIndex(comment, -1)
	text = comment
	for i, at := range found {
		if i == 0 {
			text = strings.TrimSpace(comment[:at[0]+1])
		}
		end := len(comment)
		if i+1 < len(found) {
			end = found[i+1][0] + 1
		}
		for label := range strings.SplitSeq(comment[at[2]:at[3]], ", ") {
			values[label] = strings.TrimSuffix(strings.TrimSpace(comment[at[1]:end]), ".")
		}
	}
	_, text, _ = strings.Cut(text, " ") // the field's name
	text = strings.TrimPrefix(strings.TrimPrefix(text, "counts "), "observes ")
	return strings.ToUpper(text[:min(1, len(text))]) + text[min(1, len(text)):], values
}

// fieldComments returns the comments of the fields of Metrics.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "metrics.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || spec.Name.Name != "Metrics" {
			return true
		}
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			for _, name := range f.Names {
				comments[name.Name] = f.Doc.Text()
			}
		}
		return false
	})
	return comments
}

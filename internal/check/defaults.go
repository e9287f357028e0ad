package check

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Options finds the fields of all option structs of the library: exported structs
// called …Options, and policy.Retry. It maps "bridge.Options.Capacity" to the field's comment.
func Options(sources []*Source) map[string]string {
	fields := map[string]string{}
	for _, s := range sources {
		dir := path.Dir(s.Path)
		if s.IsTest() || dir != "policy" && dir != "local" && dir != "durable" && dir != "bridge" {
			continue
		}
		ast.Inspect(s.AST, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			structure, ok := spec.Type.(*ast.StructType)
			name := dir + "." + spec.Name.Name
			if !ok || !spec.Name.IsExported() || !strings.HasSuffix(name, "Options") && name != "policy.Retry" {
				return false
			}
			for _, f := range structure.Fields.List {
				for _, id := range f.Names {
					if id.IsExported() {
						fields[name+"."+id.Name] = f.Doc.Text() + f.Comment.Text()
					}
				}
			}
			return false
		})
	}
	return fields
}

// Defaults compares the table of defaults in a document with the comments of the
// fields: each field has a row | `package.Struct.Field` | default | … |, and its comment
// names that default. "none" stands for a default that says nothing.
func Defaults(document string, sources []*Source) []string {
	fields := Options(sources)
	rows := map[string]string{}
	var wrong []string
	for line := range strings.Lines(document) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		name := strings.TrimSpace(cells[1])
		if field := strings.Trim(name, "`"); field != name && strings.Count(field, ".") == 2 {
			rows[field] = strings.TrimSpace(cells[2])
		}
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		row, ok := rows[field]
		switch {
		case !ok:
			wrong = append(wrong, field+": not in the table of defaults")
		case row != "none" && !says(fields[field], row):
			wrong = append(wrong, fmt.Sprintf("%s: the table says %q, the comment does not: %s", field, row, plain(fields[field])))
		}
	}
	for _, field := range slices.Sorted(maps.Keys(rows)) {
		if _, ok := fields[field]; !ok {
			wrong = append(wrong, field+": in the table of defaults, but there is no such field")
		}
	}
	return wrong
}

// says reports whether a comment has the value as words of its own: "2" is not in "20".
func says(comment, value string) bool {
	words := regexp.MustCompile(`(^|[\s:;(])` + regexp.QuoteMeta(plain(value)) + `($|[\s.,;)])`)
	return words.MatchString(plain(comment))
}

// plain is text without case, markup and line breaks.
func plain(text string) string {
	return strings.ToLower(strings.Join(strings.Fields(strings.ReplaceAll(text, "`", "")), " "))
}

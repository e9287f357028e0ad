package check

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Source is one Go file of the module.
type Source struct {
	Path  string // relative to the root, with slashes
	Lines int
	AST   *ast.File

	fset *token.FileSet
}

// Sources parses the Go files below root, in the order of their paths. Like the go
// command it leaves out testdata, folders that begin with a dot or an underscore, and
// nested modules.
func Sources(root string) ([]*Source, error) {
	var out []*Source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if rel == "." {
				return nil
			}
			_, err := os.Stat(filepath.Join(path, "go.mod"))
			if err == nil || name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, err := parse(fset, filepath.ToSlash(rel), string(text))
		out = append(out, s)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check: read sources: %w", err)
	}
	return out, nil
}

func parse(fset *token.FileSet, path, text string) (*Source, error) {
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return &Source{Path: path, Lines: strings.Count(text, "\n"), AST: file, fset: fset}, err
}

// IsTest reports whether the file is part of a test binary only.
func (s *Source) IsTest() bool { return strings.HasSuffix(s.Path, "_test.go") }

// at says where a node is, for a person.
func (s *Source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.Path, s.fset.Position(n.Pos()).Line)
}

// isCall reports whether n calls name of the package imported as pkg.
func isCall(n ast.Node, pkg, name string) bool {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && x.Name == pkg
}

// Long finds files of more than limit lines.
func Long(sources []*Source, limit int) []string {
	var out []string
	for _, s := range sources {
		if s.Lines > limit {
			out = append(out, fmt.Sprintf("%s: has %d lines, more than %d", s.Path, s.Lines, limit))
		}
	}
	return out
}

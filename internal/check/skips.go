package check

import (
	"go/ast"
	"maps"
)

// Skips finds tests that skip for any reason but -short: a suite that is not run
// looks like one that passed. A step of a rapid state machine is no test and may.
func Skips(sources []*Source) []string {
	var found []string
	for _, s := range sources {
		ast.Walk(&skipVisitor{source: s, found: &found}, s.AST)
	}
	return found
}

// skipVisitor walks down one branch of a file.
type skipVisitor struct {
	source *Source
	found  *[]string
	short  bool            // inside if testing.Short()
	rapid  map[string]bool // parameters in scope that are of type *rapid.T
}

// Visit implements ast.Visitor.
func (v *skipVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return v.inside(n.Type)
	case *ast.FuncLit:
		return v.inside(n.Type)
	case *ast.IfStmt:
		if isCall(n.Cond, "testing", "Short") {
			short := *v
			short.short = true
			ast.Walk(&short, n.Body)
			if n.Else != nil {
				ast.Walk(v, n.Else)
			}
			return nil
		}
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || v.short {
			break
		}
		switch sel.Sel.Name {
		case "Skip", "Skipf", "SkipNow":
			if x, _ := sel.X.(*ast.Ident); x == nil || !v.rapid[x.Name] {
				*v.found = append(*v.found, v.source.at(n)+": skips without -short")
			}
		}
	}
	return v
}

// inside is the visitor for the body of a function.
func (v *skipVisitor) inside(f *ast.FuncType) ast.Visitor {
	in := *v
	in.rapid = maps.Clone(v.rapid)
	if in.rapid == nil {
		in.rapid = map[string]bool{}
	}
	for _, p := range f.Params.List {
		for _, name := range p.Names {
			in.rapid[name.Name] = isRapid(p.Type)
		}
	}
	return &in
}

func isRapid(t ast.Expr) bool {
	pointer, ok := t.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := pointer.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "rapid"
}

package check

import (
	"go/ast"
	"path"
)

// Sleeps finds calls of time.Sleep in tests that may run outside a bubble of
// testing/synctest, where they cost real time and prove nothing. A call is fine inside the
// function given to synctest.Test, in a function that is only ever used from there, and in a
// local function or a table of functions in a test that has a bubble to call them in.
func Sleeps(sources []*Source) []string {
	packages := map[string][]*Source{}
	var order []string
	for _, s := range sources {
		if !s.IsTest() {
			continue
		}
		key := path.Dir(s.Path) + " " + s.AST.Name.Name
		if packages[key] == nil {
			order = append(order, key)
		}
		packages[key] = append(packages[key], s)
	}
	var out []string
	for _, key := range order {
		out = append(out, sleepsOf(packages[key])...)
	}
	return out
}

// mention is a place where a function, or time.Sleep, is named.
type mention struct {
	source *Source
	node   ast.Node
	what   string // the function that is named
	from   string // the declared function around it
	bubble bool   // inside the argument of synctest.Test
}

// sleep is what a mention of time.Sleep names; no function is called like that.
const sleep = "time.Sleep"

func sleepsOf(files []*Source) []string {
	declared := map[string]bool{}
	wrappers := map[string]bool{}
	for _, s := range files {
		for _, d := range s.AST.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				declared[f.Name.Name] = true
				wrappers[f.Name.Name] = wraps(f)
			}
		}
	}
	var mentions []mention
	for _, s := range files {
		for _, d := range s.AST.Decls {
			from := ""
			var in ast.Node = d
			if f, ok := d.(*ast.FuncDecl); ok {
				from = f.Name.Name
				if f.Body == nil {
					continue
				}
				in = f.Body
			}
			mentions = append(mentions, mentionsIn(s, in, from, declared, wrappers)...)
		}
	}

	// Suppose that every function runs in bubbles only, and give that up for each one that is named
	// elsewhere, until nothing changes.
	bubbled := map[string]bool{}
	for _, m := range mentions {
		if m.what != sleep {
			bubbled[m.what] = true
		}
	}
	for changed := true; changed; {
		changed = false
		for _, m := range mentions {
			if bubbled[m.what] && !m.bubble && !bubbled[m.from] {
				bubbled[m.what] = false
				changed = true
			}
		}
	}

	var out []string
	for _, m := range mentions {
		if m.what == sleep && !m.bubble && !bubbled[m.from] {
			out = append(out, m.source.at(m.node)+": time.Sleep outside a synctest bubble")
		}
	}
	return out
}

// wraps reports whether f runs a function that it is given in a bubble.
func wraps(f *ast.FuncDecl) bool {
	if f.Body == nil {
		return false
	}
	takes := false
	for _, p := range f.Type.Params.List {
		_, isFunc := p.Type.(*ast.FuncType)
		takes = takes || isFunc
	}
	return takes && bubblesIn(f.Body, nil)
}

// bubblesIn reports whether a bubble is made somewhere in n, by one of wrappers perhaps.
func bubblesIn(n ast.Node, wrappers map[string]bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || isCall(n, "synctest", "Test")
		if call, ok := n.(*ast.CallExpr); ok {
			fun, _ := call.Fun.(*ast.Ident)
			found = found || fun != nil && wrappers[fun.Name]
		}
		return !found
	})
	return found
}

func mentionsIn(s *Source, root ast.Node, from string, declared, wrappers map[string]bool) []mention {
	var out []mention
	bubbles := bubblesIn(root, wrappers)
	var visit func(n ast.Node, bubble bool)
	visit = func(n ast.Node, bubble bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if isCall(n, "time", "Sleep") {
					out = append(out, mention{s, n, sleep, from, bubble})
				}
				fun, _ := n.Fun.(*ast.Ident)
				if isCall(n, "synctest", "Test") || fun != nil && wrappers[fun.Name] {
					visit(n.Fun, bubble)
					for _, arg := range n.Args {
						visit(arg, true)
					}
					return false
				}
			case *ast.AssignStmt: // a function of its own, for the bubbles of this test
				if _, ok := n.Rhs[0].(*ast.FuncLit); ok && bubbles && !bubble {
					for _, f := range n.Rhs {
						visit(f, true)
					}
					return false
				}
			case *ast.CompositeLit:
				if bubbles && !bubble {
					visit(n, true)
					return false
				}
			case *ast.Ident:
				if declared[n.Name] {
					out = append(out, mention{s, n, n.Name, from, bubble})
				}
			}
			return true
		})
	}
	visit(root, false)
	return out
}

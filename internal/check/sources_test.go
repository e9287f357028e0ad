package check_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/internal/check"
)

// root is the folder of the module, seen from this package.
const root = "../.."

func TestRulesOfTheHouse(t *testing.T) {
	t.Parallel()
	sources, err := check.Sources(root)
	if err != nil {
		t.Fatal(err)
	}

	for rule, broken := range map[string][]string{
		"tests sleep in synctest bubbles only": check.Sleeps(sources),
		"tests skip under -short only":         check.Skips(sources),
		"files have at most 500 lines":         check.Long(sources, 500),
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			for _, where := range broken {
				t.Error(where)
			}
		})
	}

	t.Run("the root package is a page of documentation", func(t *testing.T) {
		t.Parallel()
		for _, s := range sources {
			if s.Path == "doc.go" && len(s.AST.Decls) > 0 {
				t.Error("doc.go declares or imports something")
			}
			if !strings.Contains(s.Path, "/") && s.Path != "doc.go" && !s.IsTest() {
				t.Errorf("%s: the root holds doc.go and tests", s.Path)
			}
		}
	})
}

func TestSleeps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"a sleep in a bubble is fine": {
			body: `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }`,
		},
		"a sleep in a test is found": {
			body: `func TestA(t *testing.T) { time.Sleep(1) }`,
			want: []string{"a_test.go:2: time.Sleep outside a synctest bubble"},
		},
		"so is one beside a bubble": {
			body: `func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) {}); time.Sleep(1) }`,
			want: []string{"a_test.go:2: time.Sleep outside a synctest bubble"},
		},
		"a function used in bubbles only may sleep, directly or not": {
			body: `func deep() { time.Sleep(1) }; func wait() { deep() }; func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { wait() }) }`,
		},
		"a function used elsewhere too may not": {
			body: `func deep() { time.Sleep(1) }; func wait() { deep() }; func TestA(t *testing.T) { synctest.Test(t, func(t *testing.T) { wait() }); wait() }`,
			want: []string{"a_test.go:2: time.Sleep outside a synctest bubble"},
		},
		"a bubble may be made by a function": {
			body: `func bubble(t *testing.T, f func(*testing.T)) { synctest.Test(t, f) }; func TestA(t *testing.T) { bubble(t, func(t *testing.T) { time.Sleep(1) }) }`,
		},
		"functions in a table may sleep if they are called in a bubble": {
			body: `func TestA(t *testing.T) { for _, f := range []func(){func() { time.Sleep(1) }} { synctest.Test(t, func(t *testing.T) { f() }) } }`,
		},
		"and may not if there is none": {
			body: `func TestA(t *testing.T) { for _, f := range []func(){func() { time.Sleep(1) }} { f() } }`,
			want: []string{"a_test.go:2: time.Sleep outside a synctest bubble"},
		},
		"a test given by name to a bubble may sleep": {
			body: `func body(t *testing.T) { time.Sleep(1) }; func TestA(t *testing.T) { synctest.Test(t, body) }`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, check.Sleeps(module(t, c.body))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSkips(t *testing.T) {
	t.Parallel()

	t.Run("under -short is fine", func(t *testing.T) {
		t.Parallel()
		got := check.Skips(module(t, `func TestA(t *testing.T) { if testing.Short() { t.Skip("slow") } }`))
		if len(got) > 0 {
			t.Error(got)
		}
	})

	t.Run("a step of a state machine is no test", func(t *testing.T) {
		t.Parallel()
		got := check.Skips(module(t, `func (m *machine) Step(t *rapid.T) { t.Skip("not now") }`))
		if len(got) > 0 {
			t.Error(got)
		}
	})

	t.Run("for another reason is found, also beside -short", func(t *testing.T) {
		t.Parallel()
		got := check.Skips(module(t, `func TestA(t *testing.T) { if testing.Short() { t.SkipNow() } else { t.Skipf("no server") }; t.Skip() }`))
		if len(got) != 2 {
			t.Error(got)
		}
	})
}

// module makes a folder with one test file and reads it.
func module(t *testing.T, body string) []*check.Source {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("package a_test\n"+body+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := check.Sources(dir)
	if err != nil {
		t.Fatal(err)
	}
	return sources
}

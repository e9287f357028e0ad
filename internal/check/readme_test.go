package check_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-9dec4fca/weir/internal/check"
)

func TestReadme(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "```go\n")
	program, after, closed := strings.Cut(rest, "```\n")
	if !found || !closed {
		t.Fatal("there is no program")
	}

	t.Run("the table of defaults is that of the code", func(t *testing.T) {
		t.Parallel()
		text, err := os.ReadFile(filepath.Join(root, "docs", "defaults.md"))
		if err != nil {
			t.Fatal(err)
		}
		sources, err := check.Sources(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, where := range check.Defaults(string(text), sources) {
			t.Error(where)
		}
	})

	t.Run("its program compiles", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		vet := exec.CommandContext(t.Context(), "go", "vet", file)
		vet.Dir = root
		if out, err := vet.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	})

	t.Run("its links lead somewhere", func(t *testing.T) {
		t.Parallel()
		for _, part := range strings.Split(before+after, "](")[1:] {
			target, _, _ := strings.Cut(part, ")")
			if strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "bridge"), 0o700); err != nil {
		t.Fatal(err)
	}
	source := "package bridge\n" +
		"type Options struct {\n" +
		"\t// Capacity is how many. 20.\n" +
		"\tCapacity int\n" +
		"\tWorkers int // at once; 16\n" +
		"\thidden int\n" +
		"}\n"
	if err := os.WriteFile(filepath.Join(dir, "bridge", "options.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	sources, err := check.Sources(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		document string
		want     []string
	}{
		"what agrees is fine": {
			document: "| `bridge.Options.Capacity` | 20 | |\n| `bridge.Options.Workers` | `16` | |\n",
		},
		"another value, a missing row and one too many are found": {
			document: "| `bridge.Options.Capacity` | 2 | |\n| `bridge.Options.Gone` | 1 | |\n",
			want: []string{
				`bridge.Options.Capacity: the table says "2", the comment does not: capacity is how many. 20.`,
				`bridge.Options.Workers: not in the table of defaults`,
				`bridge.Options.Gone: in the table of defaults, but there is no such field`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, check.Defaults(c.document, sources)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

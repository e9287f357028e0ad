package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/seed-9dec4fca/weir/internal/redisproc"
)

// mutant is a production file made worse on purpose, by a diff of a few lines. The first lines of its file say
// what it is, and which experiments must notice it:
//
//	a settle is applied whatever its token
//	noticed by: E06 E25
type mutant struct {
	name, what, path string
	by               []string
}

// maxMutation is how many lines a diff may add and remove.
const maxMutation = 10

// readMutants reads internal/torture/mutants.
func readMutants(root string, match *regexp.Regexp) ([]*mutant, error) {
	paths, err := filepath.Glob(filepath.Join(root, "internal", "torture", "mutants", "*.diff"))
	if err != nil {
		return nil, err
	}
	var all []*mutant
	for _, path := range paths {
		m := &mutant{name: strings.TrimSuffix(filepath.Base(path), ".diff"), path: path}
		if !match.MatchString(m.name) {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		changed := 0
		for i, line := range strings.Split(string(text), "\n") {
			switch names, ok := strings.CutPrefix(line, "noticed by: "); {
			case i == 0:
				m.what = line
			case ok:
				m.by = strings.Fields(names)
			case strings.HasPrefix(line, "--- "), strings.HasPrefix(line, "+++ "):
			case strings.HasPrefix(line, "-"), strings.HasPrefix(line, "+"):
				changed++
			}
		}
		if changed == 0 || changed > maxMutation || len(m.by) == 0 {
			return nil, fmt.Errorf("mutant %s changes %d lines, of at most %d, and names %v", m.name, changed, maxMutation, m.by)
		}
		for _, name := range m.by {
			if !slices.ContainsFunc(experiments, func(e *experiment) bool { return e.name == name }) {
				return nil, fmt.Errorf("mutant %s names %s, which is no experiment", m.name, name)
			}
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, errors.New("no mutants")
	}
	return all, nil
}

// mutation is a run over mutants, on a copy of the tree.
type mutation struct {
	dir       string // of the copy
	s         settings
	out, errs io.Writer
	cells     map[string]map[string]string // by mutant and experiment
	failed    int
}

// tryMutants shows for each mutant that the experiments notice it. The experiments pass on the tree as it is, or
// their verdict is worth nothing; a mutant that does not apply, or that nobody notices, fails the run, and so does
// an experiment that gives no verdict.
func tryMutants(ctx context.Context, match *regexp.Regexp, s settings, out, errs io.Writer) int {
	s.quick = true
	fail := func(err error) int {
		_, _ = fmt.Fprintln(errs, "torture: mutants:", err)
		return 1
	}
	root, err := moduleRoot()
	if err != nil {
		return fail(err)
	}
	all, err := readMutants(root, match)
	if err != nil {
		return fail(err)
	}
	dir, err := os.MkdirTemp("", "torture-mutants-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := copyTree(root, dir); err != nil {
		return fail(err)
	}
	x := &mutation{dir: dir, s: s, out: out, errs: errs, cells: map[string]map[string]string{}}
	_, _ = fmt.Fprintf(errs, "torture: %d mutants, seed %d\n", len(all), s.seed)

	var involved []string
	for _, m := range all {
		involved = append(involved, m.by...)
	}
	slices.Sort(involved)
	involved = slices.Compact(involved)
	sound := &mutant{name: "(none)", what: "the tree as it is", by: involved}
	x.try(ctx, sound)
	for _, name := range involved {
		if got := x.cells[sound.name][name]; got != passed {
			x.failed++
			_, _ = fmt.Fprintf(out, "%s %s without any mutant: it shows nothing\n", name, got)
		}
	}
	for _, m := range all {
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
		x.try(ctx, m)
		x.judge(m)
	}
	x.table(all, involved)
	if x.failed > 0 {
		_, _ = fmt.Fprintf(errs, "torture: mutants: %d failures, seed %d\n", x.failed, s.seed)
		return 1
	}
	return 0
}

// Cells of the table.
const (
	noticed = "noticed"
	passed  = "passed"
	silent  = "no-verdict"
)

// try runs the experiments that should notice a mutant, on the copy with it.
func (x *mutation) try(ctx context.Context, m *mutant) {
	x.cells[m.name] = map[string]string{}
	began := time.Now()
	if m.path != "" {
		if text, err := x.run(ctx, "git", "apply", "--whitespace=nowarn", m.path); err != nil {
			x.failed++
			_, _ = fmt.Fprintf(x.out, "%s does not apply: %s\n", m.name, strings.TrimSpace(text))
			return
		}
		defer func() {
			if text, err := x.run(context.WithoutCancel(ctx), "git", "apply", "-R", "--whitespace=nowarn", m.path); err != nil {
				panic("torture: a mutant cannot be taken back: " + text)
			}
		}()
	}
	if text, err := x.run(ctx, "go", "build", "-o", "torture.bin", "./internal/torture"); err != nil {
		x.failed++
		_, _ = fmt.Fprintf(x.out, "%s does not build: %s\n", m.name, tail(text))
		return
	}
	text, _ := x.run(ctx, filepath.Join(x.dir, "torture.bin"), "-quick", "-j", "2", "-seed", fmt.Sprint(x.s.seed), "-run", "^("+strings.Join(m.by, "|")+")$")
	for _, name := range m.by {
		x.cells[m.name][name] = silent
	}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !slices.Contains(m.by, name) {
			continue
		}
		switch {
		case strings.HasPrefix(rest, "ok "):
			x.cells[m.name][name] = passed
		case strings.HasPrefix(rest, "FAILED "):
			x.cells[m.name][name] = noticed
			_, kept, _ := strings.Cut(rest, "kept=")
			if strings.Contains(kept, "torture-") {
				_ = os.RemoveAll(strings.TrimSpace(kept))
			}
			if m.path != "" {
				rest = rest[:min(len(rest), 200)]
			}
			_, _ = fmt.Fprintf(x.errs, "%s: %s %s\n", m.name, name, rest)
		}
	}
	_, _ = fmt.Fprintf(x.errs, "%s: %v in %v\n", m.name, x.cells[m.name], time.Since(began).Round(time.Second))
}

// judge fails the run for a mutant that nobody noticed, and for an experiment without a verdict.
func (x *mutation) judge(m *mutant) {
	seen := false
	for _, name := range m.by {
		switch x.cells[m.name][name] {
		case noticed:
			seen = true
		case silent:
			x.failed++
			_, _ = fmt.Fprintf(x.out, "%s gave no verdict on %s\n", name, m.name)
		}
	}
	if !seen && len(x.cells[m.name]) > 0 {
		x.failed++
		_, _ = fmt.Fprintf(x.out, "%s (%s) was noticed by none of %v\n", m.name, m.what, m.by)
	}
}

// table prints a row for each mutant, with a column for each experiment.
func (x *mutation) table(all []*mutant, columns []string) {
	_, _ = fmt.Fprintf(x.out, "%-28s %s\n", "", strings.Join(columns, " "))
	for _, m := range all {
		_, _ = fmt.Fprintf(x.out, "%-28s", m.name)
		for _, name := range columns {
			mark := map[string]string{noticed: " ✗ ", passed: " o ", silent: " ? ", "": " · "}[x.cells[m.name][name]]
			_, _ = fmt.Fprintf(x.out, " %s", mark)
		}
		_, _ = fmt.Fprintf(x.out, " %s\n", m.what)
	}
	_, _ = fmt.Fprintln(x.out, "✗ noticed, o passed, ? no verdict, · not asked")
}

// run runs a command in the copy, as a child that ends with us, and returns what it printed on standard output;
// with an error, on both.
func (x *mutation) run(ctx context.Context, name string, words ...string) (string, error) {
	cmd := exec.Command(name, words...)
	cmd.Dir = x.dir
	var out bytes.Buffer
	cmd.Stdout = &out
	if strings.HasSuffix(name, "torture.bin") {
		cmd.Stderr = x.errs
	}
	p, err := redisproc.Spawn(cmd)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Kill()
		return "", ctx.Err()
	}
	if code := p.ExitCode(); code != 0 {
		return out.String() + p.Output(), fmt.Errorf("%s ended with %d", name, code)
	}
	return out.String(), nil
}

// copyTree copies the files that git knows or would know, as they are now.
func copyTree(from, to string) error {
	list, err := exec.Command("git", "-C", from, "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	for name := range strings.SplitSeq(string(list), "\x00") {
		if name == "" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, and not yet committed
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

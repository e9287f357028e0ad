package main

import (
	"bytes"
	"fmt"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestTableIsThatOfTheProgramme(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	if status := conduct([]string{"-list"}, &out, &errs); status != 0 {
		t.Fatal(status, errs.String())
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 30 {
		t.Fatalf("%d experiments, want 30", len(lines))
	}
	for i, line := range lines {
		if want := fmt.Sprintf("E%02d ", i+1); !strings.HasPrefix(line, want) {
			t.Errorf("line %d is %q, want %q", i+1, line, want)
		}
	}
}

func TestWhatDoesNotApplyIsSaid(t *testing.T) {
	t.Parallel()
	for _, e := range engines {
		var out, errs bytes.Buffer
		if status := conduct([]string{"-list", "-engine", e.name}, &out, &errs); status != 0 {
			t.Fatal(status, errs.String())
		}
		if n := strings.Count(out.String(), "\n"); n != len(experiments) {
			t.Errorf("%s: %d lines for %d experiments", e.name, n, len(experiments))
		}
	}
	for _, e := range experiments {
		for name, why := range e.not {
			if engineNamed(name) == nil || name == engines[0].name || why == "" {
				t.Errorf("%s does not apply to %q: %q", e.name, name, why)
			}
		}
	}
	var out, errs bytes.Buffer
	if status := conduct([]string{"-run", "E08", "-quick", "-engine", "stream"}, &out, &errs); status != 0 || !strings.HasPrefix(out.String(), "E08 n/a stream: ") {
		t.Error(status, out.String(), errs.String())
	}
	if strings.Contains(errs.String(), "failed") {
		t.Error("counted as failed:", errs.String())
	}
	if status := conduct([]string{"-list", "-engine", "heap"}, &out, &errs); status != 2 {
		t.Error("an engine that nobody knows:", status)
	}
}

func TestEachExperimentHasAMutantThatItMustNotice(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readMutants(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	noticed := map[string]bool{}
	for _, m := range all {
		for _, name := range m.by {
			noticed[name] = true
		}
	}
	for _, e := range experiments {
		if !noticed[e.name] {
			t.Errorf("%s has not been shown to fail on any broken build", e.name)
		}
	}
}

// A mutant that does not apply any more shows nothing, and nobody hears of it before the mutants are run, which takes an hour.
func TestMutantsApply(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := readMutants(root, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		cmd := exec.Command("git", "apply", "--check", "--whitespace=nowarn", m.path)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %s", m.name, text)
		}
	}
}

func TestCheckerNoticesWhatIsUnexplained(t *testing.T) {
	t.Parallel()
	for name, story := range map[string]struct {
		lines  []entry
		breach string
	}{
		"a repetition after a kill": {[]entry{
			{T: 1, A: "w1", E: noteStart, ID: "j", D: 1, F: 1, N: 1},
			{T: 2, A: conductor, E: noteKill, S: "w1"},
			{T: 3, A: "w2", E: noteStart, ID: "j", D: 2, F: 2, N: 1},
		}, ""},
		"a repetition for no reason": {[]entry{
			{T: 1, A: "w1", E: noteStart, ID: "j", D: 1, F: 1, N: 1},
			{T: 3, A: "w2", E: noteStart, ID: "j", D: 2, F: 2, N: 1},
		}, "for no reason"},
		"the same delivery twice": {[]entry{
			{T: 1, A: "w1", E: noteStart, ID: "j", D: 1, F: 1, N: 1},
			{T: 2, A: conductor, E: noteKill, S: "w1"},
			{T: 3, A: "w2", E: noteStart, ID: "j", D: 1, F: 2, N: 1},
		}, "delivery 1 follows 1"},
		"an attempt that nobody had": {[]entry{
			{T: 1, A: "w1", E: noteStart, ID: "j", D: 1, F: 1, N: 2},
		}, "attempt 2 after 0"},
		"a start after the completion": {[]entry{
			{T: 1, A: "w1", E: noteStart, ID: "j", D: 1, F: 1, N: 1},
			{T: 2, A: "w1", E: noteEnd, ID: "j", D: 1, S: "ok"},
			{T: 3, A: "w1", E: "completed", ID: "j", D: 1},
			{T: 4, A: conductor, E: noteKill, S: "w1"},
			{T: 5, A: "w2", E: noteStart, ID: "j", D: 2, F: 2, N: 1},
		}, "after its completion"},
		"a start after the completion, by one who was frozen before it": {[]entry{
			{T: 1, A: conductor, E: noteFreeze, S: "w1"},
			{T: 2, A: "w2", E: noteStart, ID: "j", D: 2, F: 2, N: 1},
			{T: 3, A: "w2", E: noteEnd, ID: "j", D: 2, S: "ok"},
			{T: 4, A: "w2", E: "completed", ID: "j", D: 2},
			{T: 5, A: "w1", E: noteStart, ID: "j", D: 1, F: 1, N: 1},
			{T: 6, A: "w1", E: "lease lost"},
			{T: 7, A: "w1", E: "stale", ID: "j", D: 1},
		}, ""},
		"a fence that goes back": {[]entry{
			{T: 1, A: "w1", E: noteStart, ID: "j", D: 1, F: 5, N: 1},
			{T: 2, A: conductor, E: noteKill, S: "w1"},
			{T: 3, A: "w2", E: noteStart, ID: "j", D: 2, F: 4, N: 1},
		}, "fence 4 follows 5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t.Context(), "test", t.TempDir(), settings{}, &bytes.Buffer{})
			defer l.close()
			for i, e := range story.lines {
				book, err := openLedger(fmt.Sprintf("%s/%s-%d.ledger", l.dir, e.A, i), e.A)
				if err != nil {
					t.Fatal(err)
				}
				book.note(e)
				book.close()
			}
			l.checkRuns(l.readHistory(), expectation{})
			got := strings.Join(l.breaches, "\n")
			if (story.breach == "") != (got == "") || !strings.Contains(got, story.breach) {
				t.Errorf("breaches %q, want %q", got, story.breach)
			}
		})
	}
}

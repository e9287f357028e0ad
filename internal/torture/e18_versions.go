package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// mixVersions: workers of an old and of a new binary take turns on one queue. Nothing is lost, and what only
// the new one knows stays for it.
func mixVersions(l *lab) {
	turns := pick(l, 5, 20)
	binary, what := l.oldBinary()
	server := l.server()
	rdb := l.dial(server.Addr())
	known := l.spawn(role{Name: "known", Addr: server.Addr(), Producers: 2, Rate: 150, Task: task{Work: 5}, WorkMax: 20, DelayMax: 300})
	newer := l.spawn(role{Name: "newer", Addr: server.Addr(), Producers: 1, Rate: 30, Kind: "drill.v2", Task: task{Work: 5}})
	for turn := range turns {
		var w *child
		if turn%2 == 0 {
			w = l.spawnFrom(binary, role{Name: fmt.Sprint("old", turn), Addr: server.Addr(), Workers: 8})
		} else {
			w = l.spawn(role{Name: fmt.Sprint("new", turn), Addr: server.Addr(), Workers: 8, Kinds: []string{drill, "drill.v2"}})
		}
		l.goesOn(rdb, "a change to "+w.role.Name)
		l.pause(pick(l, 1200*time.Millisecond, 5*time.Second))
		w.term()
		if turn%3 != 0 { // some overlap with the next
			w.wait(30 * time.Second)
		}
	}
	for _, c := range []*child{known, newer} {
		c.term()
		c.wait(30 * time.Second)
	}
	l.spawn(role{Name: "last", Addr: server.Addr(), Workers: 16, Kinds: []string{drill, "drill.v2"}})
	l.drained(rdb, l.name, time.Minute)
	l.dismiss()
	h := l.check(rdb, expectation{steady: true})
	for id, j := range h.jobs {
		for _, r := range j.runs {
			l.require(r.S == drill || !strings.HasPrefix(r.A, "old"), "%s of kind %q was run by %s", id, r.S, r.A)
		}
	}
	dead := l.look(rdb, l.name).count("dead")
	l.require(dead == 0, "%d jobs are dead, for want of a handler", dead)
	l.figure("put_back", h.count["unhandled"])
	l.figure("turns", turns)
	l.figure("old", what)
	l.require(h.count["unhandled"] > 0, "the old binary met no job of the newer kind")
}

// oldBinary builds this program from an older revision: the one asked for, else that of the latest tag that
// has it. Without any the same source is all there is.
func (l *lab) oldBinary() (path, what string) {
	ref := l.set.old
	if ref == "" {
		out, err := l.git("describe", "--tags", "--abbrev=0")
		if err != nil {
			return "", "same-source"
		}
		ref = strings.TrimSpace(string(out))
		if _, err := l.git("cat-file", "-e", ref+":internal/torture/engine.go"); err != nil {
			return "", "same-source"
		}
	}
	dir := filepath.Join(l.dir, "old")
	l.must(os.Mkdir(dir, 0o700))
	archive, err := l.git("archive", ref)
	l.must(err)
	unpack := exec.Command("tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(archive)
	l.must(unpack.Run())
	build := exec.Command("go", "build", "-o", "torture-old", "./internal/torture")
	build.Dir = dir
	if text, err := build.CombinedOutput(); err != nil {
		l.must(fmt.Errorf("the old binary does not build: %w: %s", err, text))
	}
	return filepath.Join(dir, "torture-old"), ref
}

// git runs it on the repository that we are part of.
func (l *lab) git(words ...string) ([]byte, error) {
	return exec.Command("git", append([]string{"-C", l.root()}, words...)...).Output()
}

// root is the directory of the module.
func (l *lab) root() string {
	dir, err := moduleRoot()
	l.must(err)
	return dir
}

// moduleRoot is the directory of go.mod; the program is run inside of the module.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	path := strings.TrimSpace(string(out))
	if err != nil || filepath.Base(path) != "go.mod" {
		return "", fmt.Errorf("run this inside of the module (go env GOMOD: %q, %w)", path, err)
	}
	return filepath.Dir(path), nil
}

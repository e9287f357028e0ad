package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// cutLog: the end of the append-only file is lost, as with the power. What is left is a queue without
// half jobs; what is lost was written in the part that was cut.
//
// The server syncs nothing, but writes before it answers: with "everysec" it puts writing off for up to two seconds
// while a sync is slow, and a kill loses what it had answered meanwhile.
func cutLog(l *lab) {
	cuts := pick(l, 8, 64)
	server := l.server("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0")
	worker := l.spawn(role{Name: "worker", Addr: server.Addr(), Workers: 8})
	producer := l.spawn(role{Name: "producer", Addr: server.Addr(), Producers: 4, Rate: 1200, Task: task{Work: 5}, WorkMax: 15, DelayMax: 2000})
	l.pause(2500 * time.Millisecond)
	server.Kill()
	worker.kill()
	producer.kill()
	h := l.readHistory()
	random := stream(l.set.seed, l.name)
	lost, loses := 0, 0
	for k := range cuts {
		bytes := 1 + random.IntN(1<<10<<(6*k/max(cuts-1, 1)))
		n := l.cutOnce(server.Dir(), k, bytes, h, k == cuts-1)
		lost += n
		if n > 0 {
			loses++
		}
	}
	l.figure("cuts", cuts)
	l.figure("cuts_that_lost", loses)
	l.figure("lost_in_all", lost)
}

// cutOnce starts a copy of the server whose log has lost so many bytes at its end, and returns how
// many jobs that were reported enqueued are lost.
func (l *lab) cutOnce(from string, k, size int, h *history, drain bool) (lost int) {
	dir := filepath.Join(l.dir, fmt.Sprintf("cut-%d", k))
	l.must(exec.Command("cp", "-r", from, dir).Run())
	logs, err := filepath.Glob(filepath.Join(dir, "appendonlydir", "*.incr.aof"))
	l.must(err)
	if len(logs) != 1 {
		l.must(fmt.Errorf("append-only files: %v", logs))
	}
	whole, err := os.ReadFile(logs[0])
	l.must(err)
	size = min(size, len(whole))
	l.must(os.Truncate(logs[0], int64(len(whole)-size)))

	server := l.serverIn(dir, "--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0", "--aof-load-truncated", "yes")
	rdb := l.dial(server.Addr())
	kept, err := os.Stat(logs[0]) // the server has cut it further, to the end of the last whole command
	l.must(err)
	gone := whole[kept.Size():]
	head := whole[:kept.Size()]
	if open := bytes.LastIndex(head, []byte("\r\nMULTI\r\n")); open > bytes.LastIndex(head, []byte("\r\nEXEC\r\n")) {
		gone = whole[open:] // a transaction without its end is not executed
	}
	p := l.look(rdb, l.name)
	torn, bare, ghosts := 0, 0, 0
	for id, places := range p.places {
		if len(places) > 1 {
			torn++
		}
		if p.hashes[id] == nil {
			bare++
		}
	}
	for id := range p.hashes {
		if len(p.places[id]) == 0 {
			ghosts++
		}
	}
	l.require(torn+bare+ghosts == 0, "cut by %d bytes: %d torn, %d entries without a hash, %d hashes without an entry", size, torn, bare, ghosts)
	for id, j := range h.jobs {
		if j.reported == 0 || p.hashes[id] != nil || len(j.completed) > 0 || j.mayBeOver(h) {
			continue
		}
		lost++
		l.require(bytes.Contains(gone, []byte(id)), "cut by %d bytes: %s is lost, and was not in what was cut", size, id)
	}
	l.say("cut by %d bytes: %d gone, %d on their way, %d lost", size, len(gone), p.present(), lost)
	if drain {
		l.spawn(role{Name: "late", Addr: server.Addr(), Workers: 32, SweepEvery: 300 * time.Millisecond})
		l.drained(rdb, l.name, time.Minute)
		l.dismiss()
		var first int64
		for _, m := range h.marks {
			first = max(first, m.T)
		}
		l.check(rdb, expectation{lossy: first - int64(3*time.Second)})
	}
	server.Kill()
	return lost
}

package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
	"unicode/utf8"
)

// A ledger is a file of JSON lines, written by one process, outside of the Redis under test. Each
// line is one write to the kernel, so that a killed process loses none.
type ledger struct {
	actor string
	file  *os.File
}

// entry is one line.
type entry struct {
	T  int64  `json:"t"` // ns; one clock for all, as all is on one machine
	A  string `json:"a"` // who
	E  string `json:"e"` // what
	ID string `json:"id,omitempty"`
	D  int    `json:"d,omitempty"` // deliveries
	F  int64  `json:"f,omitempty"` // fence
	N  int64  `json:"n,omitempty"` // start: the attempt; else a number
	S  string `json:"s,omitempty"` // why
	O  string `json:"o,omitempty"` // the ID of another job
}

// What can be noted, besides the transitions, which have the names of bridge.EventType.
const (
	noteUp       = "up"            // an actor is ready
	noteDown     = "down"          // an actor has ended in order; S is its footprint
	noteOffered  = "offered"       // Submit is about to be called
	noteAccepted = "accepted"      // it returned nil
	noteStart    = "start"         // before the effect
	noteEnd      = "end"           // after it; S is "ok" or the error
	noteContext  = "context"       // a handler's context ended; S is the cause
	noteReturned = "returned"      // Shutdown handed the job back
	noteDoubtful = "doubtful"      // Shutdown named the job uncertain
	noteFront    = "front expired" // N jobs, in this process
	noteKill     = "kill"          // the conductor killed S, or found it dead
	noteFreeze   = "freeze"
	noteThaw     = "thaw"
	noteLossy    = "lossy"      // Redis lost what it was told from now on
	noteStall    = "stall"      // the process got no processor for N ms
	noteTicket   = "ticket end" // of a watched one; S is its state, and why; N its result; O whose fate it shares
	noteFollowed = "followed"   // a ticket was given for the job of another
	noteAsked    = "cancel asked"
	noteTold     = "cancel told" // S is what Cancel said
	noteMarked   = "marked"      // delivery D of a job was claimed, and asked to be cancelled
	noteClaimed  = "claimed"     // N is when the job of a run was claimed, D the same delivery; F when it expires; ms, by Redis's clock
)

// conductor is the actor that makes the faults.
const conductor = "conductor"

func openLedger(path, actor string) (*ledger, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &ledger{actor: actor, file: f}, nil
}

// note writes one line. It is safe for concurrent use.
func (b *ledger) note(e entry) {
	if e.T == 0 {
		e.T = time.Now().UnixNano()
	}
	e.A, e.ID = b.actor, ledgerID(e.ID)
	line, err := json.Marshal(e)
	if err == nil {
		_, err = b.file.Write(append(line, '\n'))
	}
	if err != nil && !errors.Is(err, os.ErrClosed) {
		panic("torture: the ledger cannot be written: " + err.Error())
	}
}

func (b *ledger) close() { b.file.Close() }

// ledgerID is an ID as it stands in a ledger: readable ones as they are.
func ledgerID(id string) string {
	if utf8.ValidString(id) && len(id) <= 1024 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "~" + hex.EncodeToString(sum[:8])
}

// readLedgers reads every ledger of a directory. The last line of a killed process is whole, or
// not there.
func readLedgers(dir string) ([]entry, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.ledger"))
	if err != nil {
		return nil, err
	}
	var all []entry
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e entry
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				all = append(all, e)
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

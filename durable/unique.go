package durable

import (
	"fmt"
	"slices"
	"time"
)

// Unique keeps two jobs with the same key from being in a queue together (Capabilities.Unique). The key belongs to the job that was stored
// with it while that is in one of the States; the script that takes it out of them frees the key. The store asks the job itself, so
// a key never outlives what holds it, however that went away. One whose holder has come out of the States and was given to another job is
// that one's, also when the first comes back into them.
type Unique struct {
	Key string // 1 to MaxIDBytes bytes
	// States in which the holder keeps the key. Empty: pending, scheduled and processing; so a dead one does not. StateDead can be added.
	States []State
	// Window keeps the key for at least so long from when the holder was stored on, whatever becomes of it. Whole milliseconds.
	Window time.Duration
	// After keeps the key for so long after the holder has completed. Whole milliseconds.
	After time.Duration
}

// uniqueStates are those that can keep a key.
var uniqueStates = [...]State{StatePending, StateScheduled, StateProcessing, StateDead}

// Validate refuses what no engine could keep, by name.
func (u *Unique) Validate() error {
	switch {
	case u.Key == "" || len(u.Key) > MaxIDBytes:
		return fmt.Errorf("field Unique.Key has %d bytes, must have 1 to %d", len(u.Key), MaxIDBytes)
	case u.Window < 0 || u.After < 0:
		return fmt.Errorf("fields Unique.Window and After must not be negative, are %v and %v", u.Window, u.After)
	}
	for _, s := range u.States {
		if !slices.Contains(uniqueStates[:], s) {
			return fmt.Errorf("field Unique.States: a job that is %q keeps no key", string(s))
		}
	}
	return nil
}

// blocks reports whether the holder keeps its key in a state.
func (u *Unique) blocks(in State) bool {
	if len(u.States) == 0 {
		return in == StatePending || in == StateScheduled || in == StateProcessing
	}
	return slices.Contains(u.States, in)
}

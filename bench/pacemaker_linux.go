package main

import (
	"syscall"
	"time"
)

// pacemaker sleeps until a moment, to a few microseconds: a timer of the runtime may be a millisecond late when
// nothing else happens. It belongs to a goroutine that is locked to its thread.
type pacemaker struct{}

func newPacemaker() pacemaker {
	const setTimerSlack = 29
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1000, 0) // ns; if it fails we are a little later
	return pacemaker{}
}

func (pacemaker) until(t time.Time) {
	for left := time.Until(t); left > 0; left = time.Until(t) {
		ts := syscall.NsecToTimespec(int64(left))
		_ = syscall.Nanosleep(&ts, nil) // a signal ends it early
	}
}

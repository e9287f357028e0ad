//go:build !linux

package main

import "time"

// pacemaker sleeps until a moment, as well as a timer of the runtime does.
type pacemaker struct{}

func newPacemaker() pacemaker { return pacemaker{} }

func (pacemaker) until(t time.Time) { <-time.After(time.Until(t)) }

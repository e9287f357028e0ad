package cron

import "time"

// Event tells what a scheduler did with a tick.
type Event struct {
	Type     EventType
	Schedule string // its name
	Tick     time.Time
	// Until is the last of several ticks that were skipped.
	Until time.Time
	// Err is why, of EventFailed and EventDelayed.
	Err error
}

// EventType tells events apart.
type EventType uint8

// Types of events.
const (
	EventFired     EventType = iota + 1 // enqueued by this instance
	EventDuplicate                      // another instance was first, or this one before a restart
	EventSkipped                        // missed, and not to be made up for; told by each instance that notices
	EventDelayed                        // could not be enqueued now; it is tried again until it is missed
	EventFailed                         // can never be enqueued: its value or its key is bad
)

// String is the name in lower case.
func (t EventType) String() string {
	switch t {
	case EventFired:
		return "fired"
	case EventDuplicate:
		return "duplicate"
	case EventSkipped:
		return "skipped"
	case EventDelayed:
		return "delayed"
	case EventFailed:
		return "failed"
	}
	return "unknown"
}

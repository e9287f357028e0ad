package policy

import "fmt"

// Reason says why a call was refused.
type Reason uint8

// Reasons. Each call that is refused is counted under exactly one.
const (
	ReasonFull      Reason = iota // there was no room, and the policy was not to wait
	ReasonTimeout                 // there was no room until the wait or the context's deadline was over
	ReasonPredicted               // a wait would have been in vain
	ReasonCancelled               // the context was cancelled
	ReasonClosed                  // nothing is accepted any more
	ReasonTooLarge                // the job is larger than the bounds: it never fits
	ReasonInvalid                 // the call makes no sense; Cause says why
	ReasonUnusable                // the durable side cannot be used; Cause says why
	ReasonShed                    // refused although there may have been room

	// NumReasons is how many there are. It can size an array and be ranged over:
	//
	//	for reason := range policy.NumReasons { … counts[reason] … }
	NumReasons
)

// String is a word or two in lower case, good as a metric label too.
func (r Reason) String() string {
	switch r {
	case ReasonFull:
		return "full"
	case ReasonTimeout:
		return "timeout"
	case ReasonPredicted:
		return "predicted"
	case ReasonCancelled:
		return "cancelled"
	case ReasonClosed:
		return "closed"
	case ReasonTooLarge:
		return "too large"
	case ReasonInvalid:
		return "invalid"
	case ReasonUnusable:
		return "unusable"
	case ReasonShed:
		return "shed"
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Stage says where a call was refused.
type Stage uint8

// Stages.
const (
	StageFront   Stage = iota // by the bounded front in this process's memory
	StageDurable              // on behalf of the durable side
)

// String is "front" or "durable".
func (s Stage) String() string {
	switch s {
	case StageFront:
		return "front"
	case StageDurable:
		return "durable"
	}
	return fmt.Sprintf("stage(%d)", uint8(s))
}

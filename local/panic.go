package local

import (
	"fmt"
	"runtime/debug"
)

// PanicError is the failure of a task or a handler that panicked or ended its goroutine with
// runtime.Goexit.
type PanicError struct {
	Message string // the value of the panic, printed
	Stack   []byte
	cause   error // the value of the panic, if it was an error
}

// Error is the message and the stack.
func (e *PanicError) Error() string { return "weir: handler " + e.Message + "\n" + string(e.Stack) }

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error { return e.cause }

// Panicked makes the failure out of what recover returned, on the goroutine that it is about;
// nil means runtime.Goexit.
func Panicked(value any) *PanicError {
	e := &PanicError{Message: "called runtime.Goexit", Stack: debug.Stack()}
	if value != nil {
		e.Message = fmt.Sprintf("panicked: %v", value)
		e.cause, _ = value.(error)
	}
	return e
}

package durable

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// classify turns what go-redis returned for one command into one of the classes of
// errors.go, with the cause wrapped. What cannot be proved not to have happened is in doubt.
func classify(queue, op string, err error) error {
	return failed(queue, op, class(err), err)
}

// failed composes an error of a class; cause may be nil, or say the class itself.
func failed(queue, op string, class, cause error) error {
	if cause == nil {
		return fmt.Errorf("%w: %s of queue %s", class, op, queue)
	}
	if errors.Is(cause, class) {
		return fmt.Errorf("durable: %s of queue %s: %w", op, queue, cause)
	}
	return fmt.Errorf("%w: %s of queue %s: %w", class, op, queue, cause)
}

func class(err error) error {
	if errors.Is(err, ErrNotExecuted) { // it is known already: see replicate
		return ErrNotExecuted
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return classOfReply(reply.Error())
	}
	switch {
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return ErrNotExecuted // there was no connection
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if op.Op == "dial" {
			return ErrNotExecuted
		}
		return ErrInDoubt // a socket, in the middle of the exchange
	}
	// go-redis returns the context's own error only while it waits for a connection; a
	// deadline that passes during the exchange is a timeout of the socket.
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return ErrNotExecuted
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return ErrNotExecuted
	}
	return ErrInDoubt
}

// refusals are the beginnings of replies with which a server refuses a command, or a script
// before or at its first write, and has done nothing.
var refusals = []string{
	"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS", "MOVED", "ASK",
	"MISCONF", "NOAUTH", "WRONGPASS", "NOPERM", "NOSCRIPT", "BUSY", "UNBLOCKED", "CROSSSLOT", "NOPROTO",
	"ERR max number of clients", "ERR unknown command", "ERR invalid password", "ERR AUTH", "ERR Client sent AUTH",
}

// classOfReply judges an error that the server sent. An error from the middle of a script
// (wrong type, a command that this user may not run) may have left a part done: in doubt, so
// that the same number is asked again.
func classOfReply(text string) error {
	inScript := strings.Contains(text, "user_script") || strings.Contains(text, "Error running script") ||
		strings.Contains(text, "script: ")
	switch {
	case strings.HasPrefix(text, "OOM ") || inScript && strings.Contains(text, "-OOM "):
		return ErrOutOfMemory
	case strings.HasPrefix(text, "WRONGTYPE"):
		return ErrInDoubt
	}
	for _, r := range refusals {
		if strings.HasPrefix(text, r) || inScript && strings.Contains(text, "-"+r+" ") {
			return ErrNotExecuted
		}
	}
	return ErrInDoubt
}

// asReply gives the text of an error that the server sent.
func asReply(err error) (string, bool) {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return reply.Error(), true
	}
	return "", false
}

func isBadKey(err error) bool { return errors.Is(err, ErrBadKey) }

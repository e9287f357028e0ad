//go:build !linux

package redisproc

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

const (
	stopSignal = syscall.SIGSTOP
	contSignal = syscall.SIGCONT
)

// dieWithParent does nothing here: tests that end in a panic leave a server behind.
func dieWithParent(*exec.Cmd) {}

// isStopped reports whether the process is stopped by a signal.
func isStopped(pid int) bool {
	out, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(out)), "T")
}

package scene

import (
	"os/exec"
	"runtime"
	"syscall"
)

// start starts cmd and waits for it on a goroutine. The kernel ends the child when this
// process is gone, whatever ended it.
func start(cmd *exec.Cmd) (*running, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r := &running{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The signal comes when the thread that started the child ends: keep it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			r.err = cmd.Wait()
			close(r.done)
		}
	}()
	return r, <-started
}

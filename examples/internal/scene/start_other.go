//go:build !linux

package scene

import "os/exec"

// start starts cmd and waits for it on a goroutine. Child processes end when their input
// does; a server stays behind if this process is killed.
func start(cmd *exec.Cmd) (*running, error) {
	r := &running{cmd: cmd, done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		r.err = cmd.Wait()
		close(r.done)
	}()
	return r, nil
}

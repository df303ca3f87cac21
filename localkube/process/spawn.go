package process

import (
	"os/exec"
	"runtime"
	"syscall"
)

// spawner starts every child from one OS thread that lives as long as the
// process: the kernel sends the parent-death signal when the starting thread
// ends, not when the process does.
type spawner struct {
	requests chan spawnRequest
}

type spawnRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest)}
	go func() {
		runtime.LockOSThread()
		for req := range s.requests {
			req.done <- req.cmd.Start()
		}
	}()
	return s
}

// start starts cmd in a process group of its own, so that Ctrl-C reaches the
// parent only and the children are stopped in order.
func (s *spawner) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	req := spawnRequest{cmd: cmd, done: make(chan error)}
	s.requests <- req
	return <-req.done
}

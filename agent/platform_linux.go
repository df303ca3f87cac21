package agent

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// defaultCommand is run in the folder of an instruction that names none.
const defaultCommand = "run.sh"

// shell runs a script that names no program for it.
var shell = []string{"/bin/sh"}

func isOwner(info os.FileInfo, own owner) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && (own.uid < 0 || own.uid == int(stat.Uid)) && (own.gid < 0 || own.gid == int(stat.Gid))
}

func chown(path string, own owner) error { return os.Lchown(path, own.uid, own.gid) }

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// ownGroup gives a command a process group of its own, which ends with us.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
}

// killLeft kills the processes that an earlier run in a folder left when the agent was killed, and
// waits until they are gone. A process may have left its group, so killLeft recognizes it by its
// environment.
func killLeft(folder string) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for begin := time.Now(); time.Since(begin) < endGrace; <-ticker.C {
		left := runningIn(folder)
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// runningIn are the processes that the commands of a folder started. One that has ended and is not
// yet waited for has no environment.
func runningIn(folder string) []int {
	mark := []byte("\x00" + envFolder + "=" + folder + "\x00")
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	var pids []int
	for _, path := range all {
		environ, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(append([]byte{0}, environ...), mark) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killGroup kills the processes that a command left.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

package nspawn

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/drover-project/drover/e2e/cloud/host"
)

// consoleLog is the file with a server's console output.
const consoleLog = "console.log"

// keeperScript starts the server and, as long as it asks for a reboot by
// exit code 133, starts it again. Its arguments are the control groups to
// enter, "--", and the command. The keeper itself stays outside the groups,
// so that systemd-nspawn may divide them.
const keeperScript = `
while :; do
	sh -c 'while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; done; shift; exec "$@"' sh "$@"
	[ $? = 133 ] || exit
done`

// process identifies the keeper of a server, also across restarts of ours:
// a process id alone may come to mean another process.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // in clock ticks after boot
}

// startKeeper starts the server; the keeper is its own session and outlives us.
func startKeeper(dir serverDir, groups cgroups, server []string) (process, error) {
	if _, err := exec.LookPath(server[0]); err != nil {
		return process{}, fmt.Errorf("starting %s: %w; Debian has it in systemd-container", dir.name(), err)
	}
	console, err := os.OpenFile(dir.in(consoleLog), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return process{}, fmt.Errorf("opening console log: %w", err)
	}
	defer func() { _ = console.Close() }()
	before, err := console.Seek(0, io.SeekEnd)
	if err != nil {
		return process{}, fmt.Errorf("reading console log: %w", err)
	}
	command := exec.Command("/bin/sh",
		slices.Concat([]string{"-c", keeperScript, "drover-server-" + dir.name()}, groups, []string{"--"}, server)...)
	command.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	command.Dir = "/"
	command.Stdout, command.Stderr = console, console
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return process{}, fmt.Errorf("starting %s: %w", dir.name(), err)
	}
	go func() { _ = command.Wait() }() // so that it does not stay as a zombie
	start, err := startTime(command.Process.Pid)
	if err != nil {
		said, _ := io.ReadAll(io.NewSectionReader(console, before, 2000))
		return process{}, fmt.Errorf("starting %s: it ended at once: %w: %s", dir.name(), err, bytes.TrimSpace(said))
	}
	return process{PID: command.Process.Pid, Start: start}, nil
}

// nspawnCommand also gives the server the prerequisites of Kubernetes: all capabilities, and a
// directory for containerd that is not an overlay itself.
func nspawnCommand(dir serverDir) []string {
	store := strings.NewReplacer(`\`, `\\`, `:`, `\:`).Replace(dir.in(containerdDir))
	return []string{
		"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--boot", "--directory=" + dir.in(rootDir), "--machine=" + dir.name(),
		"--network-bridge=" + host.BridgeName, "--capability=all", "--system-call-filter=add_key keyctl bpf @privileged",
		"--bind=" + store + ":/var/lib/containerd", "--resolv-conf=off", "--timezone=off", "--link-journal=no",
		"--console=pipe",
	}
}

func (p process) save(dir serverDir) error {
	content, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding process: %w", err)
	}
	return replaceFile(dir.in(processFile), string(content))
}

func loadProcess(dir serverDir) (process, error) {
	var p process
	content, err := os.ReadFile(dir.in(processFile))
	if err != nil {
		return p, fmt.Errorf("reading process of %s: %w", dir.name(), err)
	}
	if err := json.Unmarshal(content, &p); err != nil {
		return p, fmt.Errorf("parsing process of %s: %w", dir.name(), err)
	}
	return p, nil
}

// alive is false for process 1, whatever was written down: as a group, that is every process.
func (p process) alive() bool {
	start, err := startTime(p.PID)
	return p.PID > 1 && err == nil && start == p.Start
}

// kill kills the keeper and the processes that it was about to start.
func (p process) kill() error {
	if !p.alive() {
		return nil
	}
	if err := syscall.Kill(-p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("killing process %d: %w", p.PID, err)
	}
	return nil
}

// firstProcess returns the id of the server's own first process: the keeper's only child is
// systemd-nspawn, whose only child it is.
func (p process) firstProcess() (int, error) {
	pid := p.PID
	for range 2 {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		if err != nil {
			return 0, fmt.Errorf("finding child of process %d: %w", pid, err)
		}
		if pid, err = strconv.Atoi(strings.TrimSpace(string(content))); err != nil {
			return 0, fmt.Errorf("finding the only child of a process: %w", err)
		}
	}
	return pid, nil
}

// startTime returns when the process started; a dead one has no start. It is field 22 of a stat
// line: the name in field 2 may hold anything, so that fields are counted from its closing
// parenthesis.
func startTime(pid int) (uint64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading process %d: %w", pid, err)
	}
	end := bytes.LastIndexByte(content, ')')
	fields := strings.Fields(string(content[end+1:]))
	if end < 0 || len(fields) < 20 {
		return 0, errors.New("parsing process state: too short")
	}
	if state := fields[0]; state == "Z" || state == "X" {
		return 0, errors.New("parsing process state: it is dead")
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("parsing process start: %w", err)
	}
	return start, nil
}

const (
	// endTimeout is how long a server's keeper may take to end after the server.
	endTimeout = 3 * time.Second
	// killTimeout is how long killed processes may take to go.
	killTimeout = 10 * time.Second
	pollEvery   = 10 * time.Millisecond
)

// halt pulls the plug: the server's first process is killed, and with it all
// others. systemd-nspawn and the keeper then end by themselves, each collected
// by its parent, so that no dead process is left to init. It takes seconds at
// most and is not left half done when ctx ends.
func (b *Backend) halt(ctx context.Context, dir serverDir) error {
	ctx = context.WithoutCancel(ctx)
	keeper, err := loadProcess(dir)
	if err == nil && keeper.alive() {
		if system, err := keeper.firstProcess(); err == nil {
			_ = syscall.Kill(system, syscall.SIGKILL) // gone already is as good
			_ = wait.PollUntilContextTimeout(ctx, pollEvery, endTimeout, true, func(context.Context) (bool, error) { return !keeper.alive(), nil })
		}
	}
	groups, err := b.host.cgroups(dir.name())
	if err != nil {
		return err
	}
	if err := killAll(ctx, keeper, groups); err != nil {
		return fmt.Errorf("stopping %s: %w", dir.name(), err)
	}
	if err := groups.remove(); err != nil {
		return err
	}
	return b.host.removeInterface(ctx, cable(dir.name()))
}

// killAll kills whatever is left, the keeper first, so that it restarts nothing.
func killAll(ctx context.Context, keeper process, groups cgroups) error {
	if err := keeper.kill(); err != nil {
		return err
	}
	err := wait.PollUntilContextTimeout(ctx, pollEvery, killTimeout, true, func(context.Context) (bool, error) {
		left := groups.processes()
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(left) == 0 && !keeper.alive(), nil // one that is taken for alive would not be started again
	})
	if err != nil {
		return fmt.Errorf("waiting for its processes to go: %w", err)
	}
	return nil
}

package operation

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server is a computer on which runonce.sh runs: a directory, and a PATH whose first programs change nothing of this one.
type server struct {
	t   *testing.T
	dir string
	// hostname is what the Job sets; empty for a host that keeps its own.
	hostname string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, dir: t.TempDir(), hostname: "pool-1"}
	require.NoError(t, os.MkdirAll(s.path("bin"), 0o700))
	s.program("id", `cat "$SERVER/user" 2>/dev/null || echo 0`)
	s.program("hostname", `[ $# = 0 ] && { cat "$SERVER/name" 2>/dev/null; exit 0; }; echo "$1" >"$SERVER/name"`)
	s.program("hostnamectl", `[ "$1" = set-hostname ] && echo "$2" >"$SERVER/name"`)
	s.write("hosts", "127.0.0.1 localhost\n")
	return s
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }

func (s *server) write(name, content string) {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(filepath.Dir(s.path(name)), 0o700))
	require.NoError(s.t, os.WriteFile(s.path(name), []byte(content), 0o600))
}

func (s *server) program(name, body string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(s.path("bin/"+name), []byte("#!/bin/sh\n"+body+"\n"), 0o700))
}

func (s *server) read(name string) string {
	s.t.Helper()
	content, err := os.ReadFile(s.path(name))
	if errors.Is(err, os.ErrNotExist) {
		return ""
	}
	require.NoError(s.t, err)
	return string(content)
}

// boot runs a script as a Job does over SSH, and returns exit code and output.
func (s *server) boot(script string) (int, string) {
	s.t.Helper()
	return s.follow(s.t.Context(), script)
}

func (s *server) follow(ctx context.Context, script string) (int, string) {
	file, err := os.CreateTemp(s.dir, "upload-")
	require.NoError(s.t, err)
	upload := file.Name()
	_, err = file.WriteString(script)
	require.NoError(s.t, errors.Join(err, file.Close()))
	command := exec.CommandContext(ctx, "/bin/sh", "-s", "--", s.path("marker/uid"), upload, s.hostname, s.path("hosts"))
	command.Stdin = strings.NewReader(runOnce)
	command.Env = []string{"PATH=" + s.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "SERVER=" + s.dir}
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	command.WaitDelay = 5 * time.Second
	err = command.Run()
	code := 0
	if ended, failed := errors.AsType[*exec.ExitError](err); failed {
		code = ended.ExitCode()
	} else {
		require.NoError(s.t, err)
	}
	_, err = os.Stat(upload)
	require.ErrorIs(s.t, err, os.ErrNotExist, "nothing of the script stays where it was uploaded to")
	return code, out.String()
}

// TestRunOnce_scripts: interpreters, exit codes and output are the script's own; what stands for our own failures is not.
func TestRunOnce_scripts(t *testing.T) {
	for name, c := range map[string]struct {
		script, output string
		code           int
	}{
		"a shell script":             {"#!/bin/sh\necho hello\n", "hello\n", 0},
		"one without interpreter":    {"echo hello\n", "hello\n", 0},
		"options of the interpreter": {"#!/bin/sh -e\nfalse\necho not here\n", "", 1},
		"a space before it":          {"#! /bin/sh -eu\necho \"$NONE\"\n", "NONE", 2},
		"by its environment":         {"#!/usr/bin/env sh\necho hello\n", "hello\n", 0},
		"its own exit code":          {"#!/bin/sh\nexit 42\n", "", 42},
		"the code of no root":        {"#!/bin/sh\nexit 124\n", "the bootstrap script ended with exit code 124\n", 1},
		"the code of no start":       {"#!/bin/sh\nexit 125\n", "the bootstrap script ended with exit code 125\n", 1},
		"the code of a break":        {"#!/bin/sh\nexit 126\n", "the bootstrap script ended with exit code 126\n", 1},
		"a missing interpreter":      {"#!/nowhere/sh\necho hello\n", "not found", 127},
		"both outputs":               {"#!/bin/sh\necho one\necho two >&2\n", "one\ntwo\n", 0},
		"output without an end":      {"#!/bin/sh\nprintf abc", "abc", 0},
		"nothing to read":            {"#!/bin/sh\ncat\nread x || echo no input\n", "no input\n", 0},
		"its place and mask":         {"#!/bin/sh\npwd\numask\n", "/\n0022\n", 0},
		"stars":                      {"#!/bin/sh\necho '*'\n", "*\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			code, output := s.boot(c.script)
			require.Equal(t, c.code, code, output)
			require.Contains(t, output, c.output)
			require.NotContains(t, output, "not here")
			require.Equal(t, c.script, s.read("marker/uid/script"), "it can be looked at later")
		})
	}
}

// TestRunOnce_once: whoever comes later, by whichever way, follows the one run.
func TestRunOnce_once(t *testing.T) {
	s := newServer(t)
	const script = "#!/bin/sh\necho x >>$SERVER/ran\necho hello\nexit 7\n"
	code, output := s.boot(script)
	require.Equal(t, 7, code)
	require.Equal(t, "hello\n", output)
	for range 2 {
		code, output = s.boot("#!/bin/sh\necho another\n")
		require.Equal(t, 7, code)
		require.Equal(t, "the bootstrap script was started before\nhello\n", output)
	}
	require.Equal(t, "x\n", s.read("ran"))
	require.Equal(t, script, s.read("marker/uid/script"))
}

// TestRunOnce_at_once: several Jobs at the same moment, as when one was thought lost.
func TestRunOnce_at_once(t *testing.T) {
	s := newServer(t)
	var group sync.WaitGroup
	codes := make(chan int, 5)
	for range 5 {
		group.Go(func() {
			code, _ := s.follow(t.Context(), "#!/bin/sh\nmkdir $SERVER/first || echo twice >>$SERVER/again\necho hello\nexit 3\n")
			codes <- code
		})
	}
	group.Wait()
	close(codes)
	for code := range codes {
		require.Equal(t, 3, code)
	}
	require.Empty(t, s.read("again"))
	require.Equal(t, "hello\n", s.read("marker/uid/output"))
}

// TestRunOnce_goes_on when the connection breaks: the next one sees its end.
func TestRunOnce_goes_on(t *testing.T) {
	s := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, exec.CommandContext(t.Context(), "mkfifo", s.path("go")).Run())
	broken := make(chan struct{})
	go func() {
		defer close(broken)
		command := exec.CommandContext(ctx, "/bin/sh", "-s", "--", s.path("marker/uid"), s.path("upload"), "pool-1", s.path("hosts"))
		command.Stdin = strings.NewReader(runOnce)
		command.Env = []string{"PATH=" + s.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "SERVER=" + s.dir}
		_ = command.Run()
	}()
	s.write("upload", "#!/bin/sh\necho begun >$SERVER/go\nread x <$SERVER/go\necho ended\nexit 5\n")
	begun, err := os.ReadFile(s.path("go"))
	require.NoError(t, err)
	require.Equal(t, "begun\n", string(begun))
	cancel()
	<-broken
	go func() { _ = os.WriteFile(s.path("go"), []byte("on\n"), 0o600) }()
	code, output := s.boot("#!/bin/sh\n")
	require.Equal(t, 5, code)
	require.Equal(t, "the bootstrap script was started before\nended\n", output)
}

// TestRunOnce_needs_root and leaves nothing without it.
func TestRunOnce_needs_root(t *testing.T) {
	s := newServer(t)
	s.write("user", "1000\n")
	code, _ := s.boot("#!/bin/sh\necho x >$SERVER/ran\n")
	require.Equal(t, statusNoRoot, code)
	require.Empty(t, s.read("ran"))
	require.NoDirExists(t, s.path("marker"))
}

// TestRunOnce_names the server once, in its own list of hosts and as its host name.
func TestRunOnce_names(t *testing.T) {
	for name, c := range map[string]struct{ before, hosts, want string }{
		"a new one":            {"", "127.0.0.1 localhost\n", "127.0.0.1 localhost\n127.0.1.1 pool-1 # of Drover\n"},
		"one after another":    {"pool-0\n", "127.0.1.1 pool-0 # of Drover\n127.0.1.1 mine\n", "127.0.1.1 mine\n127.0.1.1 pool-1 # of Drover\n"},
		"one that is listed":   {"", "127.0.1.1 pool-1\n", "127.0.1.1 pool-1\n"},
		"listed among others":  {"", "10.0.0.1\tx pool-1 y\n", "10.0.0.1\tx pool-1 y\n"},
		"a longer one listed":  {"", "10.0.0.1 pool-1.example.com pool-10\n", "10.0.0.1 pool-1.example.com pool-10\n127.0.1.1 pool-1 # of Drover\n"},
		"one that has it":      {"pool-1\n", "127.0.1.1 pool-1\n", "127.0.1.1 pool-1\n"},
		"one that has another": {"image\n", "127.0.1.1 image\n", "127.0.1.1 image\n127.0.1.1 pool-1 # of Drover\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.write("name", c.before)
			s.write("hosts", c.hosts)
			code, output := s.boot("#!/bin/sh\nhostname\n")
			require.Zero(t, code)
			require.Equal(t, "pool-1\n", output)
			require.Equal(t, c.want, s.read("hosts"))
			_, _ = s.boot("#!/bin/sh\n")
			require.Equal(t, c.want, s.read("hosts"))
		})
	}
}

// TestRunOnce_odd_servers: what a server lacks is told, and does not keep the script from running.
func TestRunOnce_odd_servers(t *testing.T) {
	t.Run("neither hostnamectl nor a name that can be set", func(t *testing.T) {
		s := newServer(t)
		s.program("hostnamectl", "exit 1")
		s.program("hostname", "exit 1")
		code, output := s.boot("#!/bin/sh\necho hello\n")
		require.Zero(t, code)
		require.Equal(t, "the host name could not be set\nhello\n", output)
	})
	t.Run("a list of hosts that cannot be written", func(t *testing.T) {
		s := newServer(t)
		require.NoError(t, os.Remove(s.path("hosts")))
		require.NoError(t, os.Mkdir(s.path("hosts"), 0o700))
		code, output := s.boot("#!/bin/sh\necho hello\n")
		require.Zero(t, code)
		require.Contains(t, output, "the host name could not be written to "+s.path("hosts"))
		require.Contains(t, output, "hello\n")
	})
	t.Run("a host that keeps its name", func(t *testing.T) {
		s := newServer(t)
		s.write("name", "own\n")
		s.hostname = ""
		code, output := s.boot("#!/bin/sh\nhostname\n")
		require.Zero(t, code)
		require.Equal(t, "own\n", output)
		require.Equal(t, "127.0.0.1 localhost\n", s.read("hosts"))
	})
	t.Run("no place for the marker", func(t *testing.T) {
		s := newServer(t)
		s.write("marker", "a file")
		code, _ := s.boot("#!/bin/sh\necho x >$SERVER/ran\n")
		require.Equal(t, statusNotStarted, code)
		require.Empty(t, s.read("ran"))
	})
	t.Run("no setsid", func(t *testing.T) {
		s := newServer(t)
		s.program("nohup", `echo with nohup; exec "$@"`)
		s.program("command", "exit 1")
		s.program("setsid", "exit 1")
		require.NoError(t, os.Chmod(s.path("bin/setsid"), 0o600))
		code, output := s.boot("#!/bin/sh\necho hello\n")
		require.Zero(t, code)
		require.Contains(t, output, "hello\n")
	})
}

func TestBootstrapStatus(t *testing.T) {
	require.NoError(t, bootstrapStatus(0))
	for status, want := range map[int]string{
		124: "BootstrapFailed Invalid the SSH user cannot become root on the server: it needs sudo without a password",
		125: "BootstrapFailed Transient the bootstrap script could not be started on the server; see the log for the cause",
		126: "BootstrapInterrupted Invalid the bootstrap script was interrupted on the server and is not run a second time: replace the machine, or finish by hand",
		1:   "BootstrapFailed Invalid the bootstrap script ended with exit code 1 and is not run a second time: the log shows its output",
		255: "BootstrapFailed Invalid the bootstrap script ended with exit code 255 and is not run a second time: the log shows its output",
	} {
		f, ok := errors.AsType[*failure](bootstrapStatus(status))
		require.True(t, ok)
		require.Equal(t, want, f.reason+" "+f.class+" "+f.Error())
	}
}

// claim runs the script as a Job does over SSH.
func (s *server) claim(arguments ...string) string {
	command := exec.CommandContext(s.t.Context(), "/bin/sh", append([]string{"-s", "--"}, arguments...)...)
	command.Stdin = strings.NewReader(claimScript)
	command.Env = []string{"PATH=" + s.path("bin") + ":/usr/sbin:/usr/bin:/sbin:/bin", "DROVER_ROOT=" + s.path("root")}
	out, err := command.CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// Of machines that come at the same moment one gets the host, and all are told which.
func TestClaim_oneOfManyGetsTheHost(t *testing.T) {
	s := newServer(t)
	file := s.path("lib/claim")
	told := make([]string, 8)
	var group sync.WaitGroup
	for i := range told {
		group.Go(func() { told[i] = s.claim(file, fmt.Sprint("uid-", i), fmt.Sprint("team/m", i), "c1 c-uid") })
	}
	group.Wait()
	require.Regexp(t, `^uid-\d\nteam/m\d\nc1 c-uid\n$`, told[0])
	for _, one := range told {
		require.Equal(t, told[0], one)
	}
	for name, put := range map[string]func(path string) error{
		"a folder":  func(path string) error { return os.Mkdir(path, 0o700) },
		"a pipe":    func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"no ending": func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		odd := s.path("lib/" + name)
		require.NoError(t, put(odd))
		require.Empty(t, s.claim(odd, "x", "y", "z"), name)
	}
	s.program("id", "echo 1000")
	require.Equal(t, "exit status 124", s.claim(file, "x", "y", "z"))
}

// A host without a claim is claimed only if it has no Kubernetes: no service, no data and no
// configuration of one.
func TestClaim_ofAHostInUse(t *testing.T) {
	const free = "uid-1\nteam/m\nc1\n"
	unit := func(program string) string {
		return "[Service]\nExecStartPre=-/sbin/modprobe overlay\nExecStart=" + program + "\n"
	}
	for name, c := range map[string]struct {
		files map[string]string
		found string
	}{
		"nothing":                        {},
		"a service of k3s":               {map[string]string{"etc/systemd/system/k3s-mine.service": unit("/usr/local/bin/k3s \\")}, "/etc/systemd/system/k3s-mine.service"},
		"RKE2 from a tarball":            {map[string]string{"usr/local/lib/systemd/system/rke2-agent.service": unit("/usr/local/bin/rke2 agent")}, "/usr/local/lib/systemd/system/rke2-agent.service"},
		"RKE2 from a package":            {map[string]string{"usr/lib/systemd/system/rke2-server.service": unit("/usr/bin/rke2 server")}, "/usr/lib/systemd/system/rke2-server.service"},
		"another service":                {files: map[string]string{"etc/systemd/system/k3s-report.service": unit("/usr/bin/report /usr/local/bin/k3s ")}},
		"a server's data":                {map[string]string{"var/lib/rancher/rke2/server/db/etcd/x": ""}, "/var/lib/rancher/rke2/server/db"},
		"a worker's data":                {map[string]string{"var/lib/rancher/k3s/agent/kubelet.kubeconfig": ""}, "/var/lib/rancher/k3s/agent/kubelet.kubeconfig"},
		"images for a first start":       {files: map[string]string{"var/lib/rancher/k3s/agent/images/k3s.tar": "", "var/lib/drover-agent/images/i.tar": ""}},
		"manifests for a first start":    {files: map[string]string{"var/lib/rancher/rke2/server/manifests/m.yaml": ""}},
		"a disk for the data":            {files: map[string]string{"var/lib/rancher/lost+found/x": ""}},
		"a configuration":                {map[string]string{"etc/rancher/rke2/config.yaml": ""}, "/etc/rancher/rke2"},
		"the password of a Node":         {map[string]string{"etc/rancher/node/password": ""}, "/etc/rancher/node"},
		"another folder of /etc/rancher": {files: map[string]string{"etc/rancher/mine/x": ""}},
		"kubeadm's":                      {map[string]string{"etc/kubernetes/kubelet.conf": ""}, "/etc/kubernetes/kubelet.conf"},
		"all":                            {map[string]string{"etc/rancher/k3s/k3s.yaml": "", "var/lib/rancher/k3s/server/token": ""}, "/var/lib/rancher/k3s/server/token\n/etc/rancher/k3s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			for file, content := range c.files {
				s.write("root/"+file, content)
			}
			file := s.path("lib/claim")
			if c.found == "" {
				require.Equal(t, free, s.claim(file, "uid-1", "team/m", "c1"))
				return
			}
			require.Equal(t, c.found+"\nexit status 123", s.claim(file, "uid-1", "team/m", "c1"))
			require.NoDirExists(t, s.path("lib"), "nothing is written")

			// The claim of this machine, or of another one, comes before: then a machine of
			// Drover's brought the Kubernetes.
			s.write("lib/claim", free)
			for _, uid := range []string{"uid-1", "uid-2"} {
				require.Equal(t, free, s.claim(file, uid, "team/m", "c1"))
			}
		})
	}
}

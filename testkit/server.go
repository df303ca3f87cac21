package testkit

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// binaryVariable names a localkube to use instead of bin/localkube.
	binaryVariable = "DROVER_LOCALKUBE"
	// stopGrace is the time for the server to end and remove its directory.
	stopGrace = 10 * time.Second
)

// server is a localkube child process.
type server struct {
	options options

	once       sync.Once
	err        error
	kubeconfig string
	config     *rest.Config
	cmd        *exec.Cmd
	release    chan struct{}
}

// ensure starts the server once; all callers get the same result.
func (s *server) ensure() error {
	s.once.Do(func() {
		if s.err = s.launch(); s.err != nil {
			return
		}
		config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
		if err != nil {
			s.err = fmt.Errorf("reading kubeconfig: %w", err)
			return
		}
		config.QPS = -1 // a test is never too fast
		s.config, s.err = config, applyCRDs(config, s.options.crds)
	})
	return s.err
}

// launch starts localkube and waits for its one line on stdout, the path of
// the kubeconfig, which it prints when it is ready.
func (s *server) launch() error {
	binary, err := findBinary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "drover-testkit-")
	if err != nil {
		return fmt.Errorf("making data directory: %w", err)
	}
	disabled := "controller-manager,scheduler"
	if s.options.controllers {
		disabled = "scheduler"
	}
	s.cmd = exec.Command(binary, "server", "--data-dir", dir, "--ephemeral", "--disable", disabled)
	var log bytes.Buffer
	s.cmd.Stderr = &log
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		err = s.spawn()
	}
	if err != nil {
		s.cmd = nil
		return errors.Join(fmt.Errorf("starting %s: %w", binary, err), os.RemoveAll(dir))
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if errors.Is(err, io.EOF) {
		cmd := s.cmd
		s.cmd = nil
		close(s.release)
		ended := cmp.Or(errors.Join(cmd.Wait(), os.RemoveAll(dir)), errors.New("it ended before it was ready"))
		return fmt.Errorf("starting localkube: %w\n%s", ended, log.String())
	}
	if err != nil {
		return fmt.Errorf("waiting for localkube: %w", err)
	}
	s.kubeconfig = strings.TrimSpace(line)
	return nil
}

// spawn starts the process from an OS thread that lives until stop: the kernel
// ends the server when the thread that started it ends, thus also when the
// test binary is killed.
func (s *server) spawn() error {
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	s.release = make(chan struct{})
	spawned := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := s.cmd.Start()
		spawned <- err
		if err == nil {
			<-s.release
		}
	}()
	return <-spawned
}

func (s *server) stop() error {
	if s.cmd == nil {
		return nil
	}
	defer close(s.release)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping localkube: %w", err)
	}
	kill := time.AfterFunc(stopGrace, func() { _ = s.cmd.Process.Kill() })
	defer kill.Stop()
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("stopping localkube: %w\n%s", err, s.cmd.Stderr)
	}
	return nil
}

// findBinary is the first bin/localkube above the working directory, which is this repository's,
// unless the environment names another.
func findBinary() (string, error) {
	if binary := os.Getenv(binaryVariable); binary != "" {
		return binary, nil
	}
	dir, err := os.Getwd()
	for ; err == nil && dir != "/"; dir = filepath.Dir(dir) {
		binary := filepath.Join(dir, "bin", "localkube")
		if _, err := exec.LookPath(binary); err == nil {
			return binary, nil
		}
	}
	return "", errors.Join(fmt.Errorf("tests against a real API server need bin/localkube: run make build, or set %s", binaryVariable), err)
}

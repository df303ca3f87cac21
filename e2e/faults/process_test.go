package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

const (
	// podDeadline stands for the Job's: what hangs longer is told to stop, and killed after a grace period.
	podDeadline = 15 * time.Second
	podGrace    = 15 * time.Second
	// podVariable makes this binary what runs in a Job's pod; its value is a podSpec.
	podVariable = "DROVER_FAULTS_POD"
	exitKilled  = 137
)

// disk is how large the pod's own is.
type disk struct {
	Pages, Inodes int
}

var ampleDisk = disk{Pages: 1 << 14, Inodes: 1 << 14}

// podSpec is what a pod's process must know.
type podSpec struct {
	Operation state.Operation
	// Dir has the request, and an empty directory on which the disk is mounted.
	Dir, Driver, Server string
	Disk                disk
}

func (p podSpec) path(name string) string { return filepath.Join(p.Dir, name) }

// runPod runs what the Job's pod runs and returns its exit code. As in a container, the program is the first process of its
// own PID namespace, so that a SIGKILL takes the driver with it, and has a disk of limited size.
func (w *world) runPod(job *batchv1.Job) int {
	w.Helper()
	spec := podSpec{Operation: state.Operation(job.Spec.Template.Spec.Containers[0].Command[1]), Dir: w.TempDir(), Driver: theDriver, Disk: ampleDisk}
	if w.nextDisk != nil {
		spec.Disk, w.nextDisk = *w.nextDisk, nil
	}
	w.writeRequest(job, spec.path("request"))
	require.NoError(w, os.Mkdir(spec.path("disk"), 0o700))
	process := w.newProcess()
	server := w.serve(process)
	defer server.Close()
	spec.Server = server.URL
	argument, err := json.Marshal(spec)
	require.NoError(w, err)
	process.Env = append(os.Environ(), "GOGC=off", podVariable+"="+string(argument)) // it ends before there is much garbage
	code := w.await(process)
	w.podGate.ended()
	if raw, err := os.ReadFile(spec.path("used")); err == nil {
		used := disk{}
		require.NoError(w, json.Unmarshal(raw, &used))
		w.used = disk{Pages: max(w.used.Pages, used.Pages), Inodes: max(w.used.Inodes, used.Inodes)}
	}
	return code
}

func (w *world) writeRequest(job *batchv1.Job, dir string) {
	w.Helper()
	request := &corev1.Secret{}
	require.NoError(w, w.admin.Get(w.Context(), client.ObjectKeyFromObject(job), request), "the request Secret of a Job that has not run")
	require.NoError(w, os.Mkdir(dir, 0o700))
	for key, value := range request.Data {
		require.NoError(w, os.WriteFile(filepath.Join(dir, key), value, 0o600))
	}
}

func (w *world) newProcess() *exec.Cmd {
	process := exec.CommandContext(w.Context(), "/proc/self/exe")
	process.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID}
	process.WaitDelay = time.Second
	return process
}

// serve is the pod's way to the API server: a proxy that kills it without warning when its time has come.
func (w *world) serve(process *exec.Cmd) *httptest.Server {
	target, err := url.Parse(w.lab.config.Host)
	require.NoError(w, err)
	way := &mortal{gate: w.podGate, end: func() { _ = process.Process.Kill() }}
	return httptest.NewServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: way, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // which closes the connection without an answer
		},
	})
}

// await is the exit code of the process, exitKilled when it was killed.
func (w *world) await(process *exec.Cmd) int {
	w.Helper()
	output := &bytes.Buffer{}
	process.Stdout, process.Stderr = output, output
	require.NoError(w, process.Start())
	terminate := func() { _ = process.Process.Signal(syscall.SIGTERM) }
	deadline := time.AfterFunc(podDeadline, terminate)
	defer deadline.Stop()
	end := time.AfterFunc(podDeadline+podGrace, func() { _ = process.Process.Kill() })
	defer end.Stop()
	w.cancelPod = terminate
	_ = process.Wait()
	w.cancelPod = nil
	code := process.ProcessState.ExitCode()
	if code == -1 {
		w.say("the pod was killed")
		w.cure()
		w.podGate.killed = nil
		return exitKilled
	}
	if text := output.String(); testing.Verbose() || strings.Contains(text, "panic:") || code > operation.ExitCancelled {
		w.say("the pod's output: %s", text)
	}
	return code
}

// beThePod is main of the pod's process.
func beThePod(argument string) int {
	code, err := runAsPod(argument)
	if err != nil {
		fmt.Fprintln(os.Stderr, "playing the pod:", err)
	}
	return code
}

func runAsPod(argument string) (int, error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	spec := podSpec{}
	if err := json.Unmarshal([]byte(argument), &spec); err != nil {
		return exitKilled, err
	}
	if err := mountDisk(spec); err != nil {
		return exitKilled, err
	}
	code := operation.Run(ctx, operation.Options{
		Operation: spec.Operation, RequestDir: spec.path("request"), Home: spec.path("disk/home"), TempDir: spec.path("disk/tmp"),
		Self: spec.Driver, Env: os.Environ(), Output: os.Stdout,
		Core: func() (corev1client.CoreV1Interface, error) {
			c, err := kubernetes.NewForConfig(&rest.Config{Host: spec.Server, QPS: -1})
			if err != nil {
				return nil, err
			}
			return c.CoreV1(), nil
		},
	})
	return code, tellUsed(spec)
}

// mountDisk mounts a file system of the given size, which goes with the process's mount namespace.
func mountDisk(spec podSpec) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	options := fmt.Sprintf("size=%d,nr_inodes=%d", spec.Disk.Pages*os.Getpagesize(), spec.Disk.Inodes)
	if err := syscall.Mount("tmpfs", spec.path("disk"), "tmpfs", 0, options); err != nil {
		return fmt.Errorf("mounting a disk (%s): %w", options, err)
	}
	for _, name := range []string{"disk/home", "disk/tmp"} {
		if err := os.Mkdir(spec.path(name), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// tellUsed leaves how much of the disk was used, which is what the points of a full one are made from.
func tellUsed(spec podSpec) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(spec.path("disk"), &stat); err != nil {
		return err
	}
	used, err := json.Marshal(disk{Pages: int(stat.Blocks - stat.Bfree), Inodes: int(stat.Files - stat.Ffree)})
	if err != nil {
		return err
	}
	return os.WriteFile(spec.path("used"), used, 0o600)
}

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/template"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"

	"github.com/drover-project/drover/localkube/datadir"
	"github.com/drover-project/drover/localkube/process"
	"github.com/drover-project/drover/localkube/registries"
)

// callTimeout bounds connecting to containerd and each call.
const callTimeout = 20 * time.Second

// cniBinDir is where Debian's containernetworking-plugins puts the plugins.
const cniBinDir = "/usr/lib/cni"

// containerdConfig leaves out the snapshotters that only log their absence,
// and lowers no process's OOM score, which needs a capability containers lack.
var containerdConfig = template.Must(template.New("containerd").Parse(`version = 2
root = "{{.Root}}"
state = "{{.State}}"
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{{.Socket}}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Pause}}"
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.CNIBin}}"
    conf_dir = "{{.CNIConfig}}"

  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{{.Registries}}"
{{.Credentials}}`))

// Runtime is where containerd has its things, and whom it pulls from.
type Runtime struct {
	// Root has images and layers, State the files that do not survive a reboot. Both are below the
	// node's directory by default.
	Root, State string
	Registries  registries.File
}

func (r Runtime) below(dir datadir.Dir) Runtime {
	if r.Root == "" {
		r.Root, r.State = dir.Path("containerd", "root"), dir.Path("containerd", "state")
	}
	return r
}

func socket(dir datadir.Dir) string { return dir.Path("containerd", "containerd.sock") }

// startContainerd writes the configuration, starts it, and connects to the
// runtime service as soon as it serves.
func startContainerd(ctx context.Context, dir datadir.Dir, runtime Runtime, sup *process.Supervisor) (internalapi.RuntimeService, error) {
	var text strings.Builder
	err := containerdConfig.Execute(&text, map[string]string{
		"Root":        runtime.Root,
		"State":       runtime.State,
		"Socket":      socket(dir),
		"Pause":       PauseImage,
		"CNIBin":      cniBinDir,
		"CNIConfig":   dir.Path("cni", "conf"),
		"Registries":  dir.Path("containerd", "certs.d"),
		"Credentials": runtime.Registries.Credentials(),
	})
	if err != nil {
		return nil, fmt.Errorf("writing containerd configuration: %w", err)
	}
	if err := dir.Write([]byte(text.String()), "containerd", "config.toml"); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(dir.Path("containerd", "certs.d")); err != nil {
		return nil, fmt.Errorf("forgetting registries: %w", err)
	}
	for name, content := range runtime.Registries.Hosts() {
		if err := dir.Write([]byte(content), "containerd", "certs.d", name, "hosts.toml"); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir.Path("cni", "conf"), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the pod network: %w", err)
	}
	if err := os.Remove(socket(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing the socket of an earlier run: %w", err)
	}
	err = sup.Start(process.Spec{
		Name: containerdName, Path: containerdName, Args: []string{"--config", dir.Path("containerd", "config.toml")}, Log: dir.Log(containerdName),
	})
	if err != nil {
		return nil, err
	}
	var service internalapi.RuntimeService
	var last error
	err = wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		service, last = connect(ctx, dir)
		return last == nil, nil
	})
	if err != nil {
		return nil, fmt.Errorf("waiting for containerd: %w", errors.Join(context.Cause(ctx), last))
	}
	return service, nil
}

func connect(ctx context.Context, dir datadir.Dir) (internalapi.RuntimeService, error) {
	if _, err := os.Stat(socket(dir)); err != nil {
		return nil, fmt.Errorf("looking for containerd's socket: %w", err)
	}
	runtime, err := criclient.NewRemoteRuntimeService(ctx, "unix://"+socket(dir), callTimeout, nil, false)
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	if _, err := runtime.Version(ctx, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("asking containerd's version: %w", err), runtime.Close(ctx))
	}
	return runtime, nil
}

const (
	// containerGrace is the time of containers between SIGTERM and SIGKILL when the node stops.
	containerGrace = 3
	sandboxTimeout = 30 * time.Second
)

// removeSandboxes stops and removes every pod of a running containerd, with
// its network and its mounts.
func removeSandboxes(ctx context.Context, dir datadir.Dir) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxTimeout)
	defer cancel()
	runtime, err := connect(ctx, dir)
	if err != nil {
		return err
	}
	sandboxes, err := runtime.ListPodSandbox(ctx, nil)
	if err != nil {
		return errors.Join(fmt.Errorf("listing pods: %w", err), runtime.Close(ctx))
	}
	errs := make(chan error)
	for _, sandbox := range sandboxes {
		go func() { errs <- removeSandbox(ctx, runtime, sandbox) }()
	}
	for range sandboxes {
		err = errors.Join(err, <-errs)
	}
	return errors.Join(err, runtime.Close(ctx))
}

func removeSandbox(ctx context.Context, runtime internalapi.RuntimeService, sandbox *runtimeapi.PodSandbox) error {
	containers, err := runtime.ListContainers(ctx, &runtimeapi.ContainerFilter{PodSandboxId: sandbox.Id})
	if err != nil {
		return fmt.Errorf("listing containers of pod %s: %w", sandbox.Metadata.Name, err)
	}
	for _, c := range containers {
		if c.State != runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		if err := runtime.StopContainer(ctx, c.Id, containerGrace); err != nil {
			return fmt.Errorf("stopping container of pod %s: %w", sandbox.Metadata.Name, err)
		}
	}
	if err := runtime.StopPodSandbox(ctx, sandbox.Id); err != nil {
		return fmt.Errorf("stopping pod %s: %w", sandbox.Metadata.Name, err)
	}
	if err := runtime.RemovePodSandbox(ctx, sandbox.Id); err != nil {
		return fmt.Errorf("removing pod %s: %w", sandbox.Metadata.Name, err)
	}
	return nil
}

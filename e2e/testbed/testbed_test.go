package testbed

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/e2e/cloud"
)

func TestNewMakesPathsAbsolute(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	for name, test := range map[string]struct{ given, want Options }{
		"defaults": {
			Options{},
			Options{StateDir: here + "/.drover", BinDir: here + "/bin", CacheDir: here + "/.drover/cache", Out: io.Discard},
		},
		"relative": {
			Options{StateDir: "a/../s", BinDir: "./b/", CacheDir: "c"},
			Options{StateDir: here + "/s", BinDir: here + "/b", CacheDir: here + "/c", Out: io.Discard},
		},
		"absolute": {
			Options{StateDir: "/s", BinDir: "/b", CacheDir: "/c", Out: os.Stderr},
			Options{StateDir: "/s", BinDir: "/b", CacheDir: "/c", Out: os.Stderr},
		},
	} {
		t.Run(name, func(t *testing.T) {
			bed, err := New(test.given)
			require.NoError(t, err)
			require.Equal(t, test.want, bed.Options)
		})
	}
}

func TestUpNeedsRoot(t *testing.T) {
	b := newBench(t)
	b.isRoot = false
	b.programs(t, nil)
	require.EqualError(t, b.Up(t.Context()), "containers and servers need root: run as root")
	require.Empty(t, b.calls(t))
}

// up are binaries with which everything comes up at once.
func up() map[string]string {
	return map[string]string{
		"localcloud": `case "$1" in rootfs) echo /rootfs;; esac`,
		"localkube":  `case "$1" in kubectl) case "$2" in apply) cat > "applied-$(ls | grep -c applied).yaml";; esac;; esac`,
		"manager":    `echo "kind: Everything"`,
	}
}

// startUp is a bench on which Kubernetes and the local cloud run already.
func startUp(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.programs(t, up())
	b.cloud(t)
	require.NoError(t, os.WriteFile(b.Kubeconfig(), nil, 0o600))
	require.NoError(t, os.MkdirAll(b.example(""), 0o700))
	require.NoError(t, os.WriteFile(b.example(clusterExample), []byte("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nspec: {kubernetesVersion: v1}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, pluginBinary), []byte("a plugin"), 0o600))
	return b
}

func TestUpTakesEveryStepOnce(t *testing.T) {
	b := startUp(t)
	require.NoError(t, b.UpAndTell(t.Context()))
	requireGolden(t, "up-calls.txt", b.calls(t))
	requireGolden(t, "up-screen.txt", b.stable(b.screen.String()))
	for file, want := range map[string]string{"applied-0.yaml": "kind: Everything\n"} {
		content, err := os.ReadFile(filepath.Join(b.dir, file))
		require.NoError(t, err)
		require.Equal(t, want, string(content))
	}
	drivers, err := os.ReadFile(filepath.Join(b.dir, "applied-1.yaml"))
	require.NoError(t, err)
	requireGolden(t, "drivers.yaml", b.stable(string(drivers)))

	first := strings.Count(b.calls(t), "\n")
	require.NoError(t, b.Up(t.Context()), "what runs is left alone")
	require.Equal(t, 2*first, strings.Count(b.calls(t), "\n"))
	require.NotContains(t, b.calls(t), "[serve]")
}

func TestUpTellsWhichStepFailed(t *testing.T) {
	for name, test := range map[string]struct {
		breakIt map[string]string
		want    string
	}{
		"rootfs":  {map[string]string{"localcloud": `echo no mirror >&2; exit 1`}, "local cloud: the image of its servers: running localcloud rootfs build --rootfs-dir DIR/.drover/cache/rootfs: exit status 1\nno mirror"},
		"image":   {map[string]string{"localkube": `[ "$1" = images ] && { echo no tar; exit 2; }; exit 0`}, "Kubernetes: import the image drover.local/drover:dev: running localkube images import DIR/bin/drover-image.tar --data-dir DIR/.drover/kube: exit status 2\nno tar"},
		"install": {map[string]string{"manager": `echo bad flag >&2; exit 3`}, "Drover: install: running manager manifests --machine-image drover.local/drover:dev"},
		"apply":   {map[string]string{"localkube": `[ "$2" = apply ] && exit 4; exit 0`}, "Drover: install: running kubectl apply --server-side --force-conflicts -f -: exit status 4"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startUp(t)
			for program, script := range test.breakIt {
				b.program(t, program, script)
			}
			err := b.Up(t.Context())
			require.ErrorContains(t, err, strings.ReplaceAll(test.want, "DIR", b.dir))
			require.NotContains(t, err.Error(), DemoToken)
		})
	}
}

func TestUpWithoutBinariesSaysHowToGetThem(t *testing.T) {
	b := newBench(t)
	require.EqualError(t, b.Up(t.Context()), "local cloud: the image of its servers: localcloud is not in "+b.BinDir+": run make build")
	require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, "localcloud"), nil, 0o600), "not executable")
	require.ErrorContains(t, b.Up(t.Context()), "run make build")
	require.NoError(t, os.RemoveAll(b.StateDir))
	require.NoError(t, os.WriteFile(b.StateDir, nil, 0o600))
	require.ErrorContains(t, b.Up(t.Context()), "making the state directory: ")
}

// daemonScript says its process id, what it is to say, and stays.
const daemonScript = `echo $$ > pid.new; mv pid.new pid; %s
exec sleep 1000`

func (b *bench) endDaemon(t *testing.T) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, "pid"))
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

func TestKubeIsStartedAndAwaited(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"localkube": `[ "$1" = server ] || { test -f ready; exit; }
echo coming up; ` + strings.ReplaceAll(daemonScript, "%s", `touch ready .drover/kubeconfig`)})
	require.NoError(t, b.StartKube(t.Context()))
	defer b.endDaemon(t)
	require.Contains(t, b.calls(t), "localkube [server] [--data-dir] [DIR/.drover/kube] [--node] [--kubeconfig] [DIR/.drover/kubeconfig]\n")
	log, err := os.ReadFile(b.log("localkube.log"))
	require.NoError(t, err)
	require.Equal(t, "coming up\n", string(log))
	info, err := os.Stat(b.log("localkube.log"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, b.StartKube(t.Context()))
	require.Equal(t, 1, strings.Count(b.calls(t), "[server]"), "it runs already")
}

func TestCloudIsStartedAndAwaited(t *testing.T) {
	b := newBench(t)
	endpoints := cloud.Endpoints{}
	{ // a cloud elsewhere, which the started one points at
		c, err := cloud.New(cloud.Options{StateDir: filepath.Join(b.dir, "elsewhere")})
		require.NoError(t, err)
		require.NoError(t, c.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, c.Close()) })
		endpoints = c.Endpoints
	}
	b.programs(t, map[string]string{"localcloud": strings.ReplaceAll(daemonScript, "%s", `mkdir -p .drover/cloud; cp elsewhere/endpoints.json .drover/cloud/`)})
	require.ErrorIs(t, b.cloudReady(t.Context()), cloud.ErrNotRunning)
	_, err := b.endpoints()
	require.ErrorContains(t, err, "reading where the local cloud listens: finding local cloud in ")
	require.NoError(t, b.startCloud(t.Context()))
	defer b.endDaemon(t)
	require.Equal(t, "localcloud [serve] [--state-dir] [DIR/.drover/cloud] [--rootfs-dir] [DIR/.drover/cache/rootfs] "+
		"[--token] [demo="+DemoToken+"] [--localkube] [DIR/bin/localkube]\n", b.calls(t))
	found, err := b.endpoints()
	require.NoError(t, err)
	require.Equal(t, endpoints, found)
}

func TestADaemonThatEndsIsNotWaitedFor(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{
		"localcloud": `echo "another local cloud uses this state directory" >&2; exit 1`,
		"localkube":  `[ "$1" = server ] && echo "port 6443 is taken"; exit 1`,
	})
	require.EqualError(t, b.startCloud(t.Context()), "it ended at once, its last lines:\nanother local cloud uses this state directory")
	require.EqualError(t, b.StartKube(t.Context()), "it ended at once, its last lines:\nport 6443 is taken")
	_, err := b.daemon("x.log", "nothing")
	require.EqualError(t, err, "nothing is not in "+b.BinDir+": run make build")
	require.NoError(t, os.RemoveAll(b.in(logsDir)))
	_, err = b.daemon("x.log", "localkube")
	require.ErrorContains(t, err, "opening the log: ")
}

func TestNamespaces(t *testing.T) {
	b := newBench(t)
	b.programs(t, nil)
	require.NoError(t, b.NewNamespace(t.Context(), "story"))
	b.DropNamespace(t.Context(), "story")
	require.Equal(t, "localkube [kubectl] [create] [namespace] [story]\n"+
		"localkube [kubectl] [delete] [namespace] [story] [--wait=false] [--ignore-not-found]\n", b.calls(t))
	require.Empty(t, b.screen.String())
	b.program(t, "localkube", `echo forbidden >&2; exit 1`)
	require.EqualError(t, b.NewNamespace(t.Context(), "story"), "running kubectl create namespace story: exit status 1\nforbidden")
	b.DropNamespace(t.Context(), "story")
	require.Equal(t, "running kubectl delete namespace story --wait=false --ignore-not-found: exit status 1\nforbidden\n", b.screen.String())
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: admin
clusters: [{name: local, cluster: {server: "https://127.0.0.1:6443"}}]
users: [{name: admin, user: {token: marker-token}}]
contexts: [{name: admin, context: {cluster: local, user: admin}}]
`

func TestKubeconfigOfAStory(t *testing.T) {
	b := newBench(t)
	path := filepath.Join(b.dir, "story.kubeconfig")
	require.ErrorContains(t, b.KubeconfigFor("story", path), "reading the kubeconfig: ")
	require.NoError(t, os.WriteFile(b.Kubeconfig(), []byte(kubeconfig), 0o600))
	require.NoError(t, b.KubeconfigFor("story", path))
	config, err := clientcmd.LoadFromFile(path)
	require.NoError(t, err)
	require.Equal(t, "story", config.Contexts["admin"].Namespace)
	require.Equal(t, "marker-token", config.AuthInfos["admin"].Token)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
}

func TestStoriesKnowThePlugin(t *testing.T) {
	b := newBench(t)
	_, err := b.StoryEnv(t.Context())
	require.ErrorIs(t, err, cloud.ErrNotRunning)
	b.cloud(t)
	_, err = b.StoryEnv(t.Context())
	require.ErrorContains(t, err, "publishing the plugin: open "+b.BinDir)
	require.NoError(t, os.WriteFile(filepath.Join(b.BinDir, pluginBinary), []byte("a plugin"), 0o600))
	env, err := b.StoryEnv(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{
		"PLUGIN_URL=https://files.drover.test/docker-machine-driver-drovertest",
		"PLUGIN_CHECKSUM=bc1de45bfa4006cb1695e194d9bdf6532af14e323de66a5bd13b146184b15d30",
		"CLOUD_DIR=" + b.CloudDir(), "BIN=" + b.BinDir, "TMPDIR=" + os.TempDir(),
	}, env)
	require.Equal(t, b.BinDir+":"+b.StateDir+"/shims", b.Path())
}

func TestEnvironmentLeadsToThisTestbed(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("KUBECONFIG", "/someone/else's")
	t.Setenv("KEPT", "1")
	b := newBench(t)
	b.programs(t, map[string]string{"drover": `printf '%s\n' "$KUBECONFIG" "$PATH" "$KEPT"`})
	out, err := b.run(t.Context(), "drover")
	require.NoError(t, err)
	require.Equal(t, strings.Join([]string{b.StateDir + "/kubeconfig", b.StateDir + "/shims:" + b.BinDir + ":/usr/bin:/bin", "1", ""}, "\n"), out)
}

func TestKubectlIsLocalkubes(t *testing.T) {
	b := newBench(t)
	b.programs(t, map[string]string{"localkube": "cat"})
	out, err := b.pipe(t.Context(), strings.NewReader("a manifest"), "kubectl", "apply", "-f", "-", "a b", `$HOME"'`)
	require.NoError(t, err)
	require.Equal(t, "a manifest", out)
	require.Equal(t, "localkube [kubectl] [apply] [-f] [-] [a b] [$HOME\"']\n", b.calls(t))
	require.NoError(t, b.writeKubectl(), "again")
	require.NoError(t, os.RemoveAll(b.in(shimsDir)))
	require.NoError(t, os.WriteFile(b.in(shimsDir), nil, 0o600))
	require.ErrorContains(t, b.writeKubectl(), "making the folder of shims: ")
}

func TestDownWhenNothingRuns(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.RemoveAll(b.StateDir))
	require.NoError(t, b.Down(t.Context()), "without binaries, too")
	require.Empty(t, b.screen.String())
}

// entries are the names in the state directory.
func (b *bench) entries(t *testing.T) []string {
	t.Helper()
	found, err := os.ReadDir(b.StateDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	var names []string
	for _, entry := range found {
		names = append(names, entry.Name())
	}
	return names
}

// used is a bench with all that Up leaves.
func used(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.programs(t, nil)
	for _, dir := range []string{b.in(kubeDir), b.CloudDir(), b.rootfsDir()} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.WriteFile(b.Kubeconfig(), nil, 0o600))
	return b
}

func TestDownRemovesEveryTraceButTheCache(t *testing.T) {
	b := used(t)
	require.NoError(t, b.Down(t.Context()))
	require.Equal(t, []string{"cache"}, b.entries(t))
	require.DirExists(t, b.rootfsDir())
	require.Equal(t, "localkube [down] [--data-dir] [DIR/.drover/kube]\nlocalcloud [clean] [--state-dir] [DIR/.drover/cloud]\n", b.calls(t))
	require.Empty(t, b.screen.String())

	require.NoError(t, os.RemoveAll(b.CacheDir))
	require.NoError(t, b.Down(t.Context()))
	require.NoDirExists(t, b.StateDir, "empty, it goes")
}

// Whoever points at a directory with other things in it keeps them.
func TestDownTouchesNothingThatIsNotItsOwn(t *testing.T) {
	b := used(t)
	b.CacheDir = filepath.Join(b.StateDir, "deep", "cache")
	for _, name := range []string{"deep/cache/rootfs", "thesis", "stories/cloud"} {
		require.NoError(t, os.MkdirAll(filepath.Join(b.StateDir, name), 0o700))
	}
	require.NoError(t, b.Down(t.Context()))
	require.Equal(t, []string{"cache", "deep", "stories", "thesis"}, b.entries(t))
	require.DirExists(t, filepath.Join(b.CacheDir, "rootfs"))
	require.Equal(t, `  left in place, because it is not the testbed's: .drover/cache
  left in place, because it is not the testbed's: .drover/deep
  left in place, because it is not the testbed's: .drover/stories
  left in place, because it is not the testbed's: .drover/thesis
`, b.screen.String())
}

// What could not be stopped is found again by the next try only through its files.
func TestDownKeepsTheFilesOfWhatStillRuns(t *testing.T) {
	for name, test := range map[string]struct {
		failing []string
		want    string
		left    []string
	}{
		"cloud": {[]string{"localcloud"}, "running localcloud clean", []string{"cache", "cloud", "logs"}},
		"kube":  {[]string{"localkube"}, "running localkube down", []string{"cache", "kube", "kubeconfig", "logs"}},
		"both":  {[]string{"localcloud", "localkube"}, "running localkube down", []string{"cache", "cloud", "kube", "kubeconfig", "logs"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := used(t)
			for _, program := range test.failing {
				b.program(t, program, "echo device or resource busy >&2; exit 1")
			}
			err := b.Down(t.Context())
			require.ErrorContains(t, err, test.want)
			require.Equal(t, len(test.failing), strings.Count(err.Error(), "device or resource busy"))
			require.Equal(t, test.left, b.entries(t))

			b.programs(t, nil)
			require.NoError(t, b.Down(t.Context()))
			require.Equal(t, []string{"cache"}, b.entries(t))
		})
	}
	b := used(t)
	require.NoError(t, os.RemoveAll(b.BinDir))
	require.ErrorContains(t, b.Down(t.Context()), "run make build")
	require.True(t, slices.Contains(b.entries(t), "cloud"))
}

func TestAContextThatEndsIsNoTimeLimit(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	err := b.await(ctx, answerLimit, nil, "", func(context.Context) error {
		asked++
		if asked == 2 {
			cancel()
			return errors.New("signal: killed")
		}
		return errors.New("no node is ready")
	})
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "stopped waiting: context canceled; last: no node is ready")
}

func TestATimeLimitTellsTheLastAnswerAndTheLog(t *testing.T) {
	b := newBench(t)
	require.NoError(t, os.WriteFile(b.log("some.log"), []byte("a\nb\n"), 0o600))
	never := func(context.Context) error { return errors.New("no node is ready") }
	require.EqualError(t, b.await(t.Context(), 1, nil, "some.log", never), "not ready after 1ns: no node is ready\na\nb")
	require.EqualError(t, b.await(t.Context(), 1, nil, "other.log", never), "not ready after 1ns: no node is ready\n")
	require.NoError(t, b.await(t.Context(), 1, nil, "", func(context.Context) error { return nil }))
}

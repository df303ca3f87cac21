package e2e

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/testbed"
)

// bed is the one testbed of all stories; each story has a namespace of its own.
var bed *testbed.Testbed

func TestMain(m *testing.M) { os.Exit(runStories(m)) }

func runStories(m *testing.M) int {
	if os.Getenv("DROVER_E2E") == "" {
		return m.Run()
	}
	root, err := filepath.Abs("..")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	bed, err = testbed.New(testbed.Options{
		StateDir: filepath.Join(root, ".drover", "stories"),
		BinDir:   filepath.Join(root, "bin"),
		CacheDir: filepath.Join(root, ".drover", "cache"),
		Out:      os.Stderr,
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := bed.Up(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "bringing the testbed up:", err)
		if err := bed.Down(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, "taking the testbed down:", err)
		}
		return 1
	}
	code := m.Run()
	if code != 0 && os.Getenv("DROVER_E2E_KEEP") != "" {
		fmt.Fprintln(os.Stderr, "kept for a look: KUBECONFIG="+bed.Kubeconfig())
		return code
	}
	if err := bed.Down(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "taking the testbed down:", err)
		return 1
	}
	return code
}

func TestStories(t *testing.T) {
	if bed == nil {
		t.Skip("stories need root, containers and servers: run `make e2e`")
	}
	beside(t, "validators", validators) // the longest of all
	run(t, longestFirst(t, false))
	beside(t, "canary", canaryStory)
}

// TestKinds has the stories that take kinds away: Cluster API's validators, which run beside the others, list every kind that was there when they began.
func TestKinds(t *testing.T) {
	if bed == nil {
		t.Skip("stories need root, containers and servers: run `make e2e`")
	}
	run(t, longestFirst(t, true))
	beside(t, "hostile-create", hostileCreate)
}

// run runs stories.
func run(t *testing.T, files []string) {
	t.Helper()
	testscript.Run(t, testscript.Params{
		Files:               files,
		Setup:               setup,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(45 * time.Minute),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"await":  await,
			"expand": expand,
			"cloud":  cloud,
			"push":   push,
			"mark":   mark,
			"set":    set,
		},
	})
}

// beside runs a test together with the stories, for it waits more than it computes, and disturbs nobody.
func beside(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}

// longestFirst are the stories that take kinds away, or those that do not, the long ones first: the last to begin decides when all have ended.
func longestFirst(t *testing.T, takeKindsAway bool) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	require.NoError(t, err)
	var stories []string
	length := map[string]int{}
	for _, story := range all {
		content, err := os.ReadFile(story)
		require.NoError(t, err)
		if bytes.Contains(content, []byte("kubectl delete nodedriver")) == takeKindsAway {
			stories, length[story] = append(stories, story), len(content)
		}
	}
	require.NotEmpty(t, stories)
	slices.SortFunc(stories, func(a, b string) int { return cmp.Compare(length[b], length[a]) })
	return stories
}

// copyCommon puts the manifests that many stories start from into the story's folder, their variables replaced.
func copyCommon(env *testscript.Env, values map[string]string) error {
	files, err := filepath.Glob("testdata/common/*.yaml")
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := os.Expand(string(content), func(name string) string {
			if value, known := values[name]; known {
				return value
			}
			return "${" + name + "}"
		})
		if err := os.WriteFile(filepath.Join(env.WorkDir, filepath.Base(file)), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

var notNameChars = regexp.MustCompile(`[^a-z0-9]+`)

// setup gives the story a namespace, and kubectl and drover that look there.
func setup(env *testscript.Env) error {
	story := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
	// A testbed that was kept may still have the namespace of an earlier run.
	run := strconv.FormatInt(time.Now().Unix(), 36)
	namespace := "story-" + notNameChars.ReplaceAllString(strings.ToLower(story), "-") + "-" + run[len(run)-4:]
	if err := bed.NewNamespace(context.Background(), namespace); err != nil {
		return err
	}
	kubeconfig := filepath.Join(env.WorkDir, ".kubeconfig")
	if err := bed.KubeconfigFor(namespace, kubeconfig); err != nil {
		return err
	}
	if err := copyCommon(env, map[string]string{"NS": namespace}); err != nil {
		return err
	}
	env.Defer(func() {
		if failed, known := env.T().(interface{ Failed() bool }); known && failed.Failed() {
			env.T().Log(bed.Diagnose(context.Background(), namespace))
		}
		bed.DropNamespace(context.Background(), namespace)
	})
	env.Setenv("NS", namespace)
	env.Setenv("KUBECONFIG", kubeconfig)
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("PATH", bed.Path()+":"+os.Getenv("PATH"))
	if err := registryEnv(env); err != nil {
		return err
	}
	pairs, err := bed.StoryEnv(context.Background())
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		env.Setenv(name, value)
	}
	return nil
}

// await DURATION REGEXP COMMAND... runs the command until its output matches; a leading ! waits until it no longer does.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 3 {
		ts.Fatalf("usage: await DURATION REGEXP COMMAND...")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	again := hereLook(ts.Getenv("WORK"), ts.Getenv("KUBECONFIG"), args[2:])
	if again == nil {
		again = func() ([]byte, error) {
			cmd := exec.Command(lookPath(ts, args[2]), args[3:]...)
			cmd.Dir, cmd.Env = ts.Getenv("WORK"), environ(ts)
			return cmd.CombinedOutput()
		}
	}
	var out []byte
	for range looks(limit) {
		out, err = again()
		if pattern.Match(out) != neg && (err == nil || neg) {
			return
		}
	}
	ts.Fatalf("not after %s: %s; %v, last output:\n%s", limit, args[1], err, out)
}

// looks yields until the limit, with longer and longer pauses: what several stories would spend on looking they lack for what they look at.
func looks(limit time.Duration) func(yield func() bool) {
	return func(yield func() bool) {
		start := time.Now()
		for elapsed := time.Duration(0); elapsed < limit && yield(); elapsed = time.Since(start) {
			<-time.After(min(300*time.Millisecond+elapsed/10, 3*time.Second))
		}
	}
}

func lookPath(ts *testscript.TestScript, name string) string {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	ts.Fatalf("%s is not in PATH", name)
	return ""
}

func environ(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "KUBECONFIG", "NS", "WORK"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	return env
}

// expand FILE... replaces $NAME by the story's environment in place.
func expand(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		path := ts.MkAbs(name)
		content, err := os.ReadFile(path)
		ts.Check(err)
		ts.Check(os.WriteFile(path, []byte(os.Expand(string(content), ts.Getenv)), 0o600))
	}
}

// cloud ARGS... runs localcloud against the testbed's cloud.
func cloud(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec(lookPath(ts, "localcloud"), append(args, "--state-dir", bed.CloudDir())...)
	if (err != nil) != neg {
		ts.Fatalf("localcloud %s: %v", strings.Join(args, " "), err)
	}
}

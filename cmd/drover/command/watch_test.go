package command_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/cmd/drover/command"
)

// running is a drover at work.
type running struct {
	ctx         context.Context
	stop        context.CancelFunc
	out, errOut *lineWriter
	ended       chan int
}

// start runs drover beside the test, until stop.
func (c *cluster) start(t *testing.T, args ...string) *running {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(stop)
	r := &running{ctx: ctx, stop: stop, ended: make(chan int, 1),
		out: &lineWriter{lines: make(chan string, 1000)}, errOut: &lineWriter{lines: make(chan string, 1000)}}
	go func() {
		streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: r.out, ErrOut: r.errOut}
		r.ended <- command.Execute(ctx, command.Options{Name: "drover", Streams: streams},
			append([]string{"--kubeconfig", c.kubeconfig, "-n", c.namespace}, args...))
	}()
	return r
}

// lines waits for so many lines of output.
func (r *running) lines(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for range n {
		all = append(all, r.out.next(r.ctx, t))
	}
	return all
}

// setPhase changes a machine.
func (c *cluster) setPhase(t *testing.T, machine *unstructured.Unstructured, phase string) {
	t.Helper()
	fresh := c.read(t, machine)
	require.NoError(t, unstructured.SetNestedField(fresh.Object, phase, "status", "phase"))
	require.NoError(t, c.Status().Update(t.Context(), fresh))
}

// TestWatchDocuments: each change is a document of its own, so that a program can read them as they come.
func TestWatchDocuments(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	phases := func(t *testing.T, decode func(document string) map[string]any, args ...string) []string {
		t.Helper()
		c.setPhase(t, machine, "Pending")
		r := c.start(t, append([]string{"get", "-w"}, args...)...)
		var text strings.Builder
		first := r.lines(t, 1)[0]
		c.setPhase(t, machine, "Creating")
		text.WriteString(first + "\n")
		for !strings.Contains(text.String(), "Creating") {
			text.WriteString(r.lines(t, 1)[0] + "\n")
		}
		for !strings.Contains(text.String()[strings.Index(text.String(), "Creating"):], "waiting") && !strings.HasSuffix(strings.TrimSpace(text.String()), "}") &&
			!strings.Contains(text.String()[strings.Index(text.String(), "Creating"):], "reason:") {
			text.WriteString(r.lines(t, 1)[0] + "\n")
		}
		r.stop()
		require.Zero(t, <-r.ended)
		var found []string
		for document := range strings.SplitSeq(text.String(), "\n---\n") {
			if m := decode(document); m != nil {
				found = append(found, m["name"].(string)+" "+m["phase"].(string))
			}
		}
		return found
	}
	fromYAML := func(document string) map[string]any {
		var m map[string]any
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &m), document)
		return m
	}
	require.Equal(t, []string{"db-1 Pending", "db-1 Creating"}, phases(t, fromYAML, "-o", "yaml"))
	var decoded []string
	fromJSON := func(stream string) map[string]any {
		decoder := json.NewDecoder(strings.NewReader(stream))
		for decoder.More() {
			var m map[string]any
			require.NoError(t, decoder.Decode(&m))
			decoded = append(decoded, m["name"].(string)+" "+m["phase"].(string))
		}
		return nil
	}
	phases(t, fromJSON, "-o", "json")
	require.Equal(t, []string{"db-1 Pending", "db-1 Creating"}, decoded)
}

// TestWatchNames: only what was asked for is told, also when it is made later.
func TestWatchNames(t *testing.T) {
	c := newCluster(t)
	other := c.apply(t, waitingMachine)
	r := c.start(t, "get", "-w", "web-1", "-o", "name")
	require.Equal(t, `# no machine is called "web-1" yet`, r.errOut.next(r.ctx, t))
	c.setPhase(t, other, "Creating")
	c.apply(t, runningMachine)
	require.Equal(t, []string{"digitaloceanmachine.rke-machine.cattle.io/web-1"}, r.lines(t, 1))
	r.stop()
	require.Zero(t, <-r.ended)
}

// TestWatchWithFewRights: a kind that may not be watched is told of once; when no kind may be, that is an error.
func TestWatchWithFewRights(t *testing.T) {
	c := newCluster(t)
	c.apply(t, waitingMachine)
	c.grant(t, "lister", `{apiGroups: [rke-machine.cattle.io], resources: ["*"], verbs: [list]}`)
	r := c.start(t, "get", "-w", "--no-headers", "--as", "lister")
	require.Regexp(t, `^db-1 +generic`, r.lines(t, 1)[0])
	require.Equal(t, 1, <-r.ended)
	var last string
	for len(r.errOut.lines) > 0 {
		last = <-r.errOut.lines
	}
	require.Regexp(t, `^error: watching \w+machines: \w+machines\.rke-machine\.cattle\.io is forbidden: User "lister" cannot watch resource "\w+machines" in API group "rke-machine\.cattle\.io" in the namespace "`+c.namespace+`"$`, last)
}

// TestWatchTellsOfTrouble: a watch that breaks says so once and goes on.
func TestWatchTellsOfTrouble(t *testing.T) {
	c := newCluster(t)
	machine := c.apply(t, waitingMachine)
	var ill atomic.Bool
	ill.Store(true)
	through := c.through(t, func(out http.ResponseWriter, r *http.Request) bool {
		return ill.Load() && strings.HasSuffix(r.URL.Path, "/genericmachines") && r.URL.Query().Get("watch") != "" &&
			status(out, http.StatusServiceUnavailable, "ServiceUnavailable", "etcd is ill")
	})
	r := through.start(t, "get", "-w", "--no-headers")
	require.Regexp(t, `^db-1 .* Pending `, r.lines(t, 1)[0])
	require.Equal(t, "# watching genericmachines: etcd is ill", r.errOut.next(r.ctx, t))
	ill.Store(false)
	c.setPhase(t, machine, "Creating")
	require.Regexp(t, `^db-1 .* Creating `, r.lines(t, 1)[0])
	r.stop()
	require.Zero(t, <-r.ended)
}

func TestWatchOfNothing(t *testing.T) {
	none := newCluster(t).through(t, func(out http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "rke-machine.cattle.io") {
			return false
		}
		out.WriteHeader(http.StatusNotFound)
		return true
	})
	require.Equal(t, "nothing to watch: no driver is active in this cluster (see 'drover get drivers')", requireError(t, none.drover(t, "get", "-w")))
	r := none.drover(t, "get")
	require.Equal(t, result{errOut: "No machines found: no driver is active in this cluster (see 'drover get drivers').\n"}, r)
	require.Equal(t, result{errOut: "No machines found.\n"}, newCluster(t).drover(t, "get", "-A", "-l", "nobody=has-this"))
}

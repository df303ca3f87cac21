package faults

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/controllers/machine"
	"github.com/drover-project/drover/jobrunner"
)

var restarts = flag.Int("faults.restarts", 0, "how often the API server is restarted; one in a hundred runs by default")

const (
	// together is how many machines are made at the same time, and aboutRequests what one of them asks of the API server.
	together      = 4
	aboutRequests = 30
	restartLimit  = 3 * time.Minute
)

// TestRestart kills the API server and starts it again on its data, while a real manager, with real caches and watches, and
// real pods' processes make and remove servers. Nobody starts the manager again.
func TestRestart(t *testing.T) {
	if *only >= 0 {
		t.Skip("one run of the matrix was asked for")
	}
	s := startAPIServer(t)
	l := newRestartLab(t, s)
	startRealManager(t, l, s)
	lives := max(1, *restarts/2)
	if *restarts == 0 {
		lives = max(1, *count/200)
	}
	for n := range lives {
		t.Run(fmt.Sprint(n), func(t *testing.T) { restartTwice(t, l, s, n) })
	}
	t.Logf("the API server was killed %d times in the lives of %d machines", s.kills.Load(), lives*together)
}

// restartTwice is the life of some machines: the API server is killed once while they are made and once while they go.
func restartTwice(t *testing.T, l *lab, s *apiServer, n int) {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(n), 4))
	worlds := make([]*world, together)
	for i := range worlds {
		worlds[i] = newWorld(t, l, tokenOf(i), plain)
		worlds[i].podGate.next = s.through(worlds[i].podGate.next)
	}
	s.killAtRequest(random.IntN(together * aboutRequests))
	await(worlds, func(w *world) bool {
		return w.condition(rkev1.ReadyCondition).Status == metav1.ConditionTrue && w.condition(rkev1.ProviderIDKnownCondition).Status == metav1.ConditionTrue
	}, (*world).whenReady)
	s.killAtRequest(random.IntN(together * aboutRequests))
	for _, w := range worlds {
		w.deleteMachine()
	}
	await(worlds, nil, (*world).whenGone)
}

// await plays the kubelet for all worlds until what is awaited has come about, or without that until the machine is gone.
func await(worlds []*world, reached func(*world) bool, check func(*world) error) {
	var group sync.WaitGroup
	for _, w := range worlds {
		w.Helper()
		group.Go(func() {
			if err := w.awaitAlone(reached, check); err != nil {
				w.Errorf("%v\n%s", err, w.story())
			}
		})
	}
	group.Wait()
}

func (w *world) awaitAlone(reached func(*world) bool, check func(*world) error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	end := time.NewTimer(restartLimit)
	defer end.Stop()
	for {
		w.playJobs()
		there := w.read()
		if err := w.forgotten(); err != nil {
			return err
		}
		if !there || reached != nil && reached(w) {
			return check(w)
		}
		select {
		case <-ticker.C:
		case <-end.C:
			return fmt.Errorf("stuck: nothing came of it in %s", restartLimit)
		}
	}
}

// startRealManager is the machine controller as cmd/manager runs it.
func startRealManager(t *testing.T, l *lab, s *apiServer) {
	t.Helper()
	wrapped := rest.CopyConfig(l.config)
	wrapped.Wrap(func(next http.RoundTripper) http.RoundTripper { return s.through(next) })
	mgr, err := ctrl.NewManager(wrapped, ctrl.Options{
		Scheme: l.scheme, NewCache: capi.NewCache, Client: capi.ClientOptions(), Metrics: server.Options{BindAddress: "0"},
		Controller: capi.ControllerOptions(),
	})
	require.NoError(t, err)
	require.NoError(t, machine.New(machine.Options{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("machine"),
		Settings: jobrunner.Settings{Image: "registry.test/machine:v1", SSHTimeout: time.Second},
	}).Register(mgr))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(t.Context()) }()
	t.Cleanup(func() { require.NoError(t, <-ended) })
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(crd.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

package move

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/state"
)

// kubelet runs what the Job controller makes pods for: cmd/machine's own code, with the rights of the pod's service account.
type kubelet struct {
	*site
	mu   sync.Mutex
	seen map[types.UID]bool
	held map[state.Operation]chan struct{}
}

func startKubelet(s *site) *kubelet {
	k := &kubelet{site: s, seen: map[types.UID]bool{}, held: map[state.Operation]chan struct{}{}}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				k.look(ctx, &running)
			}
		}
	})
	s.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return k
}

// hold lets no pod of an operation do anything until release is called.
func (k *kubelet) hold(what state.Operation) (release func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	gate := make(chan struct{})
	k.held[what] = gate
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.held, what)
		close(gate)
	})
}

func (k *kubelet) look(ctx context.Context, running *sync.WaitGroup) {
	pods := &corev1.PodList{}
	if err := k.List(ctx, pods, client.HasLabels{rkev1.OperationLabel}); err != nil {
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		k.mu.Lock()
		seen := k.seen[pod.UID]
		k.seen[pod.UID] = true
		k.mu.Unlock()
		if !seen {
			running.Go(func() { k.play(ctx, pod) })
		}
	}
}

// play runs a pod to its end.
func (k *kubelet) play(ctx context.Context, pod *corev1.Pod) {
	k.end(ctx, pod, corev1.PodRunning)
	what := state.Operation(pod.Labels[rkev1.OperationLabel])
	k.mu.Lock()
	gate := k.held[what]
	k.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return
		}
	}
	phase := corev1.PodFailed
	if err := k.operate(ctx, what, pod); err != nil {
		k.Errorf("the pod %s: %v", pod.Name, err)
	} else {
		phase = corev1.PodSucceeded
	}
	k.end(ctx, pod, phase)
}

func (k *kubelet) end(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase) {
	changed := pod.DeepCopy()
	changed.Status.Phase = phase
	if err := k.Status().Patch(ctx, changed, client.MergeFrom(pod)); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		k.Errorf("telling of the pod %s: %v", pod.Name, err)
	}
}

func (k *kubelet) operate(ctx context.Context, what state.Operation, pod *corev1.Pod) error {
	dir, err := os.MkdirTemp("", "pod")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, sub := range []string{"request", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	request := &corev1.Secret{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: pod.Labels["batch.kubernetes.io/job-name"]}
	if err := k.Get(ctx, key, request); err != nil {
		return err
	}
	for name, content := range request.Data {
		if err := os.WriteFile(filepath.Join(dir, "request", name), content, 0o600); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	output := &strings.Builder{}
	code := operation.Run(ctx, operation.Options{
		Operation: what, RequestDir: filepath.Join(dir, "request"), Home: filepath.Join(dir, "home"), TempDir: filepath.Join(dir, "tmp"),
		Self: self, Env: os.Environ(), Output: output,
		Core: func() (corev1client.CoreV1Interface, error) {
			config := rest.CopyConfig(k.config)
			config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + pod.Namespace + ":" + pod.Spec.ServiceAccountName,
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + pod.Namespace, "system:authenticated"}}
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			return c.CoreV1(), nil
		},
	})
	if code != operation.ExitSucceeded {
		k.Logf("%s ended with %d: %s", pod.Name, code, output)
	}
	return nil
}

package simulated

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/agent/access"
	"github.com/drover-project/drover/api/plan"
)

// Agents stand in for the servers' agents: each registers at the manager's endpoint with its machine's bootstrap token and watches its plan Secret through
// it, by the agent's own code, and says at once that a plan is applied and all is well, in the writes that an agent makes.
type Agents struct {
	// Server is the endpoint. Dir keeps the agents' connections and keys.
	Server, Dir string
	// Apply is called with each plan before the agent reports that it is applied; optional.
	Apply func(ctx context.Context, order plan.Plan) error
}

const bootstrapSuffix = "-machine-bootstrap"

// Play starts an agent for each bootstrap Secret, until the context ends.
func (a *Agents) Play(ctx context.Context, config *rest.Config, namespace string) error {
	ca, err := a.authorities(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	defer running.Wait()
	err = Follow(ctx, config, namespace, corev1.SchemeGroupVersion.WithResource("secrets"), func(event watch.EventType, obj *unstructured.Unstructured) {
		secret := &corev1.Secret{}
		if event != watch.Added || !strings.HasSuffix(obj.GetName(), bootstrapSuffix) {
			return
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, secret); err != nil {
			cancel(fmt.Errorf("reading Secret %s: %w", obj.GetName(), err))
			return
		}
		running.Go(func() {
			if err := a.run(ctx, secret, ca); err != nil && ctx.Err() == nil {
				cancel(fmt.Errorf("the agent of %s: %w", secret.Name, err))
			}
		})
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// authorities are asked for as the install script does that verifies them by checksum; here nobody is between.
func (a *Agents) authorities(ctx context.Context) ([]byte, error) {
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // no other program is between on loopback
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Server+"/cacerts", nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	return io.ReadAll(resp.Body)
}

func (a *Agents) run(ctx context.Context, bootstrap *corev1.Secret, ca []byte) error {
	file := func(kind string) string { return filepath.Join(a.Dir, bootstrap.Name+"."+kind) }
	if err := os.WriteFile(file("token"), bootstrap.Data["token"], 0o600); err != nil {
		return err
	}
	door, err := access.Open(ctx, access.Options{ConnectionFile: file("connection"), KeyFile: file("key"), TokenFile: file("token"),
		Server: a.Server, CA: ca, Hostname: bootstrap.Name, Log: logr.Discard()})
	if err != nil {
		return err
	}
	secret, err := access.NewSecret(door)
	if err != nil {
		return err
	}
	changed := make(chan *corev1.Secret, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() {
		secret.Watch(ctx, func(now *corev1.Secret) {
			select {
			case <-changed: // an older one that nobody has looked at
			default:
			}
			changed <- now
		})
	})
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-changed:
			if err := a.obey(ctx, secret, now); err != nil {
				return err
			}
		}
	}
}

// obey writes what an agent writes of a plan: that it has begun, that it is done, and that all probes are healthy.
func (a *Agents) obey(ctx context.Context, secret *access.Secret, now *corev1.Secret) error {
	if now == nil || plan.State(now.Data[plan.KeyState]) != plan.StatePending {
		return nil
	}
	var order plan.Plan
	if err := json.Unmarshal(now.Data[plan.KeyPlan], &order); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	if a.Apply != nil {
		if err := a.Apply(ctx, order); err != nil {
			return err
		}
	}
	healthy := map[string]plan.ProbeStatus{}
	for name := range order.Probes {
		healthy[name] = plan.ProbeStatus{Healthy: true}
	}
	statuses, err := json.Marshal(healthy)
	if err != nil {
		return err
	}
	checksum := plan.Checksum(now.Data[plan.KeyPlan])
	for _, report := range []map[string][]byte{
		{plan.KeyState: []byte(plan.StateInProgress), plan.KeyRevision: []byte("1")},
		{plan.KeyState: []byte(plan.StateSucceeded), plan.KeyAppliedChecksum: []byte(checksum), plan.KeyAgentStatus: fmt.Appendf(nil, `{"checksum":%q,"attempt":1}`, checksum)},
		{plan.KeyProbeStatuses: statuses},
	} {
		maps.Copy(now.Data, report)
		next, err := secret.Update(ctx, now)
		if apierrors.IsConflict(err) {
			return nil // somebody else has written: it is told of that
		}
		if err != nil {
			return err
		}
		now = next
	}
	return nil
}

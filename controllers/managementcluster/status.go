package managementcluster

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/step"
)

// writeInterval is the shortest time between two writes of one management Cluster's status.
const writeInterval = 10 * time.Second

// report brings the management Cluster's status up to date, now or when the interval is over.
func (r *Reconciler) report(ctx context.Context, s *scope) error {
	before := s.management.DeepCopy()
	if err := r.observe(ctx, s); err != nil {
		return err
	}
	if equality.Semantic.DeepEqual(before.Status, s.management.Status) {
		return nil
	}
	if wait := r.wait(s.management.UID); wait > 0 {
		return step.Wait("", "", wait)
	}
	if _, err := step.PatchStatus(ctx, r.Client, before, s.management); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[s.management.UID] = r.Clock.Now()
	return nil
}

// wait returns the time until the status may be written again.
func (r *Reconciler) wait(management types.UID) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	written, found := r.written[management]
	if !found {
		return 0
	}
	return writeInterval - r.Clock.Since(written)
}

// observe computes the status.
func (r *Reconciler) observe(ctx context.Context, s *scope) error {
	status := &s.management.Status
	status.ObservedGeneration = s.management.Generation
	status.Driver = v3.ImportedDriver
	status.Provider = provider(s.Spec.KubernetesVersion)
	status.Info.MachineProvider = machineProvider(s.Cluster)
	controlPlane := &rkev1.RKEControlPlane{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(s), controlPlane); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the RKEControlPlane %s: %w", s.Name, err)
	}
	if !controlPlane.IsRendered() { // it is missing, or another one of this name
		controlPlane = &rkev1.RKEControlPlane{}
	}
	conditions := step.NewConditions(&status.Conditions, s.management.Generation, r.Clock.Now())
	for _, condition := range []string{v3.ReadyCondition, v3.ProvisionedCondition} {
		copyOf(conditions, condition, meta.FindStatusCondition(s.Status.Conditions, condition))
	}
	available := meta.FindStatusCondition(controlPlane.Status.Conditions, rkev1.AvailableCondition)
	for _, condition := range []string{v3.ConnectedCondition, v3.AgentDeployedCondition} {
		copyOf(conditions, condition, available)
	}
	status.Version, status.Info.KubernetesVersion = nil, ""
	if versions := controlPlane.Status.Versions; len(versions) > 0 {
		status.Version = versionInfo(versions[0].Version)
	}
	if status.Version != nil {
		status.Info.KubernetesVersion = status.Version.GitVersion
	}
	if r.Totals == nil || controlPlane.Name == "" {
		return nil
	}
	totals, err := r.Totals.Totals(ctx, client.ObjectKeyFromObject(s))
	if err != nil {
		return err
	}
	if totals != nil { // while the cluster cannot be reached, its last totals stay
		status.NodeCount, status.LinuxWorkerCount = totals.Nodes, totals.LinuxWorkers
		status.Capacity, status.Allocatable = totals.Capacity, totals.Allocatable
		status.Info.Arch = totals.Arch
	}
	return nil
}

// copyOf copies a condition of another object.
func copyOf(conditions *step.Conditions, condition string, of *metav1.Condition) {
	if of == nil {
		conditions.Drop(condition)
		return
	}
	conditions.Copy(condition, *of)
}

// plainVersion matches the versions that are shown: an agent reports them.
var plainVersion = regexp.MustCompile(`^v([0-9]{1,4})[.]([0-9]{1,4})[.][0-9]{1,4}[-+.0-9A-Za-z]{0,40}$`)

func versionInfo(version string) *v3.VersionInfo {
	parts := plainVersion.FindStringSubmatch(version)
	if parts == nil {
		return nil
	}
	return &v3.VersionInfo{Major: parts[1], Minor: parts[2], GitVersion: version}
}

// machineProvider returns the driver of the first pool.
func machineProvider(obj *provv1.Cluster) string {
	const longest = 63
	for _, pool := range obj.Spec.RKEConfig.MachinePools {
		driver, _ := strings.CutSuffix(strings.ToLower(pool.MachineConfigRef.Kind), "config")
		if len(driver) <= longest {
			return driver
		}
	}
	return ""
}

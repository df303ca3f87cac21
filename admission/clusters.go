package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/provisioning"
	"github.com/drover-project/drover/provisioning/observe"
)

// ClustersPath is the path of the webhook Clusters.
const ClustersPath = "/validate-provisioning-cattle-io-v1-cluster"

// Clusters is the webhook for the specification of provisioning Clusters. It checks the parts that a
// schema cannot express: the configuration, as the webhook for RKEControlPlanes does, and names of
// labels. It warns of fields that have no effect, and of machines that are replaced or deleted. The
// renderer and the planner check again.
type Clusters struct {
	// Client reads the objects of the Cluster for the preview. Optional: without it, nothing is previewed.
	Client client.Client
	// Catalogue has the releases. Optional: without it, no version is checked.
	Catalogue Catalogue
	// Credentials finds the credentials of pools. Optional: without its reader, none is checked.
	Credentials credential.Source
}

var _ admission.Handler = (*Clusters)(nil)

// Handle implements admission.Handler.
func (h *Clusters) Handle(ctx context.Context, req admission.Request) admission.Response {
	obj, before := &provv1.Cluster{}, &provv1.Cluster{}
	if err := json.Unmarshal(req.Object.Raw, obj); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the Cluster: %w", err))
	}
	if len(req.OldObject.Raw) > 0 {
		if err := json.Unmarshal(req.OldObject.Raw, before); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("decoding the earlier Cluster: %w", err))
		}
	}
	if !obj.DeletionTimestamp.IsZero() {
		return admission.Allowed("")
	}
	if err := checkCluster(before, obj); err != nil {
		return admission.Denied(err.Error())
	}
	if err := h.checkRendered(ctx, before, obj); err != nil {
		return admission.Denied(err.Error())
	}
	warnings, err := h.checkVersion(ctx, before, obj)
	if err != nil {
		return admission.Denied(err.Error())
	}
	warnings = append(warnings, h.checkCredentials(ctx, before, obj)...)
	if fields := provisioning.NotActedOn(obj); len(fields) > 0 {
		warnings = append(warnings, "these fields of spec have no effect: "+shortened(fields))
	}
	if h.Client != nil && len(req.OldObject.Raw) > 0 {
		warnings = append(warnings, preview(ctx, h.Client, obj, nil)...)
	}
	return admission.Allowed("").WithWarnings(bounded(warnings)...)
}

// checkRendered rejects to take the annotation of the first rendering from a Cluster whose CAPI Cluster
// exists. Without it, Drover would create a second set of servers if the CAPI Cluster were missing later.
func (h *Clusters) checkRendered(ctx context.Context, before, after *provv1.Cluster) error {
	if h.Client == nil || before.Annotations[provv1.RenderedAnnotation] != after.Name || after.Annotations[provv1.RenderedAnnotation] == after.Name || before.Name == "" {
		return nil
	}
	capi := &clusterv1.Cluster{}
	err := h.Client.Get(ctx, client.ObjectKeyFromObject(before), capi)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading the CAPI Cluster %s: %w", before.Name, err)
	}
	return fmt.Errorf("the annotation %s cannot be removed while the CAPI Cluster %s exists: it prevents a second set of servers after a move or a restore", provv1.RenderedAnnotation, before.Name)
}

// maxWarnings is the largest number of warnings about one object. The API server cuts the warnings of a
// request after 4,096 characters.
const maxWarnings = 20

// bounded leaves out the warnings that are too many to read, and says so.
func bounded(warnings []string) []string {
	if len(warnings) <= maxWarnings {
		return warnings
	}
	return append(warnings[:maxWarnings-1:maxWarnings-1], fmt.Sprintf("and %d more warnings", len(warnings)-maxWarnings+1))
}

// shortened joins the first of many names.
func shortened(names []string) string {
	if len(names) <= maxWarnings {
		return strings.Join(names, ", ")
	}
	return strings.Join(names[:maxWarnings-1], ", ") + fmt.Sprintf(" and %d more", len(names)-maxWarnings+1)
}

// maxCredentials bounds the Secrets that are read for a request.
const maxCredentials = 10

// checkCredentials warns of credentials that a change names first and that the namespace cannot use. The
// machines of the pools wait for them, so the Cluster is allowed.
func (h *Clusters) checkCredentials(ctx context.Context, before, after *provv1.Cluster) []string {
	if h.Credentials.Reader == nil || after.Spec.RKEConfig == nil {
		return nil
	}
	earlier, pools := credentialsOf(before), credentialsOf(after)
	var warnings []string
	read := 0
	for _, name := range slices.Sorted(maps.Keys(pools)) {
		if _, known := earlier[name]; known || read == maxCredentials {
			continue
		}
		read++
		problem, err := credentialProblem(ctx, h.Credentials, credential.Parse(after.Namespace, name))
		if err != nil && problem == "" {
			ctrl.LoggerFrom(ctx).Info("A credential was not checked", "cluster", client.ObjectKeyFromObject(after), "reason", err.Error())
		}
		if problem != "" {
			warnings = append(warnings, "the machines of "+shortened(pools[name])+" wait: "+problem)
		}
	}
	return warnings
}

// credentialsOf returns the credentials of a Cluster with the pools that use each.
func credentialsOf(cluster *provv1.Cluster) map[string][]string {
	pools := map[string][]string{}
	if cluster.Spec.RKEConfig == nil {
		return pools
	}
	for _, pool := range cluster.Spec.RKEConfig.MachinePools {
		if name := cmp.Or(pool.CloudCredentialSecretName, cluster.Spec.CloudCredentialSecretName); name != "" {
			pools[name] = append(pools[name], "pool "+pool.Name)
		}
	}
	return pools
}

// checkVersion rejects a version that no server of the Cluster can get, unless the Cluster has it
// already or comes from a move or a restore. It returns the warnings that the Cluster's
// RKEControlPlane would get.
func (h *Clusters) checkVersion(ctx context.Context, before, after *provv1.Cluster) ([]string, error) {
	if h.Catalogue == nil || after.Spec.RKEConfig == nil || after.Spec.KubernetesVersion == "" {
		return nil, nil
	}
	catalogue, problem, err := h.Catalogue(ctx)
	if err != nil || problem != "" {
		return nil, nil //nolint:nilerr // a condition of the Cluster reports it
	}
	isNew := before.Name == "" && after.Annotations[provv1.RenderedAnnotation] != after.Name
	owner, running := h.running(ctx, before)
	if isNew || before.Name != "" && before.Spec.KubernetesVersion != after.Spec.KubernetesVersion {
		if err := planner.CheckVersion(catalogue, after.Spec.KubernetesVersion, owner, running); err != nil {
			return nil, belowConfig(err)
		}
	}
	var warnings []string
	for _, warning := range planner.Warnings(catalogue, &provisioning.ControlPlane(after).Spec, running) {
		warnings = append(warnings, inCluster(warning))
	}
	return warnings, nil
}

// running returns the versions of the Cluster's servers, and how a message names them. If the
// RKEControlPlane cannot be read, they are taken to run the earlier version of the Cluster.
func (h *Clusters) running(ctx context.Context, before *provv1.Cluster) (owner string, versions []string) {
	if before.Annotations[provv1.RenderedAnnotation] != before.Name || before.Spec.KubernetesVersion == "" {
		return "", nil
	}
	controlPlane := &rkev1.RKEControlPlane{}
	if h.Client == nil || h.Client.Get(ctx, client.ObjectKeyFromObject(before), controlPlane) != nil {
		return "the Cluster", []string{before.Spec.KubernetesVersion}
	}
	for _, one := range controlPlane.Status.Versions {
		versions = append(versions, one.Version)
	}
	return "a server", versions
}

// preview returns warnings about the machines that a change replaces or deletes, and about parts that
// are held back. config replaces the stored Config of its name; nil for none. An unreadable object
// gives no warning: the change is allowed anyway, and the Cluster's conditions report it.
func preview(ctx context.Context, c client.Client, cluster *provv1.Cluster, config *unstructured.Unstructured) []string {
	if cluster.Spec.RKEConfig == nil || cluster.Spec.RKEConfig.InfrastructureRef != nil || !cluster.DeletionTimestamp.IsZero() {
		return nil
	}
	capi := &clusterv1.Cluster{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(cluster), capi); err != nil {
		return nil // nothing is rendered yet
	}
	in, err := observe.Observer{Client: c}.Input(ctx, cluster, capi)
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("No preview of a change", "cluster", client.ObjectKeyFromObject(cluster), "reason", err.Error())
		return nil
	}
	for name, pool := range in.Pools {
		if config != nil && pool.Config != nil && pool.Config.GetKind() == config.GetKind() && pool.Config.GetName() == config.GetName() {
			pool.Config = config
			in.Pools[name] = pool
		}
	}
	return warningsOf(in)
}

// warningsOf returns warnings about the machines that a rendering replaces or deletes, and about parts
// that are held back.
func warningsOf(in provisioning.Input) []string {
	effects, out, err := provisioning.Preview(in)
	if err != nil {
		return nil // the Cluster's conditions report it
	}
	var warnings []string
	for _, effect := range effects {
		if effect.Replaced > 0 || effect.Removed > 0 {
			warnings = append(warnings, effect.String())
		}
	}
	if out.LosesData != "" {
		warnings = append(warnings, fmt.Sprintf("pool %s: its machine has the cluster's data (etcd), and the annotation %s allows to delete it: the data is lost, and Drover cannot restore it without a snapshot",
			out.LosesData, rkev1.EtcdForceRemoveAnnotation))
	} else if in.Cluster.Annotations[rkev1.EtcdForceRemoveAnnotation] == "true" {
		warnings = append(warnings, fmt.Sprintf("the annotation %s allows later changes to delete the machine with the cluster's data (etcd): remove it after use", rkev1.EtcdForceRemoveAnnotation))
	}
	for _, finding := range out.Findings {
		warnings = append(warnings, finding.String())
	}
	return warnings
}

// checkCluster returns why a Cluster is rejected. Errors about the configuration name the fields
// below rkeConfig.
func checkCluster(before, after *provv1.Cluster) error {
	config := after.Spec.RKEConfig
	if config == nil {
		return nil
	}
	controlPlane := provisioning.ControlPlane(after)
	if err := planner.CheckSpec(&controlPlane.Spec); err != nil {
		return belowConfig(err)
	}
	if before.Spec.RKEConfig != nil && before.Annotations[provv1.RenderedAnnotation] == before.Name {
		if err := planner.CheckChange(&provisioning.ControlPlane(before).Spec, &controlPlane.Spec); err != nil {
			return belowConfig(err)
		}
	}
	for _, pool := range config.MachinePools {
		for field, names := range map[string]map[string]string{
			"labels": pool.Labels, "machineDeploymentLabels": pool.MachineDeploymentLabels, "machineDeploymentAnnotations": pool.MachineDeploymentAnnotations,
		} {
			for _, name := range slices.Sorted(maps.Keys(names)) {
				if provv1.IsReserved(name) {
					return fmt.Errorf("spec.rkeConfig.machinePools[%s].%s has %s: only Drover and Cluster API set names of cattle.io and cluster.x-k8s.io, so use another prefix", pool.Name, field, name)
				}
			}
		}
	}
	return checkHosts(config.MachinePools)
}

// checkHosts rejects pools with more than one machine for a Config that names one host: each further
// machine would wait forever for the host (HostTaken).
func checkHosts(pools []provv1.MachinePool) error {
	used := map[provv1.ConfigReference]bool{}
	for i := range pools {
		pool := &pools[i]
		ref := pool.MachineConfigRef
		field, machines := "quantity", ptr.Deref(pool.Quantity, 1)
		if pool.AutoscalingMaxSize != nil {
			field, machines = "autoscalingMaxSize", *pool.AutoscalingMaxSize
		}
		if !provisioning.TakesHosts(pool) || machines < 1 {
			continue
		}
		const remedy = "names one host, which has room for one machine: use a pool with a %s of its own for each host"
		if machines > 1 {
			return fmt.Errorf("spec.rkeConfig.machinePools[%s].%s is %d, but %s %s "+remedy, pool.Name, field, machines, ref.Kind, ref.Name, ref.Kind)
		}
		key := provv1.ConfigReference{Kind: ref.Kind, Name: ref.Name}
		if used[key] {
			return fmt.Errorf("spec.rkeConfig.machinePools[%s].machineConfigRef names %s %s, as another pool does. It "+remedy, pool.Name, ref.Kind, ref.Name, ref.Kind)
		}
		used[key] = true
	}
	return nil
}

// belowConfig names the fields of an RKEControlPlane as a Cluster has them.
func belowConfig(err error) error { return errors.New(inCluster(err.Error())) }

// inCluster names the field at the beginning of a text about an RKEControlPlane as a Cluster has it.
func inCluster(text string) string {
	if rest, found := strings.CutPrefix(text, "spec."); found {
		return "spec." + provisioning.Path(rest)
	}
	return text
}

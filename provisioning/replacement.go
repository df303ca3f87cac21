package provisioning

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
)

// replacement is the change of a pool's machine template that replaces its machines.
type replacement struct {
	pool     string
	machines int32
	changes  []string
	// from and to are the templates.
	from, to string
}

// replacements returns the replacements that the Configs ask for, in the order of the pools. The
// machine with the cluster's data is replaced only if the user forces it.
func (r *renderer) replacements() ([]replacement, error) {
	var all []replacement
	for i := range r.Cluster.Spec.RKEConfig.MachinePools {
		pool := &r.Cluster.Spec.RKEConfig.MachinePools[i]
		in := r.Pools[pool.Name]
		if in.Deployment == nil || in.Config == nil || in.Refused != nil || pool.Name == r.founder && !r.isForced() || r.unsupported(pool) != nil {
			continue
		}
		machines := max(ptr.Deref(in.Deployment.Spec.Replicas, 0), ptr.Deref(in.Deployment.Status.Replicas, 0))
		template, err := machineTemplate(r.Cluster, pool, in)
		if err != nil {
			return nil, err
		}
		used := in.Deployment.Spec.Template.Spec.InfrastructureRef
		from, to := used.Kind+"/"+used.Name, template.GetKind()+"/"+template.GetName()
		if machines > 0 && from != to {
			all = append(all, replacement{pool: pool.Name, machines: machines, changes: changes(in), from: from, to: to})
		}
	}
	return all, nil
}

// Bounds of the described changes: the Cluster's status has to fit into one object.
const (
	// maxShown is the longest value of an option that is shown.
	maxShown = 40
	// maxChanges is the largest number of options of a pool that are named.
	maxChanges = 20
	// maxDetailed is the largest number of pools whose options are in the status.
	maxDetailed = 50
)

// changes describes the options for which a pool's machines are replaced. It shows a value only if it is
// short, and if neither the driver's fields nor its name says that it is a secret.
func changes(in PoolInput) []string {
	if in.Template == nil || in.Template.GetKind() != TemplateKind(in.Config.GetKind()) {
		return []string{"the kind of the Config"}
	}
	was, is := templateOptions(in.Template), Options(in.Config)
	names := changedOptions(in)
	for i, name := range names {
		field, known := in.Fields[name]
		if !known || field.Secret || field.File || field.Credential != "" || soundsSecret(name) {
			continue
		}
		if from, to := shown(was[name]), shown(is[name]); from != "" && to != "" {
			names[i] = name + " from " + from + " to " + to
		}
	}
	if more := len(names) - maxChanges; more > 0 {
		names = append(names[:maxChanges], fmt.Sprintf("%d more options", more))
	}
	return names
}

// soundsSecret reports whether the name of an option is one of a secret. The author of a driver may not
// have listed the option as a password.
func soundsSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"pass", "secret", "token", "key", "cred", "userdata", "cloudinit"}, func(part string) bool { return strings.Contains(name, part) })
}

// shown returns a value as a word; empty if it is too long for a sentence, or may be an address with a
// password.
func shown(value any) string {
	if value == nil {
		return "none"
	}
	text := fmt.Sprint(value)
	if len(text) > maxShown || strings.Contains(text, "@") || strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}

// pendingID identifies a set of replacements: an approval names it.
func pendingID(all []replacement) string {
	sum := sha256.New()
	for _, one := range all {
		sum.Write([]byte(one.pool + "\x00" + one.from + "\x00" + one.to + "\x00"))
	}
	return hex.EncodeToString(sum.Sum(nil)[:4])
}

// decideReplacements decides whether the machines are replaced now. If not, it reports what waits.
func (r *renderer) decideReplacements() error {
	policy := r.Cluster.Spec.RKEConfig.MachineReplacement
	if policy == "" || policy == provv1.ReplaceAutomatically {
		return nil
	}
	all, err := r.replacements()
	if err != nil || len(all) == 0 {
		return err
	}
	pending := &provv1.PendingReplacement{ID: pendingID(all)}
	if policy == provv1.ReplaceOnApproval && r.Cluster.Annotations[provv1.ApproveReplacementAnnotation] == pending.ID {
		return nil
	}
	r.waits = map[string]bool{}
	for i, one := range all {
		waits := provv1.PendingPool{Name: one.pool, Machines: one.machines}
		if i < maxDetailed {
			waits.Changes = one.changes
		}
		pending.Pools = append(pending.Pools, waits)
		r.waits[one.pool] = true
	}
	r.out.Pending = pending
	return nil
}

// keptTemplate returns a reference to the template that a MachineDeployment uses.
func keptTemplate(in PoolInput) *unstructured.Unstructured {
	used := in.Deployment.Spec.Template.Spec.InfrastructureRef
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(machineGroup.WithKind(used.Kind))
	template.SetName(used.Name)
	return template
}

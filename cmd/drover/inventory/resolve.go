package inventory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Target is the object that a user's NAME resolves to.
type Target struct {
	// Machine is nil when only a CAPI Machine has the name.
	Machine *facts.Machine
	// CAPIMachine that owns Machine or, while none does, names it; else the one that has the name;
	// may be nil.
	CAPIMachine *clusterv1.Machine
	// MissingKind is the kind CAPIMachine refers to when its machine does not exist.
	MissingKind string
}

// NotFoundError means that a name resolves to nothing.
type NotFoundError struct {
	Name, Namespace string
	// Others are objects with this name and another kind than the requested one.
	Others []string
	// Elsewhere lists namespaces that have a machine of that name.
	Elsewhere []string
	// KindsKnown is false when no driver is active.
	KindsKnown bool
	// Unseen lists the parts that the user is not allowed to read; the name may exist there. Empty
	// if nothing was refused.
	Unseen string
	// Command is how the CLI is called, for advice.
	Command string
}

// Error implements error.
func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("no machine %q in namespace %q", e.Name, e.Namespace)
	command := cmp.Or(e.Command, "drover")
	switch {
	case len(e.Others) > 0:
		return text + "; the name belongs to " + strings.Join(e.Others, ", ")
	case e.Unseen != "" && len(e.Elsewhere) == 0:
		return fmt.Sprintf("cannot determine whether machine %q exists in namespace %q: %s", e.Name, e.Namespace, e.Unseen)
	case len(e.Elsewhere) > 0:
		text += "; there is one in namespace " + strings.Join(e.Elsewhere, ", ") + " (use -n)"
	case !e.KindsKnown:
		text += fmt.Sprintf("; no driver is active in this cluster (see '%s get drivers')", command)
	default:
		text += fmt.Sprintf(" (see '%s get -A')", command)
	}
	if e.Unseen != "" {
		text += "; what could not be looked at here: " + e.Unseen
	}
	return text
}

// UnknownKindError means that the word before a name is not a kind of machines.
type UnknownKindError struct {
	Word string
	// Known are the kinds that there are.
	Known []string
}

// Error implements error.
func (e *UnknownKindError) Error() string {
	return fmt.Sprintf("no kind of machines is called %q; this cluster has %s", e.Word, strings.Join(e.Known, ", "))
}

// Resolve resolves NAME to an infra machine or a CAPI Machine; NAME has the form name or kind/name.
func (a *API) Resolve(ctx context.Context, namespace, ref string) (Target, error) {
	kinds, err := a.Kinds(ctx)
	if err != nil {
		return Target{}, err
	}
	r := &resolving{API: a, kinds: kinds, namespace: namespace, ref: ref}
	if r.word, r.name, err = splitRef(ref, kinds); err != nil {
		return Target{}, err
	}
	machines, err := r.named(ctx)
	if err != nil {
		return Target{}, err
	}
	var capi *clusterv1.Machine
	if r.word == "" || facts.IsCAPIMachineWord(r.word) {
		if capi, machines, err = r.owner(ctx, machines); err != nil {
			return Target{}, err
		}
	}
	target, err := r.join(ctx, machines, capi)
	if err != nil || target.Machine != nil || target.CAPIMachine != nil {
		return target, err
	}
	// The name means nothing that the user may see.
	others, err := r.others(ctx)
	if err != nil {
		return Target{}, err
	}
	nothing := &NotFoundError{Name: ref, Namespace: namespace, Others: others, Elsewhere: r.elsewhere(ctx), KindsKnown: len(kinds) > 0}
	if len(r.unseen) > 0 {
		nothing.Unseen = Plain(joinRefusals(r.unseen))
	}
	return target, nothing
}

// resolving is the search for one NAME.
type resolving struct {
	*API

	kinds []facts.Kind
	// namespace and ref are the user's input; word is the kind in ref, empty for a bare name.
	namespace, ref, word, name string
	// unseen are refusals that do not end the search.
	unseen []error
}

// CheckName validates the name of an object that a user wrote.
func CheckName(name string) error {
	if name == "" {
		return errors.New("a name is empty: write NAME or KIND/NAME")
	}
	if problems := content.IsPathSegmentName(name); len(problems) > 0 {
		return fmt.Errorf("%q is not a valid name: it %s", name, strings.Join(problems, ", "))
	}
	return nil
}

// splitRef takes kind/name apart; the word of a bare name is empty.
func splitRef(ref string, kinds []facts.Kind) (word, name string, err error) {
	word, name, qualified := strings.Cut(ref, "/")
	if !qualified {
		return "", ref, CheckName(ref)
	}
	if name == "" {
		return "", "", CheckName(name)
	}
	if !facts.IsCAPIMachineWord(word) && !slices.ContainsFunc(kinds, func(k facts.Kind) bool { return k.Matches(word) }) {
		known := []string{"machine"}
		for _, kind := range kinds {
			known = append(known, kind.Singular)
		}
		return "", "", &UnknownKindError{Word: word, Known: known}
	}
	return word, name, CheckName(name)
}

// owner gets the CAPI Machine of a name; when neither it nor a machine is there, the machines it
// once had.
func (r *resolving) owner(ctx context.Context, machines []*facts.Machine) (*clusterv1.Machine, []*facts.Machine, error) {
	capi, err := get[clusterv1.Machine](ctx, r.API, capiMachines, r.namespace, r.name)
	if r.word == "" || len(machines) > 0 {
		// The user asked for the machine; an owner that the user cannot read is ignored.
		err = r.passOver(err)
	}
	if err != nil || capi != nil || len(machines) > 0 || len(validation.IsValidLabelValue(r.name)) > 0 {
		return capi, machines, err
	}
	// Of a CAPI Machine that is gone, the name is the one its users know.
	machines, _, err = r.Machines(ctx, r.kinds, ListOptions{Namespace: r.namespace, Selector: labels.Set{rkev1.CAPIMachineLabel: r.name}.String()})
	return nil, machines, r.passOver(err)
}

// passOver keeps a refusal for the end of the search; any other error is returned.
func (r *resolving) passOver(err error) error {
	if apierrors.IsForbidden(err) {
		r.unseen = append(r.unseen, err)
		return nil
	}
	return err
}

// named gets the machines of a name in every kind that word allows; an empty word allows all.
func (r *resolving) named(ctx context.Context) ([]*facts.Machine, error) {
	kinds := slices.DeleteFunc(slices.Clone(r.kinds), func(k facts.Kind) bool { return r.word != "" && !k.Matches(r.word) })
	found, errs := ofEach(kinds, func(kind facts.Kind) (*facts.Machine, error) { return r.Machine(ctx, kind, r.namespace, r.name) })
	var machines []*facts.Machine
	for i, err := range errs {
		if err := r.passOver(err); err != nil {
			return nil, err
		}
		if found[i] != nil {
			machines = append(machines, found[i])
		}
	}
	return machines, nil
}

// join combines the objects found under the name with the objects that belong to them.
func (r *resolving) join(ctx context.Context, machines []*facts.Machine, capi *clusterv1.Machine) (Target, error) {
	missing := ""
	if capi != nil {
		referred, err := r.referred(ctx, capi)
		switch {
		case err != nil:
			return Target{}, err
		case referred == nil:
			missing = capi.Spec.InfrastructureRef.Kind
		case !slices.ContainsFunc(machines, func(m *facts.Machine) bool { return m.UID == referred.UID }):
			machines = append(machines, referred)
		}
	}
	if len(machines) > 1 {
		var candidates []string
		for _, m := range machines {
			candidates = append(candidates, m.Ref())
		}
		slices.Sort(candidates)
		return Target{}, fmt.Errorf("%q may be any of %s; say which by writing it in full", r.ref, strings.Join(candidates, ", "))
	}
	if len(machines) == 0 {
		return Target{CAPIMachine: capi, MissingKind: missing}, nil
	}
	owner, err := r.ownerOf(ctx, machines[0], capi)
	return Target{Machine: machines[0], CAPIMachine: owner}, err
}

// referred gets the machine that a CAPI Machine refers to; nil when it is missing, or another
// provider's.
func (r *resolving) referred(ctx context.Context, capi *clusterv1.Machine) (*facts.Machine, error) {
	ref := capi.Spec.InfrastructureRef
	at := slices.IndexFunc(r.kinds, func(k facts.Kind) bool { return k.Name == ref.Kind })
	if at < 0 || ref.APIGroup != rkev1.MachineGroupVersion.Group {
		return nil, nil
	}
	return r.Machine(ctx, r.kinds[at], capi.Namespace, ref.Name)
}

// ownerOf is the CAPI Machine that owns m or, while none does, names it; known is used when it is
// the one.
func (a *API) ownerOf(ctx context.Context, m *facts.Machine, known *clusterv1.Machine) (*clusterv1.Machine, error) {
	name := m.CAPIMachineName()
	var owner *clusterv1.Machine
	var err error
	switch {
	case known != nil && (known.Name == name || name == "" && m.IsNamedBy(known)):
		return known, nil
	case name == "":
		var machines []clusterv1.Machine
		machines, err = list(ctx, a, capiMachines, ListOptions{Namespace: m.Namespace}, decode[clusterv1.Machine])
		if at := slices.IndexFunc(machines, func(machine clusterv1.Machine) bool { return m.IsNamedBy(&machine) }); at >= 0 {
			owner = &machines[at]
		}
	default:
		owner, err = get[clusterv1.Machine](ctx, a, capiMachines, m.Namespace, name)
	}
	if apierrors.IsForbidden(err) || isAbsent(err) {
		return nil, nil
	}
	return owner, err
}

// pools are the kind that word says, MachineDeployment or MachineSet, and the label of their
// machines.
func pools(word string) (label string, resource schema.GroupVersionResource) {
	if word = strings.ToLower(word); word == "ms" || strings.HasPrefix(word, "machineset") {
		return clusterv1.MachineSetNameLabel, machineSets
	}
	return clusterv1.MachineDeploymentNameLabel, deployments
}

// CAPIMachinesOf lists the names of the CAPI Machines of a MachineDeployment or MachineSet, which
// word says.
func (a *API) CAPIMachinesOf(ctx context.Context, namespace, word, name string) ([]string, error) {
	label, resource := pools(word)
	if _, err := a.Dynamic.Resource(resource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
		return nil, fmt.Errorf("getting %s %s/%s: %w", resource.Resource, namespace, name, err)
	}
	return a.names(ctx, capiMachines, ListOptions{Namespace: namespace, Selector: labels.Set{label: name}.String()})
}

// others looks for the name among the kinds that word does not allow, as far as the user may.
func (r *resolving) others(ctx context.Context) ([]string, error) {
	if r.word == "" {
		return nil, nil
	}
	kinds := slices.DeleteFunc(slices.Clone(r.kinds), func(k facts.Kind) bool { return k.Matches(r.word) })
	other := &resolving{API: r.API, kinds: kinds, namespace: r.namespace, name: r.name}
	machines, err := other.named(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, m := range machines {
		found = append(found, m.Ref())
	}
	slices.Sort(found)
	capi, err := get[clusterv1.Machine](ctx, r.API, capiMachines, r.namespace, r.name)
	if capi != nil {
		found = append(found, "machine."+clusterv1.GroupVersion.Group+"/"+r.name)
	}
	if apierrors.IsForbidden(err) {
		err = nil
	}
	return found, err
}

// elsewhere looks for the name in all namespaces, as far as the user may.
func (r *resolving) elsewhere(ctx context.Context) []string {
	var resources []schema.GroupVersionResource
	for _, kind := range r.kinds {
		if r.word == "" || kind.Matches(r.word) {
			resources = append(resources, ResourceOf(kind))
		}
	}
	if r.word == "" || facts.IsCAPIMachineWord(r.word) {
		resources = append(resources, capiMachines)
	}
	var namespaces []string
	for _, resource := range resources {
		found, _ := list(ctx, r.API, resource, ListOptions{name: r.name}, func(u *unstructured.Unstructured) (string, error) { return u.GetNamespace(), nil })
		namespaces = append(namespaces, found...)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces)
}

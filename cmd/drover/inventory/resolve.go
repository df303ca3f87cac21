package inventory

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/facts"
)

// Target is what a user's NAME means.
type Target struct {
	// Machine is nil when only a CAPI Machine has the name.
	Machine *facts.Machine
	// CAPIMachine that owns Machine, or has the name; may be nil.
	CAPIMachine *clusterv1.Machine
	// MissingKind is the kind CAPIMachine refers to when its machine does not exist.
	MissingKind string
}

// AmbiguousError tells that a name means several machines.
type AmbiguousError struct {
	Name       string
	Candidates []string
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%q may be any of %s; say which by writing it in full", e.Name, strings.Join(e.Candidates, ", "))
}

// NotFoundError tells that a name means nothing.
type NotFoundError struct {
	Name, Namespace string
	// Elsewhere lists namespaces that have a machine of that name.
	Elsewhere []string
	// KindsKnown is false when no driver is active.
	KindsKnown bool
}

// Error implements error.
func (e *NotFoundError) Error() string {
	text := fmt.Sprintf("no machine %q in namespace %q", e.Name, e.Namespace)
	switch {
	case len(e.Elsewhere) > 0:
		return text + "; there is one in namespace " + strings.Join(e.Elsewhere, ", ") + " (use -n)"
	case !e.KindsKnown:
		return text + "; no driver is active in this cluster (see 'get drivers')"
	default:
		return text + " (see 'get -A')"
	}
}

// Resolve finds what NAME means: an infra machine or a CAPI Machine, in the form name or kind/name.
func (a *API) Resolve(ctx context.Context, namespace, ref string) (Target, error) {
	kinds, err := a.Kinds()
	if err != nil {
		return Target{}, err
	}
	word, name, err := splitRef(ref, kinds)
	if err != nil {
		return Target{}, err
	}
	machines, err := a.named(ctx, kinds, namespace, word, name)
	if err != nil {
		return Target{}, err
	}
	var capi *clusterv1.Machine
	if word == "" || facts.IsCAPIMachineWord(word) {
		capi, machines, err = a.owner(ctx, kinds, machines, namespace, name)
	}
	if err != nil {
		return Target{}, err
	}
	target, err := a.join(ctx, kinds, machines, capi)
	if err == nil && target.Machine == nil && target.CAPIMachine == nil {
		err = &NotFoundError{Name: ref, Namespace: namespace, Elsewhere: a.elsewhere(ctx, kinds, word, name), KindsKnown: len(kinds) > 0}
	}
	return target, err
}

// splitRef takes kind/name apart; the word of a bare name is empty.
func splitRef(ref string, kinds []facts.Kind) (word, name string, err error) {
	word, name, qualified := strings.Cut(ref, "/")
	if !qualified {
		return "", ref, nil
	}
	if !facts.IsCAPIMachineWord(word) && !slices.ContainsFunc(kinds, func(k facts.Kind) bool { return k.Matches(word) }) {
		return "", "", fmt.Errorf("no kind of machines is called %q; this cluster has %s", word, kindNames(kinds))
	}
	return word, name, nil
}

// owner gets the CAPI Machine of a name; when neither it nor a machine is there, the machines it once had.
func (a *API) owner(ctx context.Context, kinds []facts.Kind, machines []*facts.Machine, namespace, name string) (*clusterv1.Machine, []*facts.Machine, error) {
	capi, err := a.CAPIMachine(ctx, namespace, name)
	if apierrors.IsForbidden(err) && len(machines) > 0 {
		// The machine is what was asked for; its owner is of use only to who may see it.
		return nil, machines, nil
	}
	if err != nil || capi != nil || len(machines) > 0 {
		return capi, machines, err
	}
	machines, err = a.owned(ctx, kinds, namespace, name)
	return nil, machines, err
}

// named gets the machines of a name in every kind that word allows; an empty word allows all.
func (a *API) named(ctx context.Context, kinds []facts.Kind, namespace, word, name string) ([]*facts.Machine, error) {
	var machines []*facts.Machine
	var errs []error
	for _, kind := range kinds {
		if word != "" && !kind.Matches(word) {
			continue
		}
		m, err := a.Machine(ctx, kind, namespace, name)
		if err != nil {
			errs = append(errs, err)
		}
		if m != nil {
			machines = append(machines, m)
		}
	}
	if len(errs) > 0 && (len(machines) == 0 || !onlyForbidden(errs)) {
		return nil, errs[0]
	}
	return machines, nil
}

// owned lists the machines of a CAPI Machine that is gone: the name is the one its users know.
func (a *API) owned(ctx context.Context, kinds []facts.Kind, namespace, name string) ([]*facts.Machine, error) {
	if len(kinds) == 0 || len(validation.IsValidLabelValue(name)) > 0 {
		return nil, nil
	}
	machines, _, err := a.Machines(ctx, kinds, ListOptions{Namespace: namespace, Selector: labels.Set{rkev1.CAPIMachineLabel: name}.String()})
	return machines, err
}

// join puts what was found under the name together with what belongs to it.
func (a *API) join(ctx context.Context, kinds []facts.Kind, machines []*facts.Machine, capi *clusterv1.Machine) (Target, error) {
	missing := ""
	if capi != nil {
		referred, err := a.infraOf(ctx, kinds, capi)
		if err != nil {
			return Target{}, err
		}
		switch {
		case referred == nil:
			missing = capi.Spec.InfrastructureRef.Kind
		case !slices.ContainsFunc(machines, func(m *facts.Machine) bool { return m.UID == referred.UID }):
			machines = append(machines, referred)
		}
	}
	if len(machines) > 1 {
		return Target{}, ambiguous(machines)
	}
	if len(machines) == 0 {
		return Target{CAPIMachine: capi, MissingKind: missing}, nil
	}
	owner, err := a.ownerOf(ctx, machines[0], capi)
	return Target{Machine: machines[0], CAPIMachine: owner}, err
}

// infraOf gets the machine a CAPI Machine refers to; nil when it is missing or of another provider.
func (a *API) infraOf(ctx context.Context, kinds []facts.Kind, capi *clusterv1.Machine) (*facts.Machine, error) {
	ref := capi.Spec.InfrastructureRef
	if ref.APIGroup != rkev1.MachineGroupVersion.Group {
		return nil, nil
	}
	for _, kind := range kinds {
		if kind.Name == ref.Kind {
			return a.Machine(ctx, kind, capi.Namespace, ref.Name)
		}
	}
	return nil, nil
}

// ownerOf is the CAPI Machine that owns m; known is used when it is the one.
func (a *API) ownerOf(ctx context.Context, m *facts.Machine, known *clusterv1.Machine) (*clusterv1.Machine, error) {
	name := m.CAPIMachineName()
	if name == "" {
		return nil, nil
	}
	if known != nil && known.Name == name {
		return known, nil
	}
	owner, err := a.CAPIMachine(ctx, m.Namespace, name)
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	return owner, err
}

// CAPIMachine gets a CAPI Machine; nil when it does not exist.
func (a *API) CAPIMachine(ctx context.Context, namespace, name string) (*clusterv1.Machine, error) {
	machine := &clusterv1.Machine{}
	found, err := a.getInto(ctx, capiMachines, namespace, name, machine)
	if err != nil || !found {
		return nil, err
	}
	return machine, nil
}

// elsewhere looks in all namespaces, as far as the user may.
func (a *API) elsewhere(ctx context.Context, kinds []facts.Kind, word, name string) []string {
	var namespaces []string
	for _, kind := range kinds {
		if word != "" && !kind.Matches(word) {
			continue
		}
		list, err := a.Dynamic.Resource(ResourceOf(kind)).List(ctx, byName(name))
		if err != nil {
			continue
		}
		for i := range list.Items {
			// Not every server filters by name, so look again.
			if list.Items[i].GetName() == name && !slices.Contains(namespaces, list.Items[i].GetNamespace()) {
				namespaces = append(namespaces, list.Items[i].GetNamespace())
			}
		}
	}
	slices.Sort(namespaces)
	return namespaces
}

func ambiguous(machines []*facts.Machine) error {
	e := &AmbiguousError{Name: machines[0].Name}
	for _, m := range machines {
		e.Candidates = append(e.Candidates, m.Ref())
	}
	slices.Sort(e.Candidates)
	return e
}

func kindNames(kinds []facts.Kind) string {
	names := []string{"machine"}
	for _, kind := range kinds {
		names = append(names, kind.Singular)
	}
	return strings.Join(names, ", ")
}

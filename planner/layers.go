package planner

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// selector picks machines by their labels. It is parsed once, and asked for each machine.
type selector struct {
	where  string
	parsed labels.Selector
	err    error
}

// newSelector parses one; without any all machines are picked.
func newSelector(where string, given *metav1.LabelSelector) *selector {
	s := &selector{where: where, parsed: labels.Everything()}
	if given == nil {
		return s
	}
	var err error
	if s.parsed, err = metav1.LabelSelectorAsSelector(given); err != nil {
		s.err = fmt.Errorf("%s: its selector: %s", where, plan.Head(oneLine(err.Error()), 300))
	}
	return s
}

func (s *selector) matches(set map[string]string) (bool, error) {
	return s.err == nil && s.parsed.Matches(labels.Set(set)), s.err
}

// layer is the configuration of the machines that a selector picks.
type layer struct {
	where     string
	selector  *selector
	arguments []argument
}

// argument is one of a layer, or why it is none. The value is shared by all machines, and never changed.
type argument struct {
	name  string
	value any
	err   error
}

func newLayer(where string, selector *selector, config rkev1.Config) layer {
	l := layer{where: where, selector: selector}
	for _, name := range slices.Sorted(maps.Keys(config)) {
		one := argument{name: name}
		if !key.MatchString(name) {
			one.err = fmt.Errorf("%.60q is no name of an argument", name)
		} else if one.value, one.err = decode(config[name]); one.err != nil {
			one.err = fmt.Errorf("%s %w", name, one.err)
		}
		l.arguments = append(l.arguments, one)
	}
	return l
}

func (l layer) value(name string) (value any, given bool) {
	at := slices.IndexFunc(l.arguments, func(a argument) bool { return a.name == name })
	if at < 0 {
		return nil, false
	}
	return l.arguments[at].value, true
}

const (
	// maxRequirements bounds what all selectors ask for together, and maxArguments the arguments of all layers.
	maxRequirements = 2000
	maxArguments    = 2000
)

// bounded refuses a specification that would cost more than any cluster needs, for each machine is looked at with all of it; then it reads it.
func (p *planner) bounded() *fault {
	if len(NewUses(p.Spec)) > MaxReferences {
		return because(rkev1.ReferencesExceededReason, "spec names more than %d Secrets and ConfigMaps in registries, machineSelectorFiles and etcd, and no more are read", MaxReferences)
	}
	if key := p.TooLarge; key != nil {
		return because(rkev1.ReferencesExceededReason, "what is used of the Secrets and ConfigMaps that spec names has more than %d bytes with the %s %.100q", MaxObjectBytes, key.Kind, key.Name)
	}
	requirements, arguments := 0, len(p.Spec.MachineGlobalConfig)
	ask := func(s *metav1.LabelSelector) {
		if s != nil {
			requirements += len(s.MatchLabels) + len(s.MatchExpressions)
		}
	}
	for _, entry := range p.Spec.MachineSelectorConfig {
		ask(entry.MachineLabelSelector)
		arguments += len(entry.Config)
	}
	for _, entry := range p.Spec.MachineSelectorFiles {
		ask(entry.MachineLabelSelector)
	}
	switch {
	case requirements > maxRequirements:
		return because(rkev1.ConfigInvalidReason, "the selectors of spec.machineSelectorConfig and spec.machineSelectorFiles ask for %d labels, and at most %d are looked at", requirements, maxRequirements)
	case arguments > maxArguments:
		return because(rkev1.ConfigInvalidReason, "spec.machineGlobalConfig and spec.machineSelectorConfig have %d arguments, and at most %d are looked at", arguments, maxArguments)
	}
	p.layers = []layer{newLayer("spec.machineGlobalConfig", newSelector("spec.machineGlobalConfig", nil), p.Spec.MachineGlobalConfig)}
	for i, entry := range p.Spec.MachineSelectorConfig {
		where := fmt.Sprintf("spec.machineSelectorConfig[%d]", i)
		p.layers = append(p.layers, newLayer(where+".config", newSelector(where, entry.MachineLabelSelector), entry.Config))
	}
	for i, entry := range p.Spec.MachineSelectorFiles {
		p.files = append(p.files, newSelector(fmt.Sprintf("spec.machineSelectorFiles[%d]", i), entry.MachineLabelSelector))
	}
	return nil
}

// warnOfSelector tells of a selector that matches no machine. One that is wrong stops each machine, and is told there.
func (p *planner) warnOfSelector(s *selector) {
	for i := range p.Machines {
		if matches, err := s.matches(p.Machines[i].Labels); matches || err != nil {
			return
		}
	}
	p.warn("%s: its selector matches no machine", s.where)
}

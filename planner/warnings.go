package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// Warnings are the warnings about the version and the arguments of a specification, before a machine
// exists. running are the versions of the cluster's servers. Without a catalogue it returns none.
func Warnings(catalogue *releases.Catalogue, spec *rkev1.RKEControlPlaneSpec, running []string) []string {
	if catalogue == nil || spec.KubernetesVersion == "" || checkBounds(spec) != nil {
		return nil
	}
	release, err := lookup(catalogue, spec.KubernetesVersion)
	if err != nil {
		return []string{fmt.Sprintf("%v. No server gets a plan with it (%s)", err, rkev1.KubernetesVersionUnknownReason)}
	}
	p := &planner{Cluster: Cluster{Spec: *spec}, release: release, warnings: map[string]bool{}, suggested: map[string]string{}}
	if !release.Listed {
		p.warn(notListed, release.Version)
	}
	for _, runs := range running {
		if err := checkSkew(release, "a server", runs); err != nil {
			p.warn("%v (%s)", err, rkev1.KubernetesVersionSkewReason)
		}
	}
	p.warnOfArguments("spec.machineGlobalConfig", spec.MachineGlobalConfig)
	for i, entry := range spec.MachineSelectorConfig {
		p.warnOfArguments(fmt.Sprintf("spec.machineSelectorConfig[%d].config", i), entry.Config)
	}
	return p.warned()
}

// CheckVersion returns an error if the catalogue does not have the version, or if a server cannot go
// to it from its present version. running are the versions of the servers, and owner names what
// runs them in errors.
func CheckVersion(catalogue *releases.Catalogue, wanted, owner string, running []string) error {
	release, err := lookup(catalogue, wanted)
	if err != nil {
		return err
	}
	for _, runs := range running {
		if err := checkSkew(release, owner, runs); err != nil {
			return err
		}
	}
	return nil
}

func lookup(catalogue *releases.Catalogue, wanted string) (*releases.Release, error) {
	release, err := catalogue.Lookup(wanted)
	if err != nil {
		return nil, fmt.Errorf("spec.kubernetesVersion: %w", err)
	}
	return release, nil
}

// notActedOn are the fields of a control plane that are kept and have no effect yet.
var notActedOn = []struct {
	field string
	given func(*rkev1.RKEControlPlaneSpec) bool
}{
	{"localClusterAuthEndpoint", func(s *rkev1.RKEControlPlaneSpec) bool { return s.LocalClusterAuthEndpoint.Enabled }},
	{"etcdSnapshotCreate", func(s *rkev1.RKEControlPlaneSpec) bool { return s.ETCDSnapshotCreate != nil }},
	{"etcdSnapshotRestore", func(s *rkev1.RKEControlPlaneSpec) bool { return s.ETCDSnapshotRestore != nil }},
	{"rotateCertificates", func(s *rkev1.RKEControlPlaneSpec) bool { return s.RotateCertificates != nil }},
	{"rotateEncryptionKeys", func(s *rkev1.RKEControlPlaneSpec) bool { return s.RotateEncryptionKeys != nil }},
	{"dataDirectories.provisioning", func(s *rkev1.RKEControlPlaneSpec) bool { return s.DataDirectories.Provisioning != "" }},
	{"upgradeStrategy.controlPlaneDrainOptions", func(s *rkev1.RKEControlPlaneSpec) bool { return s.UpgradeStrategy.ControlPlaneDrainOptions.Enabled }},
	{"upgradeStrategy.workerDrainOptions", func(s *rkev1.RKEControlPlaneSpec) bool { return s.UpgradeStrategy.WorkerDrainOptions.Enabled }},
}

// FieldsNotActedOn returns all fields that NotActedOn may return.
func FieldsNotActedOn() []string {
	fields := make([]string, len(notActedOn))
	for i, f := range notActedOn {
		fields[i] = f.field
	}
	return fields
}

// NotActedOn returns the fields of a control plane that are set and have no effect yet, below spec.
func NotActedOn(spec *rkev1.RKEControlPlaneSpec) []string {
	var fields []string
	for _, f := range notActedOn {
		if f.given(spec) {
			fields = append(fields, f.field)
		}
	}
	return fields
}

const notListed = "%s is not in the catalogue of releases; Drover installs it with the data of other releases of its minor version"

func (p *planner) warnOfArguments(where string, config rkev1.Config) {
	for _, name := range slices.Sorted(maps.Keys(config)) {
		name = strings.TrimSuffix(name, "+")
		if !slices.Contains(owned, name) && p.release.Argument(name, true) == releases.Unknown && p.release.Argument(name, false) == releases.Unknown {
			p.warnUnknown(where, name)
		}
	}
}

// warnUnknown warns of an argument that the release does not know. It looks for a near one once.
func (p *planner) warnUnknown(where, name string) {
	hint, known := p.suggested[name]
	if !known {
		hint = "."
		if nearest := p.release.Nearest(name); nearest != "" {
			hint = ": did you mean " + nearest + "?"
		}
		p.suggested[name] = hint
	}
	p.warn("%s: %.100s is not a known argument of %s%s It is passed on unchanged, and %s may not start with it",
		where, name, p.release.Version, hint, p.release.Distribution)
}

// checkSkew returns an error if a server cannot go from its version to the release.
func checkSkew(wanted *releases.Release, server, running string) error {
	runs, err := version.ParseSemantic(running)
	if err != nil || runs.Major() != wanted.Number.Major() {
		return nil //nolint:nilerr // a version that is not known yet prevents nothing
	}
	change := fmt.Sprintf("spec.kubernetesVersion is %s, and %s runs %.40s", wanted.Version, server, running)
	switch {
	case wanted.Number.Minor() < runs.Minor():
		return fmt.Errorf("%s: Kubernetes does not support a downgrade by a minor version, because an older version may not read "+
			"the data of a newer one. Set %.40s again, or another release of %d.%d", change, running, runs.Major(), runs.Minor())
	case wanted.Number.Minor() > runs.Minor()+1:
		return fmt.Errorf("%s: Kubernetes cannot skip a minor version; upgrade to a release of %d.%d first", change, runs.Major(), runs.Minor()+1)
	}
	return nil
}

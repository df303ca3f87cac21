// Command genflags writes driver/builtin.json: the create flags of every driver linked from the pinned rancher/machine,
// and that module's version. It is the only program beside cmd/machine that links cloud drivers.
//
//	go run ./hack/genflags -o driver/builtin.json
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/rancher/machine/drivers/amazonec2"
	"github.com/rancher/machine/drivers/azure"
	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/drivers/exoscale"
	"github.com/rancher/machine/drivers/generic"
	"github.com/rancher/machine/drivers/google"
	"github.com/rancher/machine/drivers/hyperv"
	"github.com/rancher/machine/drivers/none"
	"github.com/rancher/machine/drivers/noop"
	"github.com/rancher/machine/drivers/openstack"
	"github.com/rancher/machine/drivers/pod"
	"github.com/rancher/machine/drivers/rackspace"
	"github.com/rancher/machine/drivers/softlayer"
	"github.com/rancher/machine/drivers/virtualbox"
	"github.com/rancher/machine/drivers/vmwarefusion"
	"github.com/rancher/machine/drivers/vmwarevcloudair"
	"github.com/rancher/machine/drivers/vmwarevsphere"
	"github.com/rancher/machine/libmachine/mcnflag"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver/mcnflags"
)

const machineModule = "github.com/rancher/machine"

type catalogue struct {
	MachineVersion string                   `json:"machineVersion"`
	Drivers        map[string][]crdgen.Flag `json:"drivers"`
}

type flagger interface {
	GetCreateFlags() []mcnflag.Flag
}

func main() {
	out := flag.String("o", "driver/builtin.json", "file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "genflags:", err)
		os.Exit(1)
	}
}

func run(path string) error {
	version, err := machineVersion()
	if err != nil {
		return err
	}
	all := catalogue{MachineVersion: version, Drivers: map[string][]crdgen.Flag{}}
	for name, d := range builtins() {
		all.Drivers[name], err = mcnflags.Convert(d.GetCreateFlags())
		if err != nil {
			return fmt.Errorf("reading the flags of %s: %w", name, err)
		}
	}
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	return os.WriteFile(path, append(data, '\n'), 0o644) //nolint:gosec // a source file of the repository, not a secret
}

func builtins() map[string]flagger {
	return map[string]flagger{
		"amazonec2":       amazonec2.NewDriver("", ""),
		"azure":           azure.NewDriver("", ""),
		"digitalocean":    digitalocean.NewDriver("", ""),
		"exoscale":        exoscale.NewDriver("", ""),
		"generic":         generic.NewDriver("", ""),
		"google":          google.NewDriver("", ""),
		"hyperv":          hyperv.NewDriver("", ""),
		"none":            none.NewDriver("", ""),
		"noop":            noop.NewDriver("", ""),
		"openstack":       openstack.NewDriver("", ""),
		"pod":             pod.NewDriver("", ""),
		"rackspace":       rackspace.NewDriver("", ""),
		"softlayer":       softlayer.NewDriver("", ""),
		"virtualbox":      virtualbox.NewDriver("", ""),
		"vmwarefusion":    vmwarefusion.NewDriver("", ""),
		"vmwarevcloudair": vmwarevcloudair.NewDriver("", ""),
		"vmwarevsphere":   vmwarevsphere.NewDriver("", ""),
	}
}

// machineVersion is the version this program was linked with, so that the file can never disagree with go.mod.
func machineVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "", errors.New("this program carries no build information")
	}
	for _, dep := range info.Deps {
		if dep.Path != machineModule {
			continue
		}
		if dep.Replace != nil {
			dep = dep.Replace
		}
		return dep.Version, nil
	}
	return "", fmt.Errorf("%s is not among the linked modules", machineModule)
}

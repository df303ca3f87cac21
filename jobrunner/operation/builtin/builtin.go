// Package builtin is the table of the cloud drivers that are linked from the pinned
// rancher/machine.
//
// cmd/machine serves them as plugins. hack/genflags reads their flags into package driver. No other
// package may import it: no driver's code runs in the manager.
package builtin

import (
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
	"github.com/rancher/machine/libmachine/drivers"
)

// Drivers are fresh ones of every kind, by name.
func Drivers() map[string]drivers.Driver {
	return map[string]drivers.Driver{
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

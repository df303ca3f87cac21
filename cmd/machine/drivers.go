package main

import (
	"fmt"
	"os"

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
	"github.com/rancher/machine/libmachine/ssh"

	"github.com/drover-project/drover/jobrunner/operation"
	"github.com/drover-project/drover/jobrunner/operation/plugin"
)

// serveDriver serves a built-in driver as a plugin until its client goes away.
func serveDriver(name string) {
	driver := builtin(name)
	if driver == nil {
		fmt.Fprintf(os.Stderr, "there is no built-in driver %q\n", name)
		os.Exit(operation.ExitUsage)
	}
	// The image has no ssh program.
	ssh.SetDefaultClient(ssh.Native)
	if err := plugin.Serve(driver, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "serving the driver:", err)
		os.Exit(operation.ExitFailed)
	}
}

// builtin is the list of the drivers that are linked; package driver has their flags.
func builtin(name string) drivers.Driver {
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
	}[name]
}

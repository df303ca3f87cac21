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
	constructors := map[string]func() drivers.Driver{
		"amazonec2":       func() drivers.Driver { return amazonec2.NewDriver("", "") },
		"azure":           func() drivers.Driver { return azure.NewDriver("", "") },
		"digitalocean":    func() drivers.Driver { return digitalocean.NewDriver("", "") },
		"exoscale":        func() drivers.Driver { return exoscale.NewDriver("", "") },
		"generic":         func() drivers.Driver { return generic.NewDriver("", "") },
		"google":          func() drivers.Driver { return google.NewDriver("", "") },
		"hyperv":          func() drivers.Driver { return hyperv.NewDriver("", "") },
		"none":            func() drivers.Driver { return none.NewDriver("", "") },
		"noop":            func() drivers.Driver { return noop.NewDriver("", "") },
		"openstack":       func() drivers.Driver { return openstack.NewDriver("", "") },
		"pod":             func() drivers.Driver { return pod.NewDriver("", "") },
		"rackspace":       func() drivers.Driver { return rackspace.NewDriver("", "") },
		"softlayer":       func() drivers.Driver { return softlayer.NewDriver("", "") },
		"virtualbox":      func() drivers.Driver { return virtualbox.NewDriver("", "") },
		"vmwarefusion":    func() drivers.Driver { return vmwarefusion.NewDriver("", "") },
		"vmwarevcloudair": func() drivers.Driver { return vmwarevcloudair.NewDriver("", "") },
		"vmwarevsphere":   func() drivers.Driver { return vmwarevsphere.NewDriver("", "") },
	}
	construct, ok := constructors[name]
	if !ok {
		return nil
	}
	return construct()
}

package nspawn

import (
	"context"
	"syscall"

	"github.com/drover-project/drover/e2e/cloud/host"
)

const bridgeName = host.BridgeName

// machinery is the part of the host that only root may change.
type machinery struct {
	mountOverlay    func(target, options string) error
	unmountBelow    func(path string) error
	cgroups         func(server string) (cgroups, error)
	command         func(dir serverDir) []string // what is a server once it runs
	removeInterface func(ctx context.Context, name string) error
}

func newMachinery() machinery {
	return machinery{
		mountOverlay: func(target, options string) error {
			return syscall.Mount("overlay", target, "overlay", 0, options)
		},
		unmountBelow:    unmountBelow,
		cgroups:         findCgroups,
		command:         nspawnCommand,
		removeInterface: host.RemoveInterface,
	}
}

// cable is the host's end of a server's network cable, as systemd-nspawn names it.
func cable(server string) string { return "vb-" + server }

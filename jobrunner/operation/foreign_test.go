package operation_test

import (
	"errors"
	"os"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type runtimeObject = runtime.Object

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, stateName, errors.New("the node is lost"))
}

// foreignDriver is a driver nobody has a profile of. Its cloud is a directory: a server is a file.
type foreignDriver struct {
	*drivers.BaseDriver
	ServerID string
	Dir      string
	Mode     string
}

func (d *foreignDriver) DriverName() string { return "slow" }

func (d *foreignDriver) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "slow-dir", Usage: "where servers are", EnvVar: "SLOW_DIR"},
		mcnflag.StringFlag{Name: "slow-mode", Value: "good"},
		mcnflag.StringSliceFlag{Name: "slow-list", Value: []string{"a"}},
		mcnflag.IntFlag{Name: "slow-number", Value: 3},
		mcnflag.BoolFlag{Name: "slow-bool"},
	}
}

func (d *foreignDriver) SetConfigFromFlags(options drivers.DriverOptions) error {
	d.Dir, d.Mode = options.String("slow-dir"), options.String("slow-mode")
	if d.Dir == "" {
		return errors.New("slow requires the --slow-dir option")
	}
	return nil
}

func (d *foreignDriver) Create() error {
	switch d.Mode {
	case "refuse":
		return errors.New("quota exceeded for servers")
	case "die":
		os.Exit(7)
	case "mystery":
		return errors.New("something happened")
	case "hang":
		select {}
	}
	if err := os.WriteFile(d.Dir+"/"+d.MachineName, nil, 0o600); err != nil {
		return err
	}
	d.ServerID, d.IPAddress = "srv-"+d.MachineName, "198.18.7.7"
	return nil
}

func (d *foreignDriver) GetURL() (string, error)         { return "", nil }
func (d *foreignDriver) GetSSHHostname() (string, error) { return d.GetIP() }
func (d *foreignDriver) Kill() error                     { return nil }
func (d *foreignDriver) Restart() error                  { return nil }
func (d *foreignDriver) Start() error                    { return nil }
func (d *foreignDriver) Stop() error                     { return nil }

func (d *foreignDriver) GetState() (state.State, error) {
	if _, err := os.Stat(d.Dir + "/" + d.MachineName); err != nil {
		return state.None, errors.New("server not found")
	}
	return state.Running, nil
}

func (d *foreignDriver) Remove() error {
	if err := os.Remove(d.Dir + "/" + d.MachineName); err != nil {
		return errors.New("server not found")
	}
	return nil
}

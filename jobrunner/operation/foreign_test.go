package operation_test

import (
	"errors"
	"os"
	"strings"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
	serverstate "github.com/rancher/machine/libmachine/state"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type runtimeObject = runtime.Object

func forbidden() error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, stateName, errors.New("the node is lost"))
}

// foreignDriver is a driver nobody has a profile of, or one that goes by the name of another, in whose words and fields it speaks.
// Its cloud is a directory: a server is a file, what stands in it is its state, and files beside it say what goes wrong.
type foreignDriver struct {
	*drivers.BaseDriver
	Name     string
	ServerID string
	// The fields in which the drivers whose names it bears keep their servers' ids.
	MachineId string
	Id        string
	VAppID    string
	Dir       string
	Region    string
	Mode      string
}

func (d *foreignDriver) DriverName() string { return "slow" }

func (d *foreignDriver) GetCreateFlags() []mcnflag.Flag {
	if d.Name == "mute" {
		os.Exit(7)
	}
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "slow-dir", Usage: "where servers are", EnvVar: "SLOW_DIR"},
		mcnflag.StringFlag{Name: "slow-mode", Value: "good"},
		mcnflag.StringFlag{Name: "slow-region", EnvVar: "SLOW_REGION"},
		mcnflag.StringSliceFlag{Name: "slow-list", Value: []string{"a"}},
		mcnflag.IntFlag{Name: "slow-number", Value: 3},
		mcnflag.BoolFlag{Name: "slow-bool"},
	}
}

func (d *foreignDriver) SetConfigFromFlags(options drivers.DriverOptions) error {
	d.Dir, d.Mode, d.Region = options.String("slow-dir"), options.String("slow-mode"), options.String("slow-region")
	if d.Dir == "" {
		return errors.New("slow requires the --slow-dir option")
	}
	return nil
}

// PreCreateCheck fails with what stands in the file "check".
func (d *foreignDriver) PreCreateCheck() error {
	if text, err := os.ReadFile(d.Dir + "/check"); err == nil {
		return errors.New(string(text))
	}
	return nil
}

// Create does what the mode says: "panic", "fail", "made", "numbered" and "noted" are followed by the words of the panic or the error, for
// which nothing (the first two), a server, one whose ID is in the record, or one with an address too is made; "noted-gone" is cleaned up by
// the driver itself.
func (d *foreignDriver) Create() error {
	mode, words, _ := strings.Cut(d.Mode, " ")
	switch mode {
	case "late":
		return d.createLate()
	case "refuse":
		return errors.New("quota exceeded for servers")
	case "die":
		os.Exit(7)
	case "panic":
		panic(words)
	case "mystery":
		return errors.New("something happened")
	case "hang":
		if err := os.WriteFile(d.Dir+"/"+d.MachineName+"-asked", nil, 0o600); err != nil {
			return err
		}
		select {}
	case "fail":
		return errors.New(words)
	case "vague": // a key is noted, a server made, and its ID would have come at the end
		d.SSHKeyPath = "/keys/registered"
		return errors.Join(os.WriteFile(d.Dir+"/"+d.MachineName, nil, 0o600), os.WriteFile(d.Dir+"/byID", nil, 0o600), errors.New(words))
	}
	if err := os.WriteFile(d.Dir+"/"+d.MachineName, nil, 0o600); err != nil {
		return err
	}
	switch mode {
	case "made":
		return errors.New(words)
	case "made-die":
		os.Exit(7)
	}
	if mode == "numbered" {
		d.ServerID = "srv-" + d.MachineName
		return errors.New(words)
	}
	d.note()
	switch mode {
	case "noted":
		return errors.New(words)
	case "noted-gone":
		return errors.Join(os.Remove(d.Dir+"/"+d.MachineName), errors.New(words))
	}
	return nil
}

// createLate registers a key, then makes a server, and never ends.
func (d *foreignDriver) createLate() error {
	d.SSHKeyPath = "/keys/registered"
	time.Sleep(1500 * time.Millisecond)
	if err := os.WriteFile(d.Dir+"/"+d.MachineName, nil, 0o600); err != nil {
		return err
	}
	d.note()
	select {}
}

func (d *foreignDriver) note() {
	d.ServerID, d.IPAddress = "srv-"+d.MachineName, "198.18.7.7"
	switch d.Name {
	case "openstack":
		d.MachineId = d.ServerID
	case "exoscale":
		d.Id = d.ServerID
	case "vmwarevcloudair":
		d.VAppID = d.ServerID
	}
	if d.Name != "slow" {
		// Nobody listens there, and nobody has to wait for that.
		d.IPAddress, d.SSHPort = "127.0.0.1", 1
	}
}

func (d *foreignDriver) GetURL() (string, error)         { return "", nil }
func (d *foreignDriver) GetSSHHostname() (string, error) { return d.GetIP() }
func (d *foreignDriver) Kill() error                     { return nil }
func (d *foreignDriver) Restart() error                  { return nil }
func (d *foreignDriver) Stop() error                     { return nil }

// Start makes a stopped server run.
func (d *foreignDriver) Start() error { return os.WriteFile(d.Dir+"/"+d.MachineName, nil, 0o600) }

func (d *foreignDriver) GetState() (serverstate.State, error) {
	if d.knowsNothing() {
		return serverstate.None, nil
	}
	content, err := os.ReadFile(d.Dir + "/" + d.MachineName)
	if err != nil {
		return serverstate.None, errors.New(d.missing())
	}
	what, words, _ := strings.Cut(string(content), " ")
	switch what {
	case "stopped":
		return serverstate.Stopped, nil
	case "error":
		return serverstate.Error, errors.New(words)
	case "none":
		// As Google's driver says when its cloud does not answer.
		return serverstate.None, nil
	}
	return serverstate.Running, nil
}

// knowsNothing reports whether the driver goes by an ID that its record does not have.
func (d *foreignDriver) knowsNothing() bool {
	_, err := os.Stat(d.Dir + "/byID")
	return err == nil && d.ServerID == ""
}

// missing is how a driver says that there is no such server.
func (d *foreignDriver) missing() string {
	switch d.Name {
	case "openstack":
		return "Resource not found"
	case "exoscale":
		return "GetInstance: http response: Not Found: Instance not found"
	case "azure":
		return `Code="ResourceNotFound" Message="The Resource 'Microsoft.Compute/virtualMachines/m1' was not found."`
	case "vmwarevcloudair":
		return "can't find vApp"
	}
	return "server not found"
}

// Remove fails with what stands in the file "remove"; with "nothing" there it fails without words, which are lost on the way.
func (d *foreignDriver) Remove() error {
	if d.knowsNothing() {
		return nil
	}
	if text, err := os.ReadFile(d.Dir + "/remove"); err == nil {
		return errors.New(strings.TrimPrefix(string(text), "nothing"))
	}
	if err := os.Remove(d.Dir + "/" + d.MachineName); err != nil {
		return errors.New(d.missing())
	}
	return nil
}

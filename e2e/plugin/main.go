// Command plugin is a docker-machine driver plugin of our own, built as
// docker-machine-driver-drovertest, for tests of external drivers.
//
// Servers are made by rancher/machine's DigitalOcean driver, which the proxy leads to the local
// cloud. The plugin adds flags: one of every type and shape that fields must be made of, and every
// way to take user data. libmachine starts it; it is never started by hand.
package main

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
	"github.com/rancher/machine/libmachine/mcnflag"
	"github.com/rancher/machine/libmachine/state"
)

// tokenVariable carries the secret; it is in neither arguments nor state.
const tokenVariable = "DROVERTEST_TOKEN"

func main() { plugin.RegisterDriver(&Driver{Driver: digitalocean.NewDriver("", "")}) }

// Driver is the driver; its exported fields, and the fields of the driver that it embeds, are its
// record in the machine's state.
type Driver struct {
	*digitalocean.Driver
	// AccessToken is always empty. It takes the place of the other's in the record, so that a
	// removal only works where the credential is handed over again.
	AccessToken string `json:",omitempty"`
}

// DriverName returns the name of the driver.
func (d *Driver) DriverName() string { return "drovertest" }

// GetCreateFlags returns flags of every type. Some are odd on purpose: one lacks the driver's
// prefix, one has a segment that begins with a digit, and some have no environment variable.
func (d *Driver) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "drovertest-token", Usage: "API token", EnvVar: tokenVariable},
		mcnflag.StringFlag{Name: "drovertest-size", Usage: "size of the server", EnvVar: "DROVERTEST_SIZE", Value: "s-1vcpu-1gb"},
		mcnflag.StringFlag{Name: "plain-region", Usage: "region of the server; a flag without the driver's prefix", EnvVar: "PLAIN_REGION", Value: "nyc3"},
		mcnflag.StringFlag{Name: "drovertest-ssh-user", Usage: "login on the server", EnvVar: "DROVERTEST_SSH_USER", Value: "root"},
		mcnflag.IntFlag{Name: "drovertest-ssh-port", Usage: "SSH port", EnvVar: "DROVERTEST_SSH_PORT", Value: 22},
		mcnflag.IntFlag{Name: "drovertest-2nd-disk-gb", Usage: "size of a second disk, which is not made", EnvVar: "DROVERTEST_2ND_DISK_GB"},
		mcnflag.StringSliceFlag{Name: "drovertest-tag", Usage: "tag of the server; may be repeated", EnvVar: "DROVERTEST_TAG"},
		mcnflag.StringSliceFlag{Name: "drovertest-label", Usage: "label of the server, with a default", EnvVar: "DROVERTEST_LABEL", Value: []string{"made-by-drovertest"}},
		mcnflag.StringFlag{Name: "drovertest-userdata", Usage: "path to a file with cloud-init user data", EnvVar: "DROVERTEST_USERDATA"},
		mcnflag.StringFlag{Name: "drovertest-userdata-early", Usage: "path to a file with user data, opened at once"},
		mcnflag.StringFlag{Name: "drovertest-userdata-text", Usage: "user data"},
		mcnflag.BoolFlag{Name: "drovertest-userdata-from-file", Usage: "the user data's text is the path of a file"},
		mcnflag.StringFlag{Name: "drovertest-userdata-more", Usage: "more user data, put behind the text; dropped without one"},
		mcnflag.StringFlag{Name: "drovertest-userdata-base64", Usage: "user data in base64"},
	}
}

// SetConfigFromFlags takes the values of the flags.
func (d *Driver) SetConfigFromFlags(flags drivers.DriverOptions) error {
	d.Driver.AccessToken = flags.String("drovertest-token")
	d.Size = flags.String("drovertest-size")
	d.Region = flags.String("plain-region")
	d.SSHUser = flags.String("drovertest-ssh-user")
	d.SSHPort = flags.Int("drovertest-ssh-port")
	d.Tags = strings.Join(slices.Concat(flags.StringSlice("drovertest-tag"), flags.StringSlice("drovertest-label")), ",")
	if d.authorized().AccessToken == "" {
		return errors.New("drovertest driver requires the --drovertest-token option")
	}
	return d.setUserData(flags)
}

// setUserData takes user data in each of the ways that drivers do: the path of a file that is read
// while the server is made, or at once; text; text that a switch makes a path; base64; and two
// texts that are joined. Real drivers have one or two of them.
func (d *Driver) setUserData(flags drivers.DriverOptions) error {
	d.UserDataFile = flags.String("drovertest-userdata")
	text := flags.String("drovertest-userdata-text")
	if d.UserDataFile != "" && text != "" {
		return errors.New("drovertest: --drovertest-userdata and --drovertest-userdata-text exclude each other")
	}
	if flags.Bool("drovertest-userdata-from-file") {
		d.UserDataFile = text
		return nil
	}
	if text != "" {
		text += flags.String("drovertest-userdata-more")
	}
	if early := flags.String("drovertest-userdata-early"); early != "" {
		content, err := os.ReadFile(early)
		if err != nil {
			return fmt.Errorf("drovertest: reading user data early: %w", err)
		}
		text = string(content)
	}
	if encoded := flags.String("drovertest-userdata-base64"); encoded != "" {
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return errors.New("drovertest: --drovertest-userdata-base64 is no base64")
		}
		text = string(content)
	}
	if text == "" {
		return nil
	}
	d.UserDataFile = d.ResolveStorePath("user-data") // whence the other driver takes it
	return os.WriteFile(d.UserDataFile, []byte(text), 0o600)
}

// authorized is the driver that makes servers, with the token; of a machine that was made earlier
// the environment has it.
func (d *Driver) authorized() *digitalocean.Driver {
	d.Driver.AccessToken = cmp.Or(d.Driver.AccessToken, os.Getenv(tokenVariable))
	return d.Driver
}

// GetState asks the API for the server's state. A server that was never made is not found.
func (d *Driver) GetState() (state.State, error) {
	if d.DropletID == 0 {
		return state.NotFound, nil
	}
	current, err := d.authorized().GetState()
	if current == state.None { // the other says so by an error
		return state.NotFound, nil
	}
	return current, err
}

// Remove removes the key and the server; missing ones are not an error.
func (d *Driver) Remove() error {
	if d.SSHKeyID == 0 && d.DropletID == 0 { // nothing was made
		return nil
	}
	return d.authorized().Remove()
}

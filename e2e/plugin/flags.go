package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
)

// tokenVariable carries the secret; it is in neither arguments nor state.
const tokenVariable = "DROVERTEST_TOKEN"

// GetCreateFlags returns flags of every type. Some are odd on purpose: one
// lacks the driver's prefix, one has a segment that begins with a digit, and
// one has no environment variable.
func (d *Driver) GetCreateFlags() []mcnflag.Flag {
	return []mcnflag.Flag{
		mcnflag.StringFlag{Name: "drovertest-token", Usage: "API token", EnvVar: tokenVariable},
		mcnflag.StringFlag{Name: "drovertest-endpoint", Usage: "URL of the API", EnvVar: "DROVERTEST_ENDPOINT", Value: "https://api.digitalocean.com"},
		mcnflag.StringFlag{Name: "drovertest-ca-cert", Usage: "PEM certificate of the API's authority", EnvVar: "DROVERTEST_CA_CERT"},
		mcnflag.StringFlag{Name: "drovertest-size", Usage: "size of the server", EnvVar: "DROVERTEST_SIZE", Value: "s-1vcpu-1gb"},
		mcnflag.StringFlag{Name: "plain-region", Usage: "region of the server; a flag without the driver's prefix", EnvVar: "PLAIN_REGION", Value: "nyc3"},
		mcnflag.StringFlag{Name: "drovertest-ssh-user", Usage: "login on the server", EnvVar: "DROVERTEST_SSH_USER", Value: "root"},
		mcnflag.IntFlag{Name: "drovertest-ssh-port", Usage: "SSH port", EnvVar: "DROVERTEST_SSH_PORT", Value: 22},
		mcnflag.IntFlag{Name: "drovertest-2nd-disk-gb", Usage: "size of a second disk; noted, not made", EnvVar: "DROVERTEST_2ND_DISK_GB"},
		mcnflag.BoolFlag{Name: "drovertest-private-networking", Usage: "give the server a private network", EnvVar: "DROVERTEST_PRIVATE_NETWORKING"},
		mcnflag.BoolFlag{Name: "drovertest-ipv6", Usage: "give the server an IPv6 address; a flag without variable"},
		mcnflag.StringSliceFlag{Name: "drovertest-tag", Usage: "tag of the server; may be repeated", EnvVar: "DROVERTEST_TAG"},
		mcnflag.StringSliceFlag{Name: "drovertest-label", Usage: "label of the server, with a default", EnvVar: "DROVERTEST_LABEL", Value: []string{"made-by-drovertest"}},
		mcnflag.StringFlag{Name: "drovertest-userdata", Usage: "path to a file with cloud-init user data", EnvVar: "DROVERTEST_USERDATA"},
		mcnflag.StringFlag{Name: "drovertest-userdata-early", Usage: "path to a file with user data, opened at once"},
		mcnflag.StringFlag{Name: "drovertest-userdata-text", Usage: "user data"},
		mcnflag.BoolFlag{Name: "drovertest-userdata-from-file", Usage: "the user data's text is the path of a file"},
		mcnflag.StringFlag{Name: "drovertest-userdata-more", Usage: "more user data, put behind the text; dropped without one"},
		mcnflag.StringFlag{Name: "drovertest-userdata-base64", Usage: "user data in base64"},
		mcnflag.StringFlag{Name: "drovertest-fail", Usage: "fail on purpose: check, create, after-create, crash, hang or remove", EnvVar: "DROVERTEST_FAIL"},
	}
}

// SetConfigFromFlags takes the values of the flags.
func (d *Driver) SetConfigFromFlags(flags drivers.DriverOptions) error {
	d.token = flags.String("drovertest-token")
	d.Endpoint = flags.String("drovertest-endpoint")
	d.CACert = flags.String("drovertest-ca-cert")
	d.Size = flags.String("drovertest-size")
	d.Region = flags.String("plain-region")
	d.SSHUser = flags.String("drovertest-ssh-user")
	d.SSHPort = flags.Int("drovertest-ssh-port")
	d.SecondDiskGB = flags.Int("drovertest-2nd-disk-gb")
	d.PrivateNetworking = flags.Bool("drovertest-private-networking")
	d.IPv6 = flags.Bool("drovertest-ipv6")
	d.Tags = slices.Concat(flags.StringSlice("drovertest-tag"), flags.StringSlice("drovertest-label"))
	if err := d.setUserData(flags); err != nil {
		return err
	}
	d.Fail = flags.String("drovertest-fail")
	switch d.Fail {
	case "", "check", "create", "after-create", "crash", "hang", "remove":
	default: // a misspelt one would let a test pass that tests nothing
		return fmt.Errorf("drovertest: --drovertest-fail knows no %q", d.Fail)
	}
	if d.secret() == "" {
		return errors.New("drovertest driver requires the --drovertest-token option")
	}
	return nil
}

// setUserData takes user data in each of the ways that drivers do: the path of a file that is read while the server is made, or at
// once; text; text that a switch makes a path; base64; and two texts that are joined. Real drivers have one or two of them.
func (d *Driver) setUserData(flags drivers.DriverOptions) error {
	d.UserDataFile, d.UserDataText = flags.String("drovertest-userdata"), flags.String("drovertest-userdata-text")
	if d.UserDataFile != "" && d.UserDataText != "" {
		return errors.New("drovertest: --drovertest-userdata and --drovertest-userdata-text exclude each other")
	}
	if flags.Bool("drovertest-userdata-from-file") {
		d.UserDataFile, d.UserDataText = d.UserDataText, ""
	}
	if d.UserDataText != "" {
		d.UserDataText += flags.String("drovertest-userdata-more")
	}
	if early := flags.String("drovertest-userdata-early"); early != "" {
		content, err := os.ReadFile(early)
		if err != nil {
			return fmt.Errorf("drovertest: reading user data early: %w", err)
		}
		d.UserDataText = string(content)
	}
	if encoded := flags.String("drovertest-userdata-base64"); encoded != "" {
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return errors.New("drovertest: --drovertest-userdata-base64 is no base64")
		}
		d.UserDataText = string(content)
	}
	return nil
}

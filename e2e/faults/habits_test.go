package faults

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"

	"github.com/drover-project/drover/crdgen"
)

// habits are the ways in which third-party drivers take user data, as their NodeDriver's annotation says it.
var habits = map[string]string{
	"path":       "",
	"path early": "flag=digitalocean-userdata-early,habit=path-early",
	"inline":     "flag=digitalocean-userdata-text,habit=inline,excludes=digitalocean-userdata",
	"base64":     "flag=digitalocean-userdata-base64,habit=base64",
	"switch":     "flag=digitalocean-userdata-text,habit=path,with=digitalocean-userdata-from-file=true",
}

// habitual is DigitalOcean's driver with the flags of others.
type habitual struct{ *digitalocean.Driver }

const ownFlag = driverName + "-userdata"

// habitFlags are the flags that it has besides; the last is a switch.
var habitFlags = []string{ownFlag + "-early", ownFlag + "-text", ownFlag + "-base64", ownFlag + "-from-file"}

func habitFields() []crdgen.Flag {
	var flags []crdgen.Flag
	for _, name := range habitFlags[:3] {
		flags = append(flags, crdgen.Flag{Name: name, Type: crdgen.String})
	}
	return append(flags, crdgen.Flag{Name: habitFlags[3], Type: crdgen.Bool})
}

// GetCreateFlags implements drivers.Driver.
func (d *habitual) GetCreateFlags() []mcnflag.Flag {
	flags := d.Driver.GetCreateFlags()
	for _, name := range habitFlags[:3] {
		flags = append(flags, mcnflag.StringFlag{Name: name})
	}
	return append(flags, mcnflag.BoolFlag{Name: habitFlags[3]})
}

// SetConfigFromFlags implements drivers.Driver. It has whatever way the user data came hand it over as its own.
func (d *habitual) SetConfigFromFlags(options drivers.DriverOptions) error {
	if err := d.Driver.SetConfigFromFlags(options); err != nil {
		return err
	}
	early, text, encoded := options.String(habitFlags[0]), options.String(habitFlags[1]), options.String(habitFlags[2])
	switch {
	case early != "":
		content, err := os.ReadFile(early)
		if err != nil {
			return fmt.Errorf("reading user data early: %w", err)
		}
		text = string(content)
	case encoded != "":
		content, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return fmt.Errorf("%s is no base64", habitFlags[2])
		}
		text = string(content)
	case options.Bool(habitFlags[3]):
		d.UserDataFile, text = text, ""
	}
	if text == "" {
		return nil
	}
	d.UserDataFile = d.ResolveStorePath("habit")
	return os.WriteFile(d.UserDataFile, []byte(text), 0o600)
}

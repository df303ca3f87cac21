// Command habitual is rancher/machine's DigitalOcean driver as a plugin, with the flags by which
// drivers of others take user data. It is apart from the tests because it starts in a fifth of the
// time that their binary takes, twice in each of thousands of runs.
package main

import (
	"encoding/base64"
	"fmt"
	"os"

	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
	"github.com/rancher/machine/libmachine/mcnflag"
)

const (
	early    = "digitalocean-userdata-early"
	text     = "digitalocean-userdata-text"
	encoded  = "digitalocean-userdata-base64"
	fromFile = "digitalocean-userdata-from-file"
)

func main() { plugin.RegisterDriver(&habitual{digitalocean.NewDriver("", "")}) }

type habitual struct{ *digitalocean.Driver }

// GetCreateFlags implements drivers.Driver.
func (d *habitual) GetCreateFlags() []mcnflag.Flag {
	return append(d.Driver.GetCreateFlags(),
		mcnflag.StringFlag{Name: early}, mcnflag.StringFlag{Name: text}, mcnflag.StringFlag{Name: encoded}, mcnflag.BoolFlag{Name: fromFile})
}

// SetConfigFromFlags implements drivers.Driver. It has whatever way the user data came hand it over
// as its own.
func (d *habitual) SetConfigFromFlags(options drivers.DriverOptions) error {
	if err := d.Driver.SetConfigFromFlags(options); err != nil {
		return err
	}
	content := []byte(options.String(text))
	var err error
	switch {
	case options.String(early) != "":
		content, err = os.ReadFile(options.String(early))
	case options.String(encoded) != "":
		content, err = base64.StdEncoding.DecodeString(options.String(encoded))
	case options.Bool(fromFile):
		d.UserDataFile = options.String(text)
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading user data: %w", err)
	}
	if len(content) == 0 {
		return nil
	}
	d.UserDataFile = d.ResolveStorePath("habit")
	return os.WriteFile(d.UserDataFile, content, 0o600)
}

package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"

	"github.com/rancher/machine/libmachine/drivers"
)

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

package main

import (
	"os"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
)

func main() {
	plugin.RegisterDriver(&Driver{BaseDriver: &drivers.BaseDriver{}, getenv: os.Getenv})
}

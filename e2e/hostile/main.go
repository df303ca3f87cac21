package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/drivers/plugin"
)

func main() {
	mode, err := modeOf("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch mode {
	case "bomb":
		bomb()
	case "hog":
		hog()
	case "silent":
		<-time.After(24 * time.Hour)
	case "flood":
		flood()
	case "leaves":
		return
	}
	plugin.RegisterDriver(&Driver{BaseDriver: &drivers.BaseDriver{}, mode: mode})
}

// bomb starts itself twice, for ever; each of them leaves its process group, so that killing that is not enough.
func bomb() {
	for {
		for range 2 {
			child := exec.Command("/proc/self/exe")
			child.SysProcAttr = ownSession()
			child.Env = os.Environ()
			_ = child.Start()
		}
	}
}

// hog takes memory and uses it.
func hog() {
	var taken [][]byte
	for {
		page := make([]byte, 16<<20)
		for i := range page {
			page[i] = byte(i)
		}
		taken = append(taken, page)
		if len(taken) > 1<<20 {
			return
		}
	}
}

// flood never ends its first line.
func flood() {
	line := strings.Repeat("all work and no play makes a dull driver ", 1<<10)
	for {
		if _, err := os.Stdout.WriteString(line); err != nil {
			return
		}
	}
}

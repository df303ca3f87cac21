package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/rancher/machine/drivers/none"
	"github.com/rancher/machine/libmachine/drivers/plugin"
)

func main() {
	mode, err := modeOf("/proc/self/exe")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	switch mode {
	case "bomb": // starts itself twice, for ever; each of them leaves its process group, so that killing that is not enough
		for {
			for range 2 {
				child := exec.Command("/proc/self/exe")
				child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				child.Env = os.Environ()
				_ = child.Start()
			}
		}
	case "hog": // takes memory and uses it
		var taken [][]byte
		for len(taken) <= 1<<20 {
			taken = append(taken, bytes.Repeat([]byte{1}, 16<<20))
		}
	case "silent":
		<-time.After(24 * time.Hour)
	case "flood": // never ends its first line
		line := strings.Repeat("all work and no play makes a dull driver ", 1<<10)
		for err == nil {
			_, err = os.Stdout.WriteString(line)
		}
	case "leaves":
		return
	}
	plugin.RegisterDriver(&Driver{Driver: none.NewDriver("", ""), mode: mode})
}

// modeMark precedes the mode's name at the end of the file.
const modeMark = "\nhostile-mode:"

// modeOf reads the mode of the binary at a path; "" if it has none.
func modeOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the driver: %w", err)
	}
	tail := content[max(0, len(content)-64):]
	at := bytes.LastIndex(tail, []byte(modeMark))
	if at < 0 {
		return "", nil
	}
	return string(tail[at+len(modeMark):]), nil
}

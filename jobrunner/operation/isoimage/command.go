package isoimage

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Program is the name under which the vSphere driver looks for a writer of images.
const Program = "mkisofs"

// The flags of mkisofs that the driver uses: flags with a value, and flags for properties that
// every image of this package has.
var (
	flagsWithValue = map[string]bool{"-iso-level": true, "-V": true, "-volid": true, "-o": true, "-output": true}
	flagsWithout   = map[string]bool{"-J": true, "-joliet": true, "-r": true, "-R": true, "-rational-rock": true, "-hfs": true, "-graft-points": true}
)

// Command implements the part of mkisofs that the vSphere driver uses; args do not include the
// program's name.
func Command(args []string, now time.Time) error {
	values, sources := map[string]string{}, []string{}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case flagsWithout[arg]:
		case flagsWithValue[arg]:
			if i++; i == len(args) {
				return fmt.Errorf("the option %s needs a value", arg)
			}
			values[arg] = args[i]
		case strings.HasPrefix(arg, "-"):
			return fmt.Errorf("the option %s is not known", arg)
		default:
			sources = append(sources, arg)
		}
	}
	output := cmp.Or(values["-output"], values["-o"])
	if output == "" || len(sources) == 0 {
		return errors.New("usage: mkisofs [-J] [-r] -V LABEL -output FILE FOLDER")
	}
	image := Image{Label: cmp.Or(values["-V"], values["-volid"]), Time: now}
	for _, source := range sources {
		entries, err := os.ReadDir(source)
		if err != nil {
			return fmt.Errorf("reading the folder of the image: %w", err)
		}
		for _, e := range entries {
			if !e.Type().IsRegular() {
				return fmt.Errorf("%s is not a regular file", e.Name())
			}
			content, err := os.ReadFile(filepath.Join(source, e.Name()))
			if err != nil {
				return fmt.Errorf("reading a file of the image: %w", err)
			}
			image.Files = append(image.Files, File{Name: e.Name(), Content: content})
		}
	}
	content, err := image.Bytes()
	if err != nil {
		return err
	}
	if err := os.WriteFile(output, content, 0o600); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	return nil
}

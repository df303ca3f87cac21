package faults

import (
	"fmt"
	"os/exec"
	"path/filepath"

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

// habitFields are of the flags that the habitual driver has besides DigitalOcean's.
func habitFields() []crdgen.Flag {
	return []crdgen.Flag{
		{Name: driverName + "-userdata-early", Type: crdgen.String},
		{Name: driverName + "-userdata-text", Type: crdgen.String},
		{Name: driverName + "-userdata-base64", Type: crdgen.String},
		{Name: driverName + "-userdata-from-file", Type: crdgen.Bool},
	}
}

// buildHabitual builds the driver's plugin into a folder and returns its path.
func buildHabitual(dir string) (string, error) {
	binary := filepath.Join(dir, "habitual")
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary, "./habitual").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the driver: %w\n%s", err, out)
	}
	return binary, nil
}

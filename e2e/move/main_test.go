package move

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/libmachine/drivers/plugin"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/testkit"
)

// theCloud is found by the driver through the process's proxy settings, which Go reads once.
var theCloud *cloud.Cloud

// TestMain makes this binary the driver's plugin too, as cmd/machine is.
func TestMain(m *testing.M) {
	if os.Getenv("MACHINE_PLUGIN_TOKEN") != "" {
		plugin.RegisterDriver(digitalocean.NewDriver("", ""))
		return
	}
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	if err := startCloud(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.WithCleanup(stopCloud))
}

func startCloud() error {
	dir, err := os.MkdirTemp("", "move")
	if err != nil {
		return err
	}
	if theCloud, err = cloud.New(cloud.Options{StateDir: dir}); err != nil {
		return err
	}
	if err := theCloud.Start(context.Background()); err != nil {
		return err
	}
	for _, pair := range theCloud.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func stopCloud() error {
	return errors.Join(theCloud.Close(), os.RemoveAll(filepath.Dir(theCloud.CAFile())))
}

package faults

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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/drover-project/drover/capi"
	"github.com/drover-project/drover/charts"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/e2e/cloud"
	"github.com/drover-project/drover/testkit"
)

var (
	count   = flag.Int("faults.count", shortPart, "how many runs")
	first   = flag.Int("faults.first", 0, "number of the first run")
	only    = flag.Int("faults.only", -1, "the one run to do again")
	workers = flag.Int("faults.workers", 24, "runs at the same time")

	reportFile = flag.String("faults.report", "", "file to write the matrix to")
)

const driverName = "digitalocean"

// theCloud is shared by all runs: driver and finder find it through the process's proxy settings, which Go reads once. Each
// worker has a token of its own, by which rules and ledger tell them apart.
var theCloud *cloud.Cloud

// theDriver is the path of the driver's plugin.
var theDriver string

// TestMain makes this binary the pod's program too, as cmd/machine is.
func TestMain(m *testing.M) {
	if argument := os.Getenv(podVariable); argument != "" {
		os.Exit(beThePod(argument))
	}
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	crds, err := definitions()
	if err == nil {
		err = startCloud()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	testkit.Main(m, testkit.WithCRDs(crds...), testkit.WithCleanup(stopCloud))
}

func stopCloud() error {
	return errors.Join(theCloud.Close(), os.RemoveAll(filepath.Dir(theCloud.CAFile())))
}

// token is an API token of the cloud.
type token struct{ name, secret string }

// tokenOf is the token of a worker.
func tokenOf(worker int) token {
	return token{fmt.Sprintf("worker-%d", worker), fmt.Sprintf("marker-token-%d", worker)}
}

func startCloud() (err error) {
	dir, err := os.MkdirTemp("", "faults")
	if err != nil {
		return err
	}
	tokens := map[string]string{}
	for i := range *workers {
		tokens[tokenOf(i).name] = tokenOf(i).secret
	}
	if theDriver, err = buildHabitual(dir); err != nil {
		return err
	}
	if theCloud, err = cloud.New(cloud.Options{StateDir: dir, Tokens: tokens}); err != nil {
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

func fields() ([]crdgen.Field, error) {
	flags, _ := driver.Builtin(driverName)
	for _, nd := range driver.Predefined() {
		if nd.DriverName() != driverName {
			continue
		}
		rules, err := crdgen.RulesFromAnnotations(nd.Annotations)
		if err != nil {
			return nil, err
		}
		return crdgen.FieldsOf(driverName, append(flags, habitFields()...), rules)
	}
	return nil, fmt.Errorf("driver %s is not predefined", driverName)
}

func definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := capi.CRDs()
	if err != nil {
		return nil, err
	}
	own, err := charts.CRDs()
	if err != nil {
		return nil, err
	}
	described, err := fields()
	if err != nil {
		return nil, err
	}
	_, _, kind, err := crdgen.CRDs(crdgen.Schema{Driver: driverName, Fields: described})
	return append(append(all, own...), kind), err
}

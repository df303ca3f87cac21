package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/cmd/drover/facts"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// gcOptions are the flags of gc.
type gcOptions struct {
	allNamespaces      bool
	driver, credential string
	remove             bool
	grace, timeout     time.Duration
	output             *output
	deletedClusters    []string
}

// kubernetesUID is the pattern that a ServerScan requires too.
var kubernetesUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

func newGC(e *env) *cobra.Command {
	o := &gcOptions{}
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Find servers without a machine",
		Long: `Find servers in the cloud that have Drover's tags and no machine; with --delete, remove them.

A Job of the manager lists the servers with each credential that machines use. Without --delete nothing is changed. With
--delete, only proven orphans of a Cluster in the namespace are removed, if they are older than the grace period:
docs/orphans.md explains the proof and lists the drivers that support it. If no machine uses the credential any more, name it.`,
		Example: `  {name} gc
  {name} gc -A -o json
  {name} gc --delete --grace 24h
  {name} gc --driver digitalocean --credential do-token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.credential != "" && o.driver == "":
				return usagef(cmd, "--credential needs --driver")
			case o.credential != "" && o.allNamespaces:
				return usagef(cmd, "--credential and --all-namespaces exclude each other")
			case o.grace < 0:
				return usagef(cmd, "--grace must not be negative")
			case o.timeout <= 0:
				return usagef(cmd, "--timeout must be more than 0")
			case o.driver != "" && !clouds.Of(o.driver).Lists:
				return usagef(cmd, "servers of driver %q cannot be listed by their tags (see docs/orphans.md)", o.driver)
			}
			for _, uid := range o.deletedClusters {
				if !kubernetesUID.MatchString(uid) {
					return usagef(cmd, "--deleted-cluster: %q is not a valid UID (Kubernetes writes UIDs in lower case)", uid)
				}
			}
			if err := o.output.check(cmd); err != nil {
				return err
			}
			return e.gc(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.allNamespaces, "all-namespaces", "A", false, "Use the credentials of the machines of all namespaces.")
	flags.StringVar(&o.driver, "driver", "", "Scan only this driver's cloud.")
	flags.StringVar(&o.credential, "credential", "", "Use this credential Secret, named as in a machine; needs --driver.")
	flags.BoolVar(&o.remove, "delete", false, "Remove the orphans that are older than the grace period.")
	flags.StringSliceVar(&o.deletedClusters, "deleted-cluster", nil, "UIDs of Clusters that were deleted (not moved); their servers are orphans too.")
	flags.DurationVar(&o.grace, "grace", time.Hour, "Minimum age of an orphan.")
	flags.DurationVar(&o.timeout, "timeout", 15*time.Minute, "Total time to wait for the cloud.")
	o.output = newOutput(cmd, false)
	return cmd
}

func (e *env) gc(ctx context.Context, o *gcOptions) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	if o.allNamespaces {
		namespace = ""
	}
	places, err := e.places(ctx, api, namespace, o)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("the scan was not done within %s", o.timeout))
	defer cancel()
	var scans []listing.Scan
	failed := 0
	for _, place := range places {
		scan := e.scan(ctx, api, place, o)
		if scan.Error != "" {
			failed++
		}
		scans = append(scans, scan)
	}
	if err := e.printScans(o, scans); err != nil {
		return err
	}
	if len(scans) == 0 {
		return errors.New("no machine uses a credential with which servers could be looked for; name one with --driver and --credential")
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d scans failed", failed, len(scans))
	}
	return context.Cause(ctx)
}

// place is an account to look at.
type place struct{ namespace, driver, credential string }

// places are those that the user names, or that machines use.
func (e *env) places(ctx context.Context, api *inventory.API, namespace string, o *gcOptions) ([]place, error) {
	if o.credential != "" {
		return []place{{namespace, o.driver, o.credential}}, nil
	}
	_, machines, err := e.list(ctx, api, inventory.ListOptions{Namespace: namespace})
	if err != nil {
		return nil, err
	}
	drivers, _ := api.Drivers(ctx)
	var places []place
	skipped := map[string]bool{}
	for _, m := range machines {
		at := place{m.Namespace, facts.DriverName(m.Kind.Name, drivers), m.CredentialName()}
		switch {
		case at.driver != cmp.Or(o.driver, at.driver), at.credential == "", slices.Contains(places, at):
		case clouds.Of(at.driver).Lists:
			places = append(places, at)
		case !skipped[at.driver]:
			skipped[at.driver] = true
			e.note("servers of driver %s are not looked for: they cannot be listed by their tags (see docs/orphans.md)", at.driver)
		}
	}
	return places, nil
}

// scan asks the manager to scan with one credential; the result carries any error.
func (e *env) scan(ctx context.Context, api *inventory.API, at place, o *gcOptions) listing.Scan {
	failed := func(err error) listing.Scan {
		return listing.Scan{Namespace: at.namespace, Driver: at.driver, Credential: at.credential, Servers: []rkev1.ScannedServerStatus{}, Error: inventory.Plain(err)}
	}
	made, err := api.MakeScan(ctx, at.namespace, rkev1.ServerScanSpec{
		Driver: at.driver, CloudCredentialSecretName: at.credential, Remove: o.remove, GracePeriod: &metav1.Duration{Duration: o.grace}, DeletedClusters: o.deletedClusters})
	if err != nil {
		return failed(err)
	}
	done, err := api.AwaitScan(ctx, made, func(message string) { e.note("%s: %s", at.driver, strings.TrimSpace(message)) })
	if err != nil {
		// If the user stops waiting, the scan is deleted, which ends its work.
		if deleteErr := api.DeleteScan(context.WithoutCancel(ctx), made); deleteErr != nil {
			e.note("%s", inventory.Plain(deleteErr))
		}
		return failed(err)
	}
	return listing.NewScan(done)
}

func (e *env) printScans(o *gcOptions, scans []listing.Scan) error {
	list := listing.NewScanList(scans)
	if !o.output.isTable() {
		return e.document(o.output, list)
	}
	table := listing.ServerTable(list.Items, o.allNamespaces, e.Now())
	var errs []error
	if len(table.Rows) > 0 {
		errs = append(errs, o.output.table(e.Streams.Out, table))
	}
	orphans := int32(0)
	for _, scan := range list.Items {
		orphans += scan.Orphans
		e.note("%s", scan.Summary())
		for _, name := range scan.MachinesNotListed {
			e.note("the cloud lists no server with the tag of machine %s/%s", scan.Namespace, name)
		}
	}
	if orphans > 0 && !o.remove {
		e.note("nothing was changed; '%s gc --delete' removes the orphans", e.Name)
	}
	return errors.Join(errs...)
}

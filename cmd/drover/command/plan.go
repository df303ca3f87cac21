package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/forecast"
	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// Exit codes of plan with --exit-code.
const (
	codeInPlace = 3
	codeReplace = 4
)

// planOptions are the flags and arguments of plan.
type planOptions struct {
	file, format      string
	exitCode, approve bool
}

func newPlan(e *env) *cobra.Command {
	o := &planOptions{}
	cmd := &cobra.Command{
		Use:        "plan (-f FILE | cluster/NAME)",
		SuggestFor: []string{"diff", "preview"},
		Short:      "Show what happens to a cluster and its machines before it happens",
		Long: `Show what happens to a cluster (clusters.provisioning.cattle.io) and its machines before it happens: machines that are created,
replaced or deleted, machines that restart, parts that Drover holds back, and fields without an effect.

With -f, the command shows what happens if the Clusters and Configs in FILE replace the stored ones. With cluster/NAME, it shows
what has not happened yet: changes that wait for an approval, for the end of a pause, or that Drover holds back.

The command changes nothing, except with --approve, and reads no Secret. With the right to write the objects, it also asks the
API server by a dry run whether it accepts them.`,
		Example: `  {name} plan -f shop.yaml
  {name} plan -f shop.yaml --exit-code    # 0 no change, 3 changes in place, 4 machines replaced or deleted
  {name} plan cluster/shop
  {name} plan cluster/shop --approve`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: e.completeKinds(func(context.Context, *inventory.API, string) ([]string, error) { return nil, nil }, "cluster/"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case (o.file == "") == (len(args) == 0):
				return usagef(cmd, "either -f FILE or one cluster/NAME is needed")
			case o.approve && o.file != "":
				return usagef(cmd, "--approve needs cluster/NAME: apply the file first")
			}
			return e.plan(cmd.Context(), o, args)
		},
	}
	cmd.Flags().StringVarP(&o.file, "filename", "f", "", "File with Clusters and Configs, or - for standard input.")
	cmd.Flags().BoolVar(&o.exitCode, "exit-code", false, "Exit with 3 if something changes in place, and with 4 if machines are replaced or deleted.")
	cmd.Flags().BoolVar(&o.approve, "approve", false, "Allow exactly the replacements that wait for an approval now.")
	addFormatFlag(cmd, &o.format)
	return cmd
}

func (e *env) plan(ctx context.Context, o *planOptions, args []string) error {
	api, namespace, err := e.connect()
	if err != nil {
		return err
	}
	config, err := e.restConfig()
	if err != nil {
		return err
	}
	planning, err := inventory.NewPlanning(config, api)
	if err != nil {
		return err
	}
	var plans []*forecast.Plan
	if o.file != "" {
		plans, err = e.planFile(ctx, planning, namespace, o.file)
	} else {
		plans, err = e.planStored(ctx, api, planning, namespace, args[0], o.approve)
	}
	if err != nil {
		return err
	}
	if err := e.printPlans(o.format, plans); err != nil {
		return err
	}
	return result(plans, o.exitCode)
}

// planStored plans a stored Cluster, and approves its pending replacements if the user asks for it.
func (e *env) planStored(ctx context.Context, api *inventory.API, planning *inventory.Planning, namespace, arg string, approve bool) ([]*forecast.Plan, error) {
	name, err := clusterName(arg)
	if err != nil {
		return nil, err
	}
	stored, err := planning.Cluster(ctx, client.ObjectKey{Namespace: namespace, Name: name})
	if err != nil {
		return nil, err
	}
	if stored == nil {
		return nil, api.NoClusterError(ctx, namespace, name, e.Name)
	}
	plan, err := planOf(ctx, planning, stored, stored, forecast.Admission{})
	if err != nil || !approve {
		return []*forecast.Plan{plan}, err
	}
	if plan.PendingReplacement == nil {
		return nil, fmt.Errorf("no replacement of machines of cluster %s waits for an approval", name)
	}
	if err := planning.Approve(ctx, stored, plan.PendingReplacement.ID); err != nil {
		if apierrors.IsConflict(err) {
			return nil, errors.New("the Cluster was changed at the same time: look at the plan again")
		}
		return nil, err
	}
	e.note("the replacement %s is approved", plan.PendingReplacement.ID)
	return []*forecast.Plan{plan}, nil
}

func planOf(ctx context.Context, planning *inventory.Planning, stored, wanted *provv1.Cluster, admission forecast.Admission) (*forecast.Plan, error) {
	sources, err := planning.Sources(ctx, stored, wanted)
	if err != nil {
		return nil, err
	}
	sources.Admission = admission
	return forecast.New(sources)
}

// planFile plans each Cluster of a file and, for a file with Configs only, each Cluster that uses one
// of them.
func (e *env) planFile(ctx context.Context, planning *inventory.Planning, namespace, name string) ([]*forecast.Plan, error) {
	objects, err := e.readObjects(name, namespace)
	if err != nil {
		return nil, err
	}
	var clusters []*unstructured.Unstructured
	answers := map[string]forecast.Admission{} // of the Configs, by namespace
	for _, object := range objects {
		switch object.GroupVersionKind().Group {
		case provv1.GroupVersion.Group:
			clusters = append(clusters, object)
		case rkev1.MachineConfigGroupVersion.Group:
			answer, err := planning.Give(ctx, object)
			if err != nil {
				return nil, err
			}
			answers[object.GetNamespace()] = both(answers[object.GetNamespace()], of(object, answer))
		default:
			e.note("%s %s is ignored: a plan reads Clusters and Configs", object.GetKind(), object.GetName())
		}
	}
	var plans []*forecast.Plan
	planned := map[client.ObjectKey]bool{}
	for _, object := range clusters {
		key := client.ObjectKeyFromObject(object)
		plan, err := e.planGiven(ctx, planning, object, answers[object.GetNamespace()])
		if err != nil {
			return nil, err
		}
		planned[key] = true
		plans = append(plans, plan)
	}
	for in, answer := range answers {
		users, err := planning.UsedBy(ctx, in)
		if err != nil {
			return nil, err
		}
		for _, user := range users {
			if planned[client.ObjectKeyFromObject(user)] {
				continue
			}
			plan, err := planOf(ctx, planning, user, user, answer)
			if err != nil {
				return nil, err
			}
			plans = append(plans, plan)
		}
	}
	if len(plans) == 0 {
		return nil, fmt.Errorf("%s has no Cluster (%s), and no stored Cluster uses one of its Configs", name, provv1.GroupVersion)
	}
	return plans, nil
}

// planGiven plans a Cluster from a file.
func (e *env) planGiven(ctx context.Context, planning *inventory.Planning, object *unstructured.Unstructured, answer forecast.Admission) (*forecast.Plan, error) {
	stored, err := planning.Cluster(ctx, client.ObjectKeyFromObject(object))
	if err != nil {
		return nil, err
	}
	var before *unstructured.Unstructured
	if stored != nil {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
		if err != nil {
			return nil, fmt.Errorf("encoding the stored Cluster: %w", err)
		}
		before = &unstructured.Unstructured{Object: content}
		before.SetGroupVersionKind(object.GroupVersionKind())
	}
	made, own, err := planning.Try(ctx, before, object)
	if err != nil {
		return nil, err
	}
	wanted := &provv1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(made.Object, wanted, true); err != nil {
		return nil, fmt.Errorf("decoding the Cluster %s: %w", object.GetName(), err)
	}
	answer = both(answer, of(object, own))
	if answer.Checked && !own.Checked {
		answer.Checked, answer.NotChecked = false, own.NotChecked
	}
	return planOf(ctx, planning, stored, wanted, answer)
}

// of names the object in the answer of the API server.
func of(object *unstructured.Unstructured, answer forecast.Admission) forecast.Admission {
	if answer.Rejected != "" {
		answer.Rejected = object.GetKind() + " " + object.GetName() + ": " + answer.Rejected
	}
	return answer
}

// both joins two answers. One that was not checked decides.
func both(a, b forecast.Admission) forecast.Admission {
	if !a.Checked && a.NotChecked == "" {
		return b
	}
	joined := forecast.Admission{Checked: a.Checked && b.Checked, NotChecked: a.NotChecked, Rejected: a.Rejected, Warnings: append(a.Warnings, b.Warnings...)}
	if joined.NotChecked == "" {
		joined.NotChecked = b.NotChecked
	}
	if b.Rejected != "" {
		joined.Rejected = strings.TrimPrefix(joined.Rejected+"; "+b.Rejected, "; ")
	}
	return joined
}

// maxFile bounds a file with Clusters and Configs.
const maxFile = 16 << 20

// readObjects reads the objects of a file, YAML or JSON. An object without a namespace gets the
// command's.
func (e *env) readObjects(name, namespace string) ([]*unstructured.Unstructured, error) {
	in := e.Streams.In
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("reading the file: %w", err)
		}
		defer func() { _ = file.Close() }()
		in = file
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("%s has more than %d bytes", name, maxFile)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(string(raw)), 4096)
	var all []*unstructured.Unstructured
	for {
		var content map[string]any
		if err := decoder.Decode(&content); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(content) == 0 {
			continue
		}
		object := &unstructured.Unstructured{Object: content}
		if object.IsList() {
			return nil, fmt.Errorf("%s has a List: write its items as documents of their own", name)
		}
		if object.GetKind() == "" || object.GetAPIVersion() == "" || object.GetName() == "" {
			return nil, fmt.Errorf("%s: document %d lacks apiVersion, kind or metadata.name", name, len(all)+1)
		}
		if object.GetNamespace() == "" {
			object.SetNamespace(namespace)
		}
		all = append(all, object)
	}
}

func (e *env) printPlans(format string, plans []*forecast.Plan) error {
	if format != "" {
		return e.toTerminal(func(out io.Writer) error {
			return printDocument(out, format, listing.List[*forecast.Plan]{APIVersion: listing.APIVersion, Kind: "PlanList", Items: plans})
		})
	}
	for i, plan := range plans {
		if i > 0 {
			if _, err := io.WriteString(e.Streams.Out, "\n"); err != nil {
				return err
			}
		}
		if err := forecast.Render(e.Streams.Out, plan, e.called()); err != nil {
			return err
		}
	}
	return nil
}

// result returns the error of the exit code. A rejected change is an error.
func result(plans []*forecast.Plan, exitCode bool) error {
	code := codeOK
	for _, plan := range plans {
		if plan.Admission.Rejected != "" {
			return &exitError{code: codeError}
		}
		switch plan.Change {
		case forecast.Replace:
			code = codeReplace
		case forecast.InPlace:
			code = max(code, codeInPlace)
		}
	}
	if !exitCode || code == codeOK {
		return nil
	}
	return &exitError{code: code}
}

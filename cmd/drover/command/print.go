package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	provv1 "github.com/drover-project/drover/api/provisioning/v1"
	"github.com/drover-project/drover/cmd/drover/listing"
)

// output is the flag -o with the formats of kubectl.
type output struct {
	flags     *genericclioptions.PrintFlags
	noHeaders bool
	// formats are the formats that the help lists.
	formats []string
	// tables writes the rows of a watch below each other.
	tables io.Writer
	// printer prints documents. It is kept, because the YAML printer writes a separator between two
	// documents.
	printer printers.ResourcePrinter
}

func newOutput(cmd *cobra.Command, withName bool) *output {
	o := &output{flags: genericclioptions.NewPrintFlags("")}
	o.flags.JSONYamlPrintFlags.ShowManagedFields = true
	o.flags.AddFlags(cmd)
	flag := cmd.Flags().Lookup("output")
	formats := []string{"json", "yaml", "wide"}
	if withName {
		formats = append(formats, "name")
	}
	o.formats = append(slices.Clone(formats), "jsonpath=...", "go-template=...")
	flag.Usage = fmt.Sprintf("Output format: %s; the documents are described in docs/cli.md.", strings.Join(o.formats, ", "))
	// Managed fields are not in drover's documents.
	_ = cmd.Flags().MarkHidden("show-managed-fields")
	cmd.Flags().BoolVar(&o.noHeaders, "no-headers", false, "Print the table without its header.")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(append(formats, "jsonpath=", "go-template="), cobra.ShellCompDirectiveNoFileComp))
	return o
}

// format is the value of -o; a template alone asks for a template too.
func (o *output) format() string {
	format := ptr.Deref(o.flags.OutputFormat, "")
	if format == "" && ptr.Deref(o.flags.TemplatePrinterFlags.TemplateArgument, "") != "" {
		return "go-template"
	}
	return format
}

// isTable reports that rows are wanted, not documents.
func (o *output) isTable() bool { return o.format() == "" || o.format() == "wide" }

// check finds a wrong -o before anything is read.
func (o *output) check(cmd *cobra.Command) error {
	named := o.format() == "name"
	if o.isTable() || named && slices.Contains(o.formats, "name") {
		return nil
	}
	var err error
	if o.printer, err = o.flags.ToPrinter(); named || genericclioptions.IsNoCompatiblePrinterError(err) {
		return usagef(cmd, "the output %q is unknown; -o takes %s", o.format(), strings.Join(o.formats, ", "))
	}
	if err != nil {
		return usage(cmd, err)
	}
	return nil
}

// table prints rows; the second and later tables have no header and keep the columns of the first.
func (o *output) table(w io.Writer, table *metav1.Table) error {
	first := o.tables == nil
	if first {
		o.tables = printers.GetNewTabWriter(w)
	}
	printer := printers.NewTablePrinter(printers.PrintOptions{NoHeaders: o.noHeaders || !first, Wide: o.format() == "wide"})
	if err := printer.PrintObj(table, o.tables); err != nil {
		return fmt.Errorf("printing a table: %w", err)
	}
	if flusher, ok := o.tables.(interface{ Flush() error }); ok {
		return flusher.Flush()
	}
	return nil
}

// document prints a value that has a JSON form in the format of -o; check must have run before. A
// template prints a status unfiltered.
func (e *env) document(o *output, document any) error {
	raw, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	object := &unstructured.Unstructured{}
	// Kubernetes' own decoder keeps whole numbers whole.
	if err := utiljson.Unmarshal(raw, &object.Object); err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	return e.toTerminal(func(out io.Writer) error {
		if err := o.printer.PrintObj(object, out); err != nil {
			return fmt.Errorf("printing a document: %w", err)
		}
		return nil
	})
}

// addFormatFlag adds the flag -o with json and yaml to a command that prints no list. The flag is
// checked before any object is read.
func addFormatFlag(cmd *cobra.Command, format *string) {
	addFormats(cmd, format, "json", "yaml")
}

// addResultFlag adds the flag -o with json, yaml and name to a command that changes a Cluster or waits
// for it.
func addResultFlag(cmd *cobra.Command, format *string) {
	addFormats(cmd, format, "json", "yaml", "name")
}

func addFormats(cmd *cobra.Command, format *string, formats ...string) {
	last := len(formats) - 1
	words := strings.Join(formats[:last], ", ") + " or " + formats[last]
	cmd.Flags().StringVarP(format, "output", "o", "", "Print as "+words+".")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if *format != "" && !slices.Contains(formats, *format) {
			return usagef(cmd, "the output %q is unknown; -o takes %s", *format, words)
		}
		return nil
	}
}

// result prints the outcome of a command for a Cluster: lines of text, the Cluster's name, or a list
// with the Cluster. The Cluster is nil if it does not exist.
func (e *env) result(format, name string, cluster *provv1.Cluster, lines ...string) error {
	switch format {
	case "":
		for _, line := range lines {
			if _, err := fmt.Fprintln(e.Streams.Out, listing.ClusterRef+"/"+name+": "+line); err != nil {
				return err
			}
		}
		return nil
	case "name":
		_, err := fmt.Fprintln(e.Streams.Out, listing.ClusterRef+"/"+name)
		return err
	}
	var found []*provv1.Cluster
	if cluster != nil {
		found = append(found, cluster)
	}
	return e.toTerminal(func(out io.Writer) error { return printDocument(out, format, listing.NewClusterList(found)) })
}

// printDocument prints a document as json or yaml.
func printDocument(w io.Writer, format string, document any) error {
	if format == "yaml" {
		raw, err := yaml.Marshal(document)
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		_, err = w.Write(raw)
		return err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "    ")
	// The commands in it are for people too.
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

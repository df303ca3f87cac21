package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"

	"github.com/drover-project/drover/capi"
)

// maxEntry bounds one entry of the log, in bytes. Others' words are in some: client-go logs an
// object that it cannot keep, and an error as a server wrote it.
const maxEntry = 16 << 10

// boundLog has klog, whose flags these are, write its entries to out, each within its bound.
func boundLog(flags *flag.FlagSet, out io.Writer) error {
	// By itself klog writes an entry to each lower severity's file as well, and errors to standard
	// error.
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("setting the log up: %w", err)
		}
	}
	klog.SetOutput(boundedEntries{out})
	return nil
}

// boundedEntries writes the bytes of one call as one entry, up to a limit.
type boundedEntries struct{ out io.Writer }

// Write implements io.Writer.
func (b boundedEntries) Write(entry []byte) (int, error) {
	if len(entry) <= maxEntry {
		return b.out.Write(entry)
	}
	_, err := fmt.Fprintf(b.out, "%s… and %d bytes more\n", strings.ToValidUTF8(string(entry[:maxEntry]), ""), len(entry)-maxEntry)
	return len(entry), err
}

// calm is a log that reports an unreachable workload cluster not as an error while the cluster is
// being created or deleted: Cluster API's controllers log it in each reconcile. At verbosity 1 and
// higher it is logged.
type calm struct{ logr.LogSink }

var _ logr.CallDepthLogSink = calm{}

func newCalm(log logr.Logger) logr.Logger { return logr.New(calm{log.WithCallDepth(1).GetSink()}) }

// Init implements logr.LogSink; the other log has it behind it.
func (calm) Init(logr.RuntimeInfo) {}

// Error implements logr.LogSink.
func (c calm) Error(err error, msg string, pairs ...any) {
	if isNotConnected(err) {
		c.Info(1, msg, append(slices.Clip(pairs), "err", err)...)
		return
	}
	c.LogSink.Error(err, msg, pairs...)
}

// WithValues implements logr.LogSink.
func (c calm) WithValues(pairs ...any) logr.LogSink { return calm{c.LogSink.WithValues(pairs...)} }

// WithName implements logr.LogSink.
func (c calm) WithName(name string) logr.LogSink { return calm{c.LogSink.WithName(name)} }

// WithCallDepth implements logr.CallDepthLogSink.
func (c calm) WithCallDepth(depth int) logr.LogSink {
	if deeper, ok := c.LogSink.(logr.CallDepthLogSink); ok {
		c.LogSink = deeper.WithCallDepth(depth)
	}
	return c
}

// isNotConnected reports whether the only cause of an error is a missing connection to a workload
// cluster.
func isNotConnected(err error) bool {
	if several := (interface{ Unwrap() []error })(nil); errors.As(err, &several) {
		return !slices.ContainsFunc(several.Unwrap(), func(err error) bool { return !isNotConnected(err) })
	}
	if several := utilerrors.Aggregate(nil); errors.As(err, &several) {
		return !slices.ContainsFunc(several.Errors(), func(err error) bool { return !isNotConnected(err) })
	}
	return errors.Is(err, capi.ErrNotConnected)
}

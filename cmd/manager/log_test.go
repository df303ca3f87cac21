package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
)

// captureLog is what klog writes at a verbosity.
func captureLog(t *testing.T, verbosity string) *bytes.Buffer {
	t.Helper()
	t.Cleanup(klog.CaptureState().Restore)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	out := &bytes.Buffer{}
	require.NoError(t, boundLog(flags, out))
	require.NoError(t, flags.Set("v", verbosity))
	return out
}

func TestBoundLog(t *testing.T) {
	out := captureLog(t, "0")

	klog.Background().Error(nil, "short")
	klog.Flush()
	require.Equal(t, 1, strings.Count(out.String(), `"short"`), "once, whatever its severity")

	out.Reset()
	klog.Background().Info("long", "object", strings.Repeat("ü", maxEntry))
	klog.Flush()
	require.Less(t, out.Len(), maxEntry+100)
	require.Regexp(t, `^I.* "long" object="üü.*ü… and \d+ bytes more\n$`, out.String())
}

// TestCalm_errors: of errors only one is none, and is none to who asks for more; others beside it count.
func TestCalm_errors(t *testing.T) {
	down := fmt.Errorf("cluster team/one: %w", clustercache.ErrClusterNotConnected)
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		err  error
		none bool
	}{
		"no connection":                      {down, true},
		"wrapped once more":                  {fmt.Errorf("getting a Node: %w", down), true},
		"several, of Cluster API":            {utilerrors.NewAggregate([]error{down, utilerrors.NewAggregate([]error{down})}), true},
		"several, joined":                    {errors.Join(down, down), true},
		"another":                            {broken, false},
		"none given":                         {nil, false},
		"another of the same words":          {errors.New(clustercache.ErrClusterNotConnected.Error()), false},
		"another beside it, of Cluster API":  {utilerrors.NewAggregate([]error{down, broken}), false},
		"another beside it, joined":          {errors.Join(down, broken), false},
		"another beside it, wrapped":         {fmt.Errorf("reconciling: %w", utilerrors.NewAggregate([]error{down, broken})), false},
		"another beside it, wrapped at once": {fmt.Errorf("%w, after %w", down, broken), false},
	} {
		t.Run(name, func(t *testing.T) {
			for verbosity, quiet := range map[string]string{"0": "", "1": "I"} {
				out := captureLog(t, verbosity)
				newCalm(klog.Background()).WithValues("Machine", "team/m").Error(tt.err, "Reconciler error", "n", 1)
				klog.Flush()
				want := "E"
				if tt.none {
					want = quiet
				}
				if want == "" {
					require.Empty(t, out.String())
					continue
				}
				require.Regexp(t, "^"+want+`\d.* log_test\.go:\d+\] "Reconciler error"`, out.String())
				require.Contains(t, out.String(), `Machine="team/m"`)
				require.Contains(t, out.String(), ` n=1`)
			}
		})
	}
}

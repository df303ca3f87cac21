package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

func TestBoundLog(t *testing.T) {
	state := klog.CaptureState()
	defer state.Restore()
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	out := &bytes.Buffer{}
	require.NoError(t, boundLog(flags, out))

	klog.Background().Error(nil, "short")
	klog.Flush()
	require.Equal(t, 1, strings.Count(out.String(), `"short"`), "once, whatever its severity")

	out.Reset()
	klog.Background().Info("long", "object", strings.Repeat("ü", maxEntry))
	klog.Flush()
	require.Less(t, out.Len(), maxEntry+100)
	require.Regexp(t, `^I.* "long" object="üü.*ü… and \d+ bytes more\n$`, out.String())
}

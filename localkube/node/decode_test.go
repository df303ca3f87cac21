package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
)

// decodeInto reads a configuration as the component does.
func decodeInto(decoder runtime.Decoder, raw []byte, into runtime.Object) error {
	_, _, err := decoder.Decode(raw, nil, into)
	return err
}

func TestOptions_Validate(t *testing.T) {
	const noLabel, noArg = " is not key=value", " is not name=value without dashes before the name"
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"nothing":                {Options{}, ""},
		"labels":                 {Options{Labels: []string{"a=b", "example.com/zone=eu-1", "empty="}}, ""},
		"kubelet flags":          {Options{KubeletArgs: []string{"v=4", "max-pods=9", "cluster-dns=198.19.128.10", "enable-server"}}, ""},
		"label without value":    {Options{Labels: []string{"a=b", "zone"}}, `--node-label "zone"` + noLabel},
		"empty label":            {Options{Labels: []string{""}}, `--node-label ""` + noLabel},
		"label without key":      {Options{Labels: []string{"=b"}}, `--node-label "=b" is not a label: name part must be non-empty`},
		"label of two values":    {Options{Labels: []string{"a=b=c"}}, `--node-label "a=b=c" is not a label: a valid label must be`},
		"label with a space":     {Options{Labels: []string{"a b=c"}}, `--node-label "a b=c" is not a label: name part must consist of`},
		"label that is long":     {Options{Labels: []string{"a=0123456789012345678901234567890123456789012345678901234567890123"}}, "must be no more than 63 bytes"},
		"kubelet flag, dashes":   {Options{KubeletArgs: []string{"--v=4"}}, `--kubelet-arg "--v=4"` + noArg},
		"kubelet flag, dash":     {Options{KubeletArgs: []string{"v=4", "-v=4"}}, `--kubelet-arg "-v=4"` + noArg},
		"kubelet flag, no name":  {Options{KubeletArgs: []string{"=4"}}, `--kubelet-arg "=4"` + noArg},
		"kubelet flag, two":      {Options{KubeletArgs: []string{"v 4"}}, `--kubelet-arg "v 4"` + noArg},
		"kubelet flag, empty":    {Options{KubeletArgs: []string{""}}, `--kubelet-arg ""` + noArg},
		"value may have a space": {Options{KubeletArgs: []string{"node-labels=a b"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.opts.Validate()
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestOptions_Validate_keeps_lists_whole(t *testing.T) {
	check := func(label, arg string) {
		if (Options{Labels: []string{label}, KubeletArgs: []string{arg}}).Validate() != nil {
			return
		}
		require.NotContains(t, label, ",", "labels are joined by commas")
		require.NotContains(t, label, " ")
		require.NotEqual(t, byte('-'), arg[0])
	}
	check("a=b", "v=4")
	check("=", "-")
}

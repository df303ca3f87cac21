package plan_test

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

func TestOutput(t *testing.T) {
	output := map[string][]byte{"b": []byte("out"), "a": {0xff, 0}}
	raw, err := plan.EncodeOutput(output)
	require.NoError(t, err)
	again, err := plan.EncodeOutput(output)
	require.NoError(t, err)
	require.Equal(t, raw, again, "the same output makes the same bytes, so that it is not written again")
	read, err := plan.DecodeOutput[map[string][]byte](raw)
	require.NoError(t, err)
	require.Equal(t, output, read)

	periodic := map[string]plan.PeriodicOutput{"p": {Name: "p", Stdout: []byte("x"), Failures: 2, ExitCode: 1}}
	raw, err = plan.EncodeOutput(periodic)
	require.NoError(t, err)
	ran, err := plan.DecodeOutput[map[string]plan.PeriodicOutput](raw)
	require.NoError(t, err)
	require.Equal(t, []byte("x"), ran["p"].Stdout)

	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	for range 17 {
		_, err := zip.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, zip.Close())
	_, err = plan.DecodeOutput[map[string][]byte](bomb.Bytes())
	require.ErrorContains(t, err, "more than")
}

// FuzzReports: refused, or texts and output within their bounds.
func FuzzReports(f *testing.F) {
	raw, err := plan.EncodeOutput(map[string][]byte{"a": []byte("b")})
	require.NoError(f, err)
	f.Add(raw)
	f.Add([]byte(`{"version":"v1","message":"` + strings.Repeat("ä", 2000) + `","output":"` + strings.Repeat("x\n", 9000) + `"}`))
	f.Add([]byte(`{"etcd":{"healthy":true,"successCount":1}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if output, err := plan.DecodeOutput[map[string][]byte](raw); err == nil && output != nil {
			encoded, err := plan.EncodeOutput(output)
			require.NoError(t, err)
			again, err := plan.DecodeOutput[map[string][]byte](encoded)
			require.NoError(t, err)
			require.Len(t, again, len(output))
		}
		_, _ = plan.DecodeOutput[map[string]plan.PeriodicOutput](raw)
		_, _ = plan.DecodeProbeStatuses(raw)
		status, err := plan.DecodeAgentStatus(raw)
		if err == nil {
			require.LessOrEqual(t, len(status.Message), plan.MaxMessageBytes)
			require.LessOrEqual(t, len(status.Output), plan.MaxTailBytes)
			require.True(t, utf8.ValidString(status.Message) && utf8.ValidString(status.Output))
		}
	})
}

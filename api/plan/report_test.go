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

// TestFailedStep: the step that failed and the end of its output, of our agent and of one that saves output and reports no status.
func TestFailedStep(t *testing.T) {
	saved := func(output map[string][]byte) []byte {
		raw, err := plan.EncodeOutput(output)
		require.NoError(t, err)
		return raw
	}
	long := strings.Repeat("x", 2*plan.MaxTailBytes)
	raw := []byte(`{"files":[]}`)
	for name, tt := range map[string]struct {
		data         map[string][]byte
		step, output string
		err          string
	}{
		"nothing": {data: map[string][]byte{plan.KeyPlan: raw}},
		"our agent": {data: map[string][]byte{plan.KeyPlan: raw, plan.KeyAgentStatus: []byte(`{"step":"instruction a","output":"said"}`), plan.KeyFailedChecksum: []byte(plan.Checksum(raw)),
			plan.KeyFailedOutput: saved(map[string][]byte{"install": []byte("other")})}, step: "instruction a", output: "said"},
		"our agent is stuck": {data: map[string][]byte{plan.KeyPlan: raw, plan.KeyAgentStatus: []byte(`{"message":"disk full"}`), plan.KeyFailedChecksum: []byte(plan.Checksum(raw)),
			plan.KeyFailedOutput: saved(map[string][]byte{"install": []byte("other")})}},
		"another agent": {data: map[string][]byte{plan.KeyPlan: raw, plan.KeyFailedChecksum: []byte(plan.Checksum(raw)),
			plan.KeyFailedOutput: saved(map[string][]byte{"install": []byte("\xffno such image\n")})}, step: "instruction install", output: "no such image\n"},
		"too long": {data: map[string][]byte{plan.KeyPlan: raw, plan.KeyFailedChecksum: []byte(plan.Checksum(raw)),
			plan.KeyFailedOutput: saved(map[string][]byte{"install": []byte(long + "end")})}, step: "instruction install", output: long[:plan.MaxTailBytes-3] + "end"},
		"of an earlier plan": {data: map[string][]byte{plan.KeyPlan: raw, plan.KeyFailedChecksum: []byte("x"), plan.KeyFailedOutput: saved(map[string][]byte{"install": []byte("said")})}},
		"not readable":       {data: map[string][]byte{plan.KeyPlan: raw, plan.KeyFailedChecksum: []byte(plan.Checksum(raw)), plan.KeyFailedOutput: []byte("text")}, err: "unzipping output"},
	} {
		t.Run(name, func(t *testing.T) {
			step, output, err := plan.FailedStep(tt.data)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, []string{tt.step, tt.output}, []string{step, output})
		})
	}
}

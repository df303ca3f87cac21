package plan_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

// TestDecode reads a plan with every field there is and writes the same again: the names are system-agent's.
func TestDecode(t *testing.T) {
	raw, err := os.ReadFile("testdata/every-field.json")
	require.NoError(t, err)
	p, err := plan.Decode(raw)
	require.NoError(t, err)
	again, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, string(raw), string(again))

	content, err := p.Files[0].Bytes()
	require.NoError(t, err)
	require.Equal(t, "token: x\n", string(content))
	require.Equal(t, plan.NewFile("/etc/rancher/k3s/config.yaml", "0600", content).Content, p.Files[0].Content)
}

func TestDecodeRefuses(t *testing.T) {
	many := strings.Repeat(`{"path":"/x"},`, plan.MaxFiles) + `{"path":"/x"}`
	for name, tt := range map[string]struct{ raw, says string }{
		"no JSON":                       {`{`, "unexpected end"},
		"too large":                     {`"` + strings.Repeat("x", plan.MaxBytes) + `"`, "at most"},
		"too many files":                {`{"files":[` + many + `]}`, "files, more than"},
		"a relative path":               {`{"files":[{"path":"etc/x"}]}`, "not absolute"},
		"a path that climbs":            {`{"files":[{"path":"/etc/../x"}]}`, ".. in it"},
		"a path that climbs on Windows": {`{"files":[{"path":"c:\\etc\\..\\x"}]}`, ".. in it"},
		"a setuid file":                 {`{"files":[{"path":"/x","permissions":"4755"}]}`, "more than 0777"},
		"permissions in words":          {`{"files":[{"path":"/x","permissions":"rw"}]}`, "not octal"},
		"an unknown action":             {`{"files":[{"path":"/x","action":"burn"}]}`, "not known"},
		"content that is no base64":     {`{"files":[{"path":"/x","content":"%"}]}`, "decoding the content of /x"},
		"a directory with content":      {`{"files":[{"path":"/x","directory":true,"content":"eA=="}]}`, "has no content"},
		"an owner that is none":         {`{"files":[{"path":"/x","uid":-2}]}`, "not a valid user"},
		"an environment without a name": {`{"instructions":[{"env":["=x"]}]}`, "not NAME=value"},
		"a zero byte":                   {`{"instructions":[{"args":["a\u0000b"]}]}`, "zero byte"},
		"a periodic one without a name": {`{"periodicInstructions":[{}]}`, "a name of its own"},
		"two periodic ones of one name": {`{"periodicInstructions":[{"name":"a"},{"name":"a"}]}`, "a name of its own"},
		"a period that never comes":     {`{"periodicInstructions":[{"name":"a","periodSeconds":99999999}]}`, "periodSeconds"},
		"a threshold below zero":        {`{"probes":{"a":{"failureThreshold":-1}}}`, "failureThreshold"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := plan.Decode([]byte(tt.raw))
			require.ErrorContains(t, err, tt.says)
			require.Less(t, len(err.Error()), 4096, "what is wrong is not told in full length")
		})
	}
}

// FuzzDecode: refused, or a plan that is written and read again as it was, all of it within the bounds.
func FuzzDecode(f *testing.F) {
	raw, err := os.ReadFile("testdata/every-field.json")
	require.NoError(f, err)
	f.Add(raw)
	f.Add([]byte(`{"files":[{"path":"/x","permissions":"0777","uid":-1}],"probes":{"":{"httpGet":{}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := plan.Decode(raw)
		if err != nil {
			return
		}
		for _, file := range p.Files {
			_, err := file.Bytes()
			require.NoError(t, err)
			mode, err := file.Mode()
			require.NoError(t, err)
			require.LessOrEqual(t, mode, uint32(0o777))
		}
		written, err := json.Marshal(p)
		require.NoError(t, err)
		if len(written) > plan.MaxBytes {
			return
		}
		again, err := plan.Decode(written)
		require.NoError(t, err)
		twice, err := json.Marshal(again)
		require.NoError(t, err)
		require.Equal(t, string(written), string(twice))
	})
}

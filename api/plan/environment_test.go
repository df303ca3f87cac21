package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/plan"
)

func TestEnvironment(t *testing.T) {
	variables := []plan.EnvVar{{Name: "GREETING", Value: "it's \"$5\" \\ `id`\t#"}, {Name: "EMPTY", Value: ""}}
	content := plan.EncodeEnvironment(variables)
	require.Equal(t, "GREETING=\"it's \\\"\\$5\\\" \\\\ \\`id\\`\t#\"\nEMPTY=\"\"\n", string(content))
	read, err := plan.DecodeEnvironment(content)
	require.NoError(t, err)
	require.Equal(t, variables, read)
	require.Equal(t, "\n", string(plan.EncodeEnvironment(nil)))

	read, err = plan.DecodeEnvironment([]byte("# by hand\n; too\n\n A=b c \nB='$x \"y\"'\nC=a\\ b\n"))
	require.NoError(t, err)
	require.Equal(t, []plan.EnvVar{{Name: "A", Value: "b c"}, {Name: "B", Value: `$x "y"`}, {Name: "C", Value: "a b"}}, read)
	for content, says := range map[string]string{
		"A=1\ncanary":     "line 2 is not NAME=value",
		"canary x=1":      "line 1 is not NAME=value",
		`A="canary`:       "its quotes do not end",
		`A="canary" more`: "it continues after the quotes",
	} {
		_, err := plan.DecodeEnvironment([]byte(content))
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "canary")
	}
}

func TestEnvVar_Validate(t *testing.T) {
	for variable, says := range map[plan.EnvVar]string{
		{Name: "A", Value: "tab\tand ünïcode"}:  "",
		{Name: "A B"}:                           "is not a valid variable name",
		{Name: ""}:                              "is not a valid variable name",
		{Name: "PATH", Value: "canary"}:         "PATH cannot be set",
		{Name: "DROVER_TOKEN", Value: "canary"}: "DROVER_TOKEN cannot be set",
		{Name: "A", Value: "canary\nB=c"}:       "the value of A is not one line",
		{Name: "A", Value: "canary\x00"}:        "the value of A is not one line",
		{Name: "A", Value: "canary\xff"}:        "the value of A is not one line",
	} {
		err := variable.Validate()
		if says == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "canary")
	}
}

// FuzzEnvironment: variables that are valid are read as they were written, and no content is read
// as a variable that a later write could not keep.
func FuzzEnvironment(f *testing.F) {
	f.Add("A", "it's $(id)", "A=1")
	f.Fuzz(func(t *testing.T, name, value, content string) {
		if v := (plan.EnvVar{Name: name, Value: value}); v.Validate() == nil {
			read, err := plan.DecodeEnvironment(plan.EncodeEnvironment([]plan.EnvVar{v}))
			require.NoError(t, err)
			require.Equal(t, []plan.EnvVar{v}, read)
		}
		read, err := plan.DecodeEnvironment([]byte(content))
		if err != nil {
			return
		}
		for _, v := range read {
			require.NotContains(t, v.Name+v.Value, "\n")
			require.False(t, strings.ContainsAny(v.Name, "= "))
		}
	})
}

package flagvalues

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

func TestOf(t *testing.T) {
	flags := []crdgen.Flag{
		{Name: "x-token", Type: crdgen.String, EnvVar: "X_TOKEN"},
		{Name: "x-region", Type: crdgen.String, EnvVar: "X_OTHER,X_REGION", Default: "nyc"},
		{Name: "x-port", Type: crdgen.Int, Default: int64(22)},
		{Name: "x-disk", Type: crdgen.Int, EnvVar: "X_DISK"},
		{Name: "x-ipv6", Type: crdgen.Bool, EnvVar: "X_IPV6"},
		{Name: "x-list", Type: crdgen.StringSlice, Default: []string{"a", "b"}},
		{Name: "x-more", Type: crdgen.StringSlice},
		{Name: "x-key", Type: crdgen.String},
	}
	request := jobrunner.Request{
		Options: map[string]any{"x-port": float64(2222), "x-more": []any{"c"}, "x-token": nil},
		CredentialEnv: map[string]string{
			"X_TOKEN": "t", "X_REGION": "fra", "X_DISK": "50", "X_IPV6": "true",
		},
	}
	values, err := Of(flags, request, map[string]string{"x-key": "/path"}, false)
	require.NoError(t, err)
	for name, want := range map[string]any{
		"x-token": "t", "x-region": "fra", "x-port": 2222, "x-disk": 50, "x-ipv6": true, "x-list": []string{"a", "b"}, "x-more": []string{"c"},
		"x-key": "/path", "swarm-master": false,
	} {
		require.Equal(t, want, values[name], name)
	}

	for name, options := range map[string]map[string]any{
		"unknown": {"x-colour": "MARKER"}, "not a number": {"x-port": "MARKER"}, "a fraction": {"x-port": 1.5}, "no truth": {"x-ipv6": "MARKER"},
		"no list": {"x-list": map[string]any{}}, "no text": {"x-region": []any{}}, "a list of lists": {"x-list": []any{[]any{}}},
	} {
		request.Options = options
		_, err := Of(flags, request, nil, false)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "MARKER")
	}
	request.Options = map[string]any{"x-colour": "red"}
	_, err = Of(flags, request, nil, true)
	require.NoError(t, err, "a removal does not mind")
}

// TestOf_noPath: a driver that takes an address or a path gets no path into our pod, where the credential lies.
func TestOf_noPath(t *testing.T) {
	const cloudinit, image = "vmwarevsphere-cloudinit", "vmwarevsphere-boot2docker-url"
	flags, _ := driver.Builtin("vmwarevsphere")
	for value, taken := range map[string]bool{
		"": true, "https://example.com/user-data?a=b": true, "http://198.18.0.1/x": true, "HTTPS://example.com": true,
		"/run/drover/request/request.json": false, "../../../run/drover/request/request.json": false, "file:///run/drover/request/request.json": false,
		"request.json": false, "http:/run/x": false, "https://": false, "ftp://example.com/x": false, "http://%zz/../../../../run/x": false, " https://x": false,
	} {
		for name, request := range map[string]jobrunner.Request{
			cloudinit: {Options: map[string]any{cloudinit: value}}, image: {Options: map[string]any{image: value}},
			"the environment": {CredentialEnv: map[string]string{"VSPHERE_CLOUDINIT": value}},
		} {
			values, err := Of(flags, request, nil, false)
			if taken {
				require.NoError(t, err, "%s %q", name, value)
				require.Equal(t, value, values[cloudinit].(string)+values[image].(string))
				continue
			}
			require.ErrorContains(t, err, "it must be an address that begins with http:// or https://", "%s %q", name, value)
			require.NotContains(t, err.Error(), "run")
			values, err = Of(flags, request, nil, true)
			require.NoError(t, err, "a removal does without")
			require.Empty(t, values[cloudinit].(string)+values[image].(string), "%q", value)
		}
	}
	own := []crdgen.Flag{{Name: "x-boot2docker-url", Type: crdgen.String, Default: "/images/x.iso"}}
	values, err := Of(own, jobrunner.Request{}, nil, false)
	require.NoError(t, err)
	require.Equal(t, "/images/x.iso", values["x-boot2docker-url"], "a path of the driver's own is its author's affair")
}

// TestOf_of_every_driver: every flag gets a value of the type that libmachine asserts.
func TestOf_of_every_driver(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		flags, _ := driver.Builtin(name)
		values, err := Of(flags, jobrunner.Request{}, nil, false)
		require.NoError(t, err)
		for _, flag := range flags {
			switch flag.Type {
			case crdgen.Int:
				require.IsType(t, 0, values[flag.Name])
			case crdgen.Bool:
				require.IsType(t, false, values[flag.Name])
			case crdgen.StringSlice:
				require.IsType(t, []string{}, values[flag.Name])
			case crdgen.String:
				require.IsType(t, "", values[flag.Name])
			}
		}
	}
}

func TestWriteFiles(t *testing.T) {
	pair, err := sshkeys.Generate("x")
	require.NoError(t, err)
	dir := t.TempDir()
	paths, err := WriteFiles(dir, map[string][]byte{"x-key": pair.Private, "x-ca": []byte("pem"), "x-empty": nil, "../up": []byte("x")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x-key": filepath.Join(dir, "x-key/id_rsa"), "x-ca": filepath.Join(dir, "x-ca/content")}, paths)
	info, err := os.Stat(paths["x-key"])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.FileExists(t, paths["x-key"]+".pub")
}

func TestTyped(t *testing.T) {
	for name, c := range map[string]struct {
		kind  crdgen.FlagType
		given any
		want  any
		err   string
	}{
		"no text":                {kind: crdgen.String, want: ""},
		"text":                   {kind: crdgen.String, given: "a", want: "a"},
		"a number for a text":    {kind: crdgen.String, given: float64(1234567), err: "must be a string"},
		"a list for a text":      {kind: crdgen.String, given: []any{"MARKER"}, err: "must be a string"},
		"not a number":           {kind: crdgen.Int, want: 0},
		"empty for a number":     {kind: crdgen.Int, given: "", want: 0},
		"a number as text":       {kind: crdgen.Int, given: " 42\n", want: 42},
		"a negative number":      {kind: crdgen.Int, given: float64(-1), want: -1},
		"a fraction":             {kind: crdgen.Int, given: 0.5, err: "must be an integer"},
		"beyond what floats can": {kind: crdgen.Int, given: float64(1 << 60), err: "must be an integer"},
		"a truth for a number":   {kind: crdgen.Int, given: true, err: "must be an integer"},
		"words for a number":     {kind: crdgen.Int, given: "MARKER", err: "must be an integer"},
		"no truth":               {kind: crdgen.Bool, want: false},
		"empty for a truth":      {kind: crdgen.Bool, given: "", want: false},
		"a truth as text":        {kind: crdgen.Bool, given: "T", want: true},
		"yes is no truth":        {kind: crdgen.Bool, given: "yes MARKER", err: "true or false"},
		"a number for a truth":   {kind: crdgen.Bool, given: float64(1), err: "true or false"},
		"no list":                {kind: crdgen.StringSlice, want: []string{}},
		"empty for a list":       {kind: crdgen.StringSlice, given: "", want: []string{}},
		"a list as text":         {kind: crdgen.StringSlice, given: "a,b", want: []string{"a", "b"}},
		"an empty list":          {kind: crdgen.StringSlice, given: []any{}, want: []string{}},
		"numbers in a list":      {kind: crdgen.StringSlice, given: []any{"a", float64(1)}, err: "must be a list of strings"},
		"a number for a list":    {kind: crdgen.StringSlice, given: float64(1), err: "must be a list of strings"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Typed(c.kind, c.given)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.NotContains(t, err.Error(), "MARKER")
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestOf_order(t *testing.T) {
	flag := crdgen.Flag{Name: "x", Type: crdgen.String, EnvVar: "X, Y", Default: "default"}
	env := map[string]string{"Y": "environment", "": "nothing"}
	for name, c := range map[string]struct {
		request jobrunner.Request
		files   map[string]string
		want    string
	}{
		"the default":                 {want: "default"},
		"the environment":             {request: jobrunner.Request{CredentialEnv: env}, want: "environment"},
		"the option":                  {request: jobrunner.Request{CredentialEnv: env, Options: map[string]any{"x": "option"}}, want: "option"},
		"an option that is empty":     {request: jobrunner.Request{CredentialEnv: env, Options: map[string]any{"x": ""}}, want: ""},
		"an option that says nothing": {request: jobrunner.Request{CredentialEnv: env, Options: map[string]any{"x": nil}}, want: "environment"},
		"the file":                    {request: jobrunner.Request{Options: map[string]any{"x": "option"}}, files: map[string]string{"x": "/file"}, want: "/file"},
	} {
		t.Run(name, func(t *testing.T) {
			values, err := Of([]crdgen.Flag{flag}, c.request, c.files, false)
			require.NoError(t, err)
			require.Equal(t, c.want, values["x"])
		})
	}
	_, err := Of([]crdgen.Flag{flag}, jobrunner.Request{Driver: state.DriverRef{Name: "acme"}, Options: map[string]any{"z": 1}}, nil, false)
	require.ErrorContains(t, err, "the driver acme has no option z")
}

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/e2e/vcenter"
)

// vcsim runs the command and returns what it prints.
func vcsim(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := newRootCommand()
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func TestSecretIsWhatTheDriverReads(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, vcenter.WriteEndpoint(dir, vcenter.Endpoint{Address: "[::1]:8989", Username: "me@vsphere.local", Password: "a: b#"}))
	manifest, err := vcsim(t, "secret", "creds", "--state-dir", dir)
	require.NoError(t, err)
	require.Equal(t, `apiVersion: v1
kind: Secret
metadata:
  name: creds
stringData:
  password: 'a: b#'
  username: me@vsphere.local
  vcenter: ::1
  vcenterPort: "8989"
`, manifest)
}

func TestErrors(t *testing.T) {
	empty, portless, broken := t.TempDir(), t.TempDir(), t.TempDir()
	password := filepath.Join(empty, "password")
	require.NoError(t, os.WriteFile(password, []byte(" \n"), 0o600))
	require.NoError(t, vcenter.WriteEndpoint(portless, vcenter.Endpoint{Address: "nowhere", Password: "hidden"}))
	require.NoError(t, os.WriteFile(filepath.Join(broken, "endpoint.json"), []byte("{"), 0o600))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"list, not running":    {[]string{"ls", "--state-dir", empty}, "finding a running simulator"},
		"destroy, not running": {[]string{"destroy", "vm", "--state-dir", empty}, "finding a running simulator"},
		"secret, not running":  {[]string{"secret", "x", "--state-dir", empty}, "finding a running simulator"},
		"secret, broken state": {[]string{"secret", "x", "--state-dir", broken}, "reading the endpoint"},
		"secret, no port":      {[]string{"secret", "x", "--state-dir", portless}, "missing port in address"},
		"secret without name":  {[]string{"secret"}, "accepts 1 arg(s), received 0"},
		"no password file":     {[]string{"serve"}, `required flag(s) "password-file" not set`},
		"empty password":       {[]string{"serve", "--password-file", password, "--state-dir", empty}, "a vCenter needs a username and a password"},
		"unknown command":      {[]string{"nonsense"}, `unknown command "nonsense"`},
	} {
		t.Run(name, func(t *testing.T) {
			printed, err := vcsim(t, test.args...)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, printed+err.Error(), "hidden")
		})
	}
}

package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/soap"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/e2e/vcenter"
	"github.com/drover-project/drover/testkit/golden"
)

// output takes what a command prints while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func passwordFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// serving serves a vCenter until stop, which returns what serve returns.
func serving(t *testing.T, dir string, args ...string) (log *output, stop func() error) {
	t.Helper()
	log = &output{}
	root := newRootCommand()
	root.SetOut(log)
	root.SetErr(log)
	root.SetArgs(append([]string{"serve", "--state-dir", dir, "--password-file", passwordFile(t, "marker: #1\n")}, args...))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	require.Eventually(t, func() bool { return strings.Contains(log.String(), "msg=serving") }, time.Minute, 5*time.Millisecond)
	stop = func() error {
		cancel()
		err := <-ended
		ended <- err
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return log, stop
}

func TestServeUntilInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	log, stop := serving(t, dir)
	endpoint, err := vcenter.ReadEndpoint(dir)
	require.NoError(t, err)
	require.Equal(t, "administrator@vsphere.local", endpoint.Username)
	require.Equal(t, "marker: #1", endpoint.Password)

	list, err := vcsim(t, "ls", "--state-dir", dir)
	require.NoError(t, err)
	require.Empty(t, list, "the template is no machine")
	_, err = vcsim(t, "destroy", "nobody", "--state-dir", dir)
	require.EqualError(t, err, `finding "nobody": 0 virtual machines have that name`)
	_, err = vcsim(t, "destroy", vcenter.Template, "--state-dir", dir)
	require.ErrorContains(t, err, "0 virtual machines")

	require.NoError(t, stop())
	require.NoFileExists(t, filepath.Join(dir, "endpoint.json"), "nothing listens there any more, and its password is gone")
	_, err = vcsim(t, "ls", "--state-dir", dir)
	require.ErrorContains(t, err, "finding a running simulator: ")
	require.NotContains(t, log.String(), "marker")
	require.Contains(t, log.String(), "msg=stopping")
}

// The Secret that is printed lets an unmodified vSphere client in.
func TestSecretLetsAClientIn(t *testing.T) {
	dir := t.TempDir()
	_, stop := serving(t, dir, "--username", "me@vsphere.local")
	defer func() { require.NoError(t, stop()) }()
	manifest, err := vcsim(t, "secret", "creds", "--state-dir", dir)
	require.NoError(t, err)
	var secret corev1.Secret
	require.NoError(t, yaml.UnmarshalStrict([]byte(manifest), &secret))
	at, err := soap.ParseURL(net.JoinHostPort(secret.StringData["vcenter"], secret.StringData["vcenterPort"]))
	require.NoError(t, err)
	require.Equal(t, "me@vsphere.local", secret.StringData["username"])
	machines, err := vcenter.List(t.Context(), vcenter.Endpoint{
		Address: at.Host, Username: secret.StringData["username"], Password: secret.StringData["password"],
	})
	require.NoError(t, err)
	require.Empty(t, machines)
	client, err := vim25.NewClient(t.Context(), soap.NewClient(at, true))
	require.NoError(t, err)
	require.Error(t, session.NewManager(client).Login(t.Context(), at.User), "nobody is let in without")
}

func TestServeRefusesWhatItCannotServe(t *testing.T) {
	good := passwordFile(t, "marker\n")
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no such file":    {[]string{"--password-file", good + "x"}, "reading the password: open "},
		"no cloud":        {[]string{"--password-file", good, "--cloud", filepath.Dir(file)}, "no local cloud is running here"},
		"no state":        {[]string{"--password-file", good, "--state-dir", file}, "making the state directory: "},
		"further words":   {[]string{"--password-file", good, "extra"}, `unknown command "extra" for "vcsim serve"`},
		"password inline": {[]string{"--password", "marker"}, "unknown flag: --password"},
	} {
		t.Run(name, func(t *testing.T) {
			printed, err := vcsim(t, append([]string{"serve", "--state-dir", t.TempDir()}, test.args...)...)
			require.ErrorContains(t, err, test.want)
			require.NotContains(t, printed+err.Error(), "marker")
		})
	}
}

func TestHelp(t *testing.T) {
	var text strings.Builder
	var walk func(command *cobra.Command)
	walk = func(command *cobra.Command) {
		require.NotEmpty(t, command.Short)
		path := strings.Fields(command.CommandPath())[1:]
		out, err := vcsim(t, append(path, "--help")...)
		require.NoError(t, err)
		text.WriteString("==== " + command.CommandPath() + "\n" + out)
		for _, below := range command.Commands() {
			walk(below)
		}
	}
	walk(newRootCommand())
	golden.Require(t, "testdata/help.txt", text.String())
}

package operation_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rancher/machine/libmachine/drivers"
	"github.com/rancher/machine/libmachine/mcnflag"
	serverstate "github.com/rancher/machine/libmachine/state"
	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/state"
)

// taggingDriver is a foreignDriver that has the options of Amazon's which its finder needs, and keeps its server's tags beside it.
type taggingDriver struct {
	*foreignDriver
	InstanceId    string
	KeyPath, Tags string
}

func (d *taggingDriver) GetCreateFlags() []mcnflag.Flag {
	flags := d.foreignDriver.GetCreateFlags()
	for name, value := range map[string]string{"region": "eu-west-1", "tags": "", "endpoint": "", "access-key": "", "secret-key": "", "ssh-keypath": "", "keypair-name": ""} {
		flags = append(flags, mcnflag.StringFlag{Name: "amazonec2-" + name, Value: value})
	}
	return append(flags, mcnflag.BoolFlag{Name: "amazonec2-request-spot-instance"})
}

func (d *taggingDriver) SetConfigFromFlags(options drivers.DriverOptions) error {
	d.KeyPath, d.Tags, d.SSHPort = options.String("amazonec2-ssh-keypath"), options.String("amazonec2-tags"), 1
	return d.foreignDriver.SetConfigFromFlags(options)
}

// Create brings its key, asks for a server, and is cut off as the mode says before it knows the server's id.
func (d *taggingDriver) Create() error {
	for _, end := range []string{"", ".pub"} {
		key, err := os.ReadFile(d.KeyPath + end)
		if err == nil && d.Mode != "made-die keyless" {
			err = os.WriteFile(d.GetSSHKeyPath()+end, key, 0o600)
		}
		if err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(d.Dir, "tags"), []byte(d.Tags), 0o600); err != nil {
		return err
	}
	if err := d.foreignDriver.Create(); err != nil {
		return err
	}
	d.InstanceId = "i-1"
	return nil
}

func (d *taggingDriver) GetState() (serverstate.State, error) { return d.foreignDriver.GetState() }

// Remove knows nothing without an id, like the driver whose name it bears.
func (d *taggingDriver) Remove() error {
	if d.InstanceId == "" {
		return nil
	}
	return d.foreignDriver.Remove()
}

// taggedCloud answers like EC2 for the directory that taggingDriver's servers are in.
type taggedCloud struct {
	cloudDir
	// page is answered in place of everything.
	page string
}

func (c *taggedCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.page != "" {
		_, _ = io.WriteString(w, c.page)
		return
	}
	answer := ""
	switch action := r.FormValue("Action"); {
	case action == "DescribeInstances" && c.servers() == 1 && c.wanted(r.Form):
		answer = "<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><code>16</code><name>running</name></instanceState>" +
			"<ipAddress>127.0.0.1</ipAddress><tagSet>" + c.tags() + "</tagSet></item></instancesSet></item></reservationSet>"
	case action == "TerminateInstances":
		c.remove(c.name)
	}
	_, _ = fmt.Fprintf(w, "<%[1]sResponse>%[2]s</%[1]sResponse>", r.FormValue("Action"), answer)
}

func (c *taggedCloud) pairs() []string {
	content, _ := os.ReadFile(filepath.Join(c.path, "tags"))
	return strings.Split(string(content), ",")
}

func (c *taggedCloud) tags() string {
	var out strings.Builder
	for pairs := c.pairs(); len(pairs) > 1; pairs = pairs[2:] {
		fmt.Fprintf(&out, "<item><key>%s</key><value>%s</value></item>", pairs[0], pairs[1])
	}
	return out.String()
}

// wanted applies the filter by tag.
func (c *taggedCloud) wanted(form url.Values) bool {
	for n := 1; form.Has(fmt.Sprintf("Filter.%d.Name", n)); n++ {
		key, byTag := strings.CutPrefix(form.Get(fmt.Sprintf("Filter.%d.Name", n)), "tag:")
		if byTag && !strings.Contains(strings.Join(c.pairs(), ","), key+","+form.Get(fmt.Sprintf("Filter.%d.Value.1", n))) {
			return false
		}
	}
	return true
}

func taggedJob(t *testing.T, mode string) (*job, *taggedCloud) {
	t.Helper()
	j := newJob(t, "amazonec2")
	c := &taggedCloud{cloudDir: cloudDir{t: t, path: t.TempDir(), name: j.request.InstanceName}}
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	j.request.CredentialEnv = map[string]string{"SLOW_DIR": c.path}
	j.request.Options = map[string]any{"slow-mode": mode, "amazonec2-endpoint": server.URL, "amazonec2-access-key": "AKID", "amazonec2-secret-key": "secret-of-amazon"}
	return j, c
}

// A server whose answer was lost is found by its tag and taken: there is no second one, and nobody has to look at the cloud.
func TestLost_taken(t *testing.T) {
	t.Parallel()
	j, c := taggedJob(t, "made-die")
	require.Equal(t, done, j.tell(state.Create), j.output)
	require.Contains(t, j.output.String(), "server i-1 was found by its tag, and the Job takes it over")
	described, err := state.ReadServer(j.state())
	require.NoError(t, err)
	require.Equal(t, "i-1", described.InstanceID)
	require.Equal(t, 1, c.servers())
	j.requireNoSecrets("secret-of-amazon")
	require.Equal(t, cleared, j.tell(state.Remove), j.output)
	require.Zero(t, c.servers())
}

// Without the key the server is of no use; it is removed, and the next attempt makes one.
func TestLost_withoutKey(t *testing.T) {
	t.Parallel()
	j, c := taggedJob(t, "made-die keyless")
	first := j.tell(state.Create)
	require.False(t, first.mayExist, j.output)
	require.Zero(t, c.servers(), "nobody could log in to it")
	j.request.Options["slow-mode"] = "good"
	require.Equal(t, done, j.tell(state.Create), j.output)
	require.Equal(t, cleared, j.tell(state.Remove), j.output)
}

// A removal finds the server when the whole state is lost.
func TestLost_state(t *testing.T) {
	t.Parallel()
	j, c := taggedJob(t, "made-die")
	require.Equal(t, done, j.tell(state.Create), j.output)
	j.emptyState()
	require.Equal(t, 1, c.servers())
	require.Empty(t, j.tell(state.Remove).reason, j.output)
	require.Zero(t, c.servers())
}

// What is no answer of the cloud is no proof that there is no server.
func TestLost_noAnswer(t *testing.T) {
	t.Parallel()
	j, c := taggedJob(t, "good")
	c.page = "<html><body>Please log in</body></html>"
	got := j.tell(state.Create)
	require.Equal(t, []any{"LookupFailed", false}, []any{got.reason, got.mayExist}, j.output)
	require.Zero(t, c.servers(), "who cannot be asked gets no second server")
	c.page = ""
	require.Equal(t, done, j.tell(state.Create), j.output)
	c.page = "<html>"
	require.Equal(t, "LookupFailed", j.tell(state.Remove).reason, j.output)
	c.page = ""
	require.Equal(t, cleared, j.tell(state.Remove), j.output)
}

// A spot instance has no tag before it runs: then nobody can tell, as before there was a finder.
func TestLost_spot(t *testing.T) {
	t.Parallel()
	j, c := taggedJob(t, "made-die")
	j.request.Options["amazonec2-request-spot-instance"] = true
	first := j.tell(state.Create)
	require.True(t, first.mayExist, j.output)
	j.request.Options["slow-mode"] = "good"
	require.Equal(t, rkev1.ServerMayExistReason, j.tell(state.Create).reason, j.output)
	require.Equal(t, rkev1.ServerMayExistReason, j.tell(state.Remove).reason, j.output)
	require.Equal(t, 1, c.servers())
}

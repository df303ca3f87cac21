package words_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/rancher/machine/drivers/amazonec2"
	"github.com/rancher/machine/drivers/azure"
	"github.com/rancher/machine/drivers/digitalocean"
	"github.com/rancher/machine/drivers/exoscale"
	"github.com/rancher/machine/drivers/generic"
	"github.com/rancher/machine/drivers/google"
	"github.com/rancher/machine/drivers/openstack"
	"github.com/rancher/machine/drivers/pod"
	"github.com/rancher/machine/drivers/rackspace"
	"github.com/rancher/machine/drivers/softlayer"
	"github.com/rancher/machine/drivers/vmwarevcloudair"
	"github.com/rancher/machine/drivers/vmwarevsphere"
	"github.com/rancher/machine/libmachine/drivers"
	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/clouds"
)

var fieldName = regexp.MustCompile(`\{([^}]+)\}`)

// TestProfiles_name_fields_that_exist: a field that a new release of a driver renames would leave its servers without a name.
func TestProfiles_name_fields_that_exist(t *testing.T) {
	for name, d := range map[string]drivers.Driver{
		"amazonec2": amazonec2.NewDriver("m1", "/x"), "azure": azure.NewDriver("m1", "/x"), "digitalocean": digitalocean.NewDriver("m1", "/x"),
		"exoscale": exoscale.NewDriver("m1", "/x"), "generic": generic.NewDriver("m1", "/x"), "google": google.NewDriver("m1", "/x"),
		"openstack": openstack.NewDriver("m1", "/x"), "pod": pod.NewDriver("m1", "/x"), "rackspace": rackspace.NewDriver("m1", "/x"),
		"softlayer": softlayer.NewDriver("m1", "/x"), "vmwarevcloudair": vmwarevcloudair.NewDriver("m1", "/x"),
		"vmwarevsphere": vmwarevsphere.NewDriver("m1", "/x"),
	} {
		raw, err := json.Marshal(d)
		require.NoError(t, err, name)
		fields, err := clouds.DecodeRecord(raw)
		require.NoError(t, err, name)
		p := clouds.Of(name)
		wanted := append([]string{"MachineName", "IPAddress", "StorePath", "SSHKeyPath"}, p.Private...)
		if p.ID != "" {
			wanted = append(wanted, p.ID)
		}
		for _, found := range fieldName.FindAllStringSubmatch(p.ProviderID+p.Zone, -1) {
			wanted = append(wanted, strings.ToUpper(found[1][:1])+found[1][1:])
		}
		for _, field := range wanted {
			require.Contains(t, fields, field, "the record of driver %s", name)
		}
		require.Empty(t, p.ServerID(fields), "driver %s has made nothing yet", name)
	}
}

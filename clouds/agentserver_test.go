package clouds

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunsElsewhere(t *testing.T) {
	for _, c := range []struct {
		providerID, told string
		want             bool
	}{
		{"vultr://cb676a46", "vultr/cb676a46", false},
		{"vultr://cb676a46", "vultr/aaaaaaaa", true},
		{"vultr://cb676a46", "", false},
		{"digitalocean://12", "digitalocean/13", true},
		{"hcloud://12", "hetzner/12", false},
		{"hcloud://12", "hetzner/13", true},
		{"aws:///eu-west-1a/i-12", "aws/i-12", false},
		{"aws:///eu-west-1a/i-12", "aws/i-13", true},
		{"openstack:///B5-1", "openstack/b5-1", false},
		{"openstack:///b5-1", "openstack/b5-2", true},
		{"vultr://cb676a46", "nocloud/web-1", false}, // an image's own seed tells nothing of the cloud
		{"drover://team/web", "vultr/cb676a46", false},
		{"mine-1", "vultr/cb676a46", false},
	} {
		require.Equal(t, c.want, RunsElsewhere(c.providerID, c.told), "%s %s", c.providerID, c.told)
	}
}

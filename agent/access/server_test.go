package access

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/api/connect"
)

func TestCloudServer(t *testing.T) {
	for text, want := range map[string]string{
		`{"v1":{"cloud_name":"vultr","instance_id":"cb676a46-66fd"},"merged_cfg":{}}`: "vultr/cb676a46-66fd",
		`{"v1":{"cloud_name":"digitalocean","instance_id":123456789012}}`:             "digitalocean/123456789012",
		`{"v1":{"cloud_name":"nocloud","instance_id":null}}`:                          "",
		`{"v1":{"cloud_name":"../x","instance_id":"1"}}`:                              "",
		`{"v1":{}}`: "", `[]`: "", ``: "",
	} {
		path := filepath.Join(t.TempDir(), "instance-data.json")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		require.Equal(t, want, CloudServer(path), text)
	}
	require.Empty(t, CloudServer(filepath.Join(t.TempDir(), "none")))
}

// FuzzInstanceData: whatever the file has, the name is one that the endpoint takes, or none.
func FuzzInstanceData(f *testing.F) {
	f.Add([]byte(`{"v1":{"cloud_name":"vultr","instance_id":"cb676a46-66fd"}}`))
	f.Add([]byte(`{"v1":{"cloud_name":"hetzner","instance_id":1e99}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if server := parseInstanceData(content); server != "" {
			require.True(t, connect.IsCloudServer(server), server)
		}
	})
}

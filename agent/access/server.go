package access

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/drover-project/drover/api/connect"
)

// InstanceData is the file to which cloud-init writes the server's metadata at each boot
// (cloudinit.readthedocs.io, "Instance metadata").
const InstanceData = "/run/cloud-init/instance-data.json"

// maxInstanceData bounds the file, which also has cloud-init's whole configuration.
const maxInstanceData = 4 << 20

// CloudServer returns the cloud's name of the server, from cloud-init's file; empty if the file
// does not contain it.
func CloudServer(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }()
	content, err := io.ReadAll(io.LimitReader(file, maxInstanceData))
	if err != nil {
		return ""
	}
	return parseInstanceData(content)
}

func parseInstanceData(content []byte) string {
	var data struct {
		V1 struct {
			Cloud    string `json:"cloud_name"`
			Instance any    `json:"instance_id"`
		} `json:"v1"`
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber() // DigitalOcean's and Hetzner's IDs are numbers
	if decoder.Decode(&data) != nil {
		return ""
	}
	if server := fmt.Sprintf("%s/%v", data.V1.Cloud, data.V1.Instance); data.V1.Instance != nil && connect.IsCloudServer(server) {
		return server
	}
	return ""
}

package nspawn

import (
	"fmt"
	"net/netip"

	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/e2e/cloud/server"
)

const (
	seedDir       = "var/lib/cloud/seed/nocloud"
	interfaceName = "host0" // what nspawn calls the server's end of the cable
)

// seed returns the files of cloud-init's NoCloud seed for the server.
func seed(spec server.Spec, gateway netip.Addr) (map[string]string, error) {
	if !spec.Offline && (!spec.Public.IsValid() || !gateway.IsValid()) {
		return nil, fmt.Errorf("describing the network of %s: it needs an address and a gateway", spec.Name)
	}
	files := map[string]string{"user-data": spec.UserData}
	if spec.UserData == "" { // the file must be there, and an empty one is warned about
		files["user-data"] = "#cloud-config\n{}\n"
	}
	for name, content := range map[string]any{
		"meta-data":      metaData(spec),
		"network-config": networkConfig(spec, gateway),
	} {
		encoded, err := yaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("encoding %s of %s: %w", name, spec.Name, err)
		}
		files[name] = string(encoded)
	}
	vendorData, err := yaml.Marshal(vendorConfig(spec))
	if err != nil {
		return nil, fmt.Errorf("encoding vendor data of %s: %w", spec.Name, err)
	}
	files["vendor-data"] = "#cloud-config\n" + string(vendorData)
	return files, nil
}

func metaData(spec server.Spec) map[string]any {
	return map[string]any{
		"instance-id": spec.InstanceID, "local-hostname": spec.Hostname, "public-keys": append([]string{}, spec.Keys...),
	}
}

// networkConfig is version 2 as this cloud-init reads it, which wants gateway4.
func networkConfig(spec server.Spec, gateway netip.Addr) map[string]any {
	device := map[string]any{"dhcp4": false}
	if !spec.Offline {
		addresses := []string{spec.Public.String() + "/16"}
		if spec.Private.IsValid() {
			addresses = append(addresses, spec.Private.String()+"/16")
		}
		if spec.IPv6.IsValid() {
			addresses = append(addresses, spec.IPv6.String()+"/64")
		}
		device["addresses"] = addresses
		device["gateway4"] = gateway.String()
	}
	return map[string]any{"version": 2, "ethernets": map[string]any{interfaceName: device}}
}

// vendorConfig adds the extra login. It is vendor data so that the user's own
// data stays as it was given.
func vendorConfig(spec server.Spec) map[string]any {
	if spec.User == "" || spec.User == "root" {
		return map[string]any{}
	}
	return map[string]any{"users": []any{"default", map[string]any{
		"name": spec.User, "shell": "/bin/bash", "lock_passwd": true,
		"sudo": "ALL=(ALL) NOPASSWD:ALL", "ssh_authorized_keys": append([]string{}, spec.Keys...),
	}}}
}

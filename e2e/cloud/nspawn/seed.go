package nspawn

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/netip"

	"golang.org/x/crypto/ssh"
	"sigs.k8s.io/yaml"

	"github.com/drover-project/drover/e2e/cloud/server"
)

const (
	seedDir       = "var/lib/cloud/seed/nocloud"
	interfaceName = "host0" // nspawn's name for the server's end of the cable
)

// seed returns the files of cloud-init's NoCloud seed for the server.
func seed(spec server.Spec, gateway netip.Addr) (map[string]string, error) {
	if !spec.Offline && (!spec.Public.IsValid() || !gateway.IsValid()) {
		return nil, fmt.Errorf("describing the network of %s: it needs an address and a gateway", spec.Name)
	}
	device := map[string]any{"dhcp4": false}
	if !spec.Offline {
		addresses := []string{spec.Public.String() + "/16"}
		if spec.Private.IsValid() {
			addresses = append(addresses, spec.Private.String()+"/16")
		}
		if spec.IPv6.IsValid() {
			addresses = append(addresses, spec.IPv6.String()+"/64")
		}
		device["addresses"], device["gateway4"] = addresses, gateway.String() // version 2 as this cloud-init reads it
	}
	files := map[string]string{"user-data": spec.UserData}
	if spec.UserData == "" { // the file must be there, and an empty one is warned about
		files["user-data"] = "#cloud-config\n{}\n"
	}
	for name, content := range map[string]any{
		"meta-data": map[string]any{
			"instance-id": spec.InstanceID, "local-hostname": spec.Hostname, "public-keys": append([]string{}, spec.Keys...),
		},
		"network-config": map[string]any{"version": 2, "ethernets": map[string]any{interfaceName: device}},
	} {
		encoded, err := yaml.Marshal(content)
		if err != nil {
			return nil, fmt.Errorf("encoding %s of %s: %w", name, spec.Name, err)
		}
		files[name] = string(encoded)
	}
	// The extra login is vendor data so that the user's own data stays as it was given.
	vendor := map[string]any{}
	if spec.User != "" && spec.User != "root" {
		vendor["users"] = []any{"default", map[string]any{
			"name": spec.User, "shell": "/bin/bash", "lock_passwd": true,
			"sudo": "ALL=(ALL) NOPASSWD:ALL", "ssh_authorized_keys": append([]string{}, spec.Keys...),
		}}
	}
	vendorData, err := yaml.Marshal(vendor)
	if err != nil {
		return nil, fmt.Errorf("encoding vendor data of %s: %w", spec.Name, err)
	}
	files["vendor-data"] = "#cloud-config\n" + string(vendorData)
	return files, nil
}

const (
	hostKeyFile   = "etc/ssh/ssh_host_ed25519_key"
	machineIDFile = "etc/machine-id"
)

// identity returns the files that must be unique to a server: its SSH host key and its machine id.
// Because the backend makes the key, it is known before the first contact, and the server's boot is
// faster.
func identity() (private, public, machineID string, err error) {
	publicKey, privateKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", "", fmt.Errorf("generating host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(privateKey, "")
	if err != nil {
		return "", "", "", fmt.Errorf("encoding host key: %w", err)
	}
	sshPublic, err := ssh.NewPublicKey(publicKey)
	if err != nil {
		return "", "", "", fmt.Errorf("encoding host key: %w", err)
	}
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	return string(pem.EncodeToMemory(block)), string(ssh.MarshalAuthorizedKey(sshPublic)), hex.EncodeToString(id[:]) + "\n", nil
}

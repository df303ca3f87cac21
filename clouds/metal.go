package clouds

// equinix/docker-machine-driver-metal v0.6.0, pkg/drivers/metal. One program under two names, with
// flags of each. The service ended on 2026-06-30.
var _ = add(equinix("metal", &NodeDriver{Name: "packet", Description: "Equinix Metal, formerly Packet; its driver is called metal.", Hosts: []string{"api.packet.net", "api.equinix.com", "rancher-drivers.equinixmetal.net"},
	Private: []string{"apiKey"}, Files: map[string]string{"userdata": "userdata"},
	Plugin: Plugin{URL: "https://github.com/equinix/docker-machine-driver-metal/releases/download/v0.6.0/docker-machine-driver-metal_linux-amd64.zip",
		Checksums: map[string]string{"amd64": "fad5e551a35d2ef2db742b07ca6d61bb9c9b574d322d3000f0c557d5fb90a734"}}}), equinix("packet", nil))

func equinix(driver string, known *NodeDriver) Cloud {
	return Cloud{
		Driver: driver, ID: "DeviceID", ProviderID: "equinixmetal://{DeviceID}", NodeDriver: known,
		UserData: UserData{Habit: PathAtCreate, Flag: driver + "-userdata"},
		Beside:   "its SSH key",
	}
}

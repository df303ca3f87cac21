package profile

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/drover-project/drover/state"
)

// Facts are what a server is described from.
type Facts struct {
	// Driver's name and its record.
	Driver string
	Record Record
	// InstanceName of the server.
	InstanceName string
	// ProviderID given by the user, and the template of an external driver; both may be empty.
	ProviderID string
	Template   string
	// SSHHost, SSHUser, SSHPort as the driver says.
	SSHHost string
	SSHUser string
	SSHPort int
}

// Server describes a server from its driver's record.
func Server(facts Facts) state.Server {
	profile := Of(facts.Driver)
	record := profile.normal(facts.Driver, facts.Record)
	server := state.Server{
		InstanceID: profile.ServerID(record),
		ProviderID: facts.ProviderID,
		SSHUser:    clean(facts.SSHUser), SSHHost: clean(facts.SSHHost), SSHPort: facts.SSHPort,
		FailureDomain: Fill(profile.Zone, record),
	}
	if server.InstanceID == "" && profile.ByName {
		server.InstanceID = record.Text("MachineName")
	}
	if server.ProviderID == "" && facts.Template != "" {
		server.ProviderID = Fill(facts.Template, record)
	}
	if server.ProviderID == "" {
		server.ProviderID = Fill(profile.ProviderID, record)
	}
	if server.SSHPort < 0 || server.SSHPort > 65535 {
		server.SSHPort = 0
	}
	server.Addresses = addresses(profile, record, server.SSHHost, facts.InstanceName)
	return server
}

func clean(text string) string { return Record{"x": text}.Text("x") }

// addresses are ExternalIP and InternalIP by the kind of address, whatever field it is from. A server with one public
// address has no other one towards its nodes, so that it is the internal one too.
func addresses(profile Profile, record Record, host, name string) []state.Address {
	var out []state.Address
	add := func(kind, address string) {
		candidate := state.Address{Type: kind, Address: address}
		if !slices.Contains(out, candidate) {
			out = append(out, candidate)
		}
	}
	candidates := []string{record.Text("IPAddress"), host, record.Text("PublicIP")}
	for _, field := range profile.Private {
		candidates = append(candidates, record.Text(field))
	}
	candidates = append(candidates, record.Text("PrivateIPAddress"), record.Text("IPv6Address"))
	internal := ""
	for _, text := range candidates {
		kind := kindOf(text)
		if kind != "" {
			add(kind, strings.Trim(text, "[]"))
		}
		if kind == "InternalIP" {
			internal = text
		}
	}
	if internal == "" && len(out) > 0 && out[0].Type == "ExternalIP" {
		add("InternalIP", out[0].Address)
	}
	if hostname := clean(name); hostname != "" && len(hostname) <= state.MaxAddress {
		add("Hostname", hostname)
	}
	return out
}

func kindOf(text string) string {
	if text == "" || len(text) > state.MaxAddress {
		return ""
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	switch {
	case err != nil && strings.Contains(text, ".") && !strings.ContainsAny(text, "/:@"):
		return "ExternalDNS"
	case err != nil || address.IsUnspecified() || address.IsLoopback() || address.IsMulticast():
		return ""
	case address.IsPrivate() || address.IsLinkLocalUnicast() || netip.MustParsePrefix("100.64.0.0/10").Contains(address.Unmap()):
		return "InternalIP"
	}
	return "ExternalIP"
}

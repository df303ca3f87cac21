package clouds

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
)

// MaxAddress is the maximum length of an address, the length of a DNS name (RFC 1035, 2.3.4,
// without the final dot).
const MaxAddress = 253

// Server is the server's data in a machine's status, as the pod writes it.
type Server struct {
	// InstanceID as the cloud names it; may be empty.
	InstanceID string `json:"instanceID,omitempty"`
	// ProviderID in the form the cloud's own controller manager uses; may be empty.
	ProviderID string `json:"providerID,omitempty"`
	// Addresses of the server.
	Addresses []Address `json:"addresses,omitempty"`
	// SSHUser, SSHHost and SSHPort say how to log in.
	SSHUser string `json:"sshUser,omitempty"`
	SSHHost string `json:"sshHost,omitempty"`
	SSHPort int    `json:"sshPort,omitempty"`
	// FailureDomain is the server's actual location; may be empty.
	FailureDomain string `json:"failureDomain,omitempty"`
}

// Address has the type names of Cluster API: ExternalIP, InternalIP, Hostname, ExternalDNS,
// InternalDNS.
type Address struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// Facts are the input for describing a server.
type Facts struct {
	// Record of the driver.
	Record Record
	// Hostname of the server. It is the instance name; an existing host has its own.
	Hostname string
	// ProviderID given by the user, and the template of an external driver; both may be empty.
	ProviderID string
	Template   string
	// SSHHost, SSHUser, SSHPort are the driver's.
	SSHHost string
	SSHUser string
	SSHPort int
	// HostAddresses are IP addresses of the server if SSHHost is a DNS name.
	HostAddresses []netip.Addr
}

// Server describes a server from its driver's record.
func (c Cloud) Server(facts Facts) Server {
	record := facts.Record
	if c.normal != nil {
		record = c.normal(record)
	}
	server := Server{
		InstanceID: c.ServerID(record),
		ProviderID: cmp.Or(facts.ProviderID, Fill(facts.Template, record), Fill(c.ProviderID, record)),
		SSHUser:    clean(facts.SSHUser), SSHHost: clean(facts.SSHHost), SSHPort: facts.SSHPort,
		FailureDomain: Fill(c.Zone, record),
	}
	if server.InstanceID == "" && c.ByName {
		server.InstanceID = record.Text("MachineName")
	}
	if server.SSHPort < 0 || server.SSHPort > 65535 {
		server.SSHPort = 0
	}
	server.Addresses = c.addresses(record, server.SSHHost, facts)
	return server
}

// addresses returns ExternalIP and InternalIP by the kind of address, whatever its field. If a
// server has only one public address, that is also its internal address, because nodes use it to
// reach each other.
func (c Cloud) addresses(record Record, host string, facts Facts) []Address {
	candidates := []string{record.Text("IPAddress"), host}
	for _, address := range facts.HostAddresses {
		candidates = append(candidates, address.String())
	}
	candidates = append(candidates, record.Text("PublicIP"))
	for _, field := range c.Private {
		candidates = append(candidates, record.Text(field))
	}
	candidates = append(candidates, record.Text("PrivateIPAddress"), record.Text("IPv6Address"))
	var out []Address
	for _, text := range candidates {
		found := Address{Type: kindOf(text), Address: strings.Trim(text, "[]")}
		if found.Type != "" && !slices.Contains(out, found) {
			out = append(out, found)
		}
	}
	internal := slices.ContainsFunc(out, func(a Address) bool { return a.Type == "InternalIP" })
	external := slices.IndexFunc(out, func(a Address) bool { return a.Type == "ExternalIP" })
	if !internal && (external == 0 || external > 0 && len(facts.HostAddresses) > 0) {
		out = append(out, Address{Type: "InternalIP", Address: out[external].Address})
	}
	if hostname := clean(facts.Hostname); hostname != "" && len(hostname) <= MaxAddress {
		out = append(out, Address{Type: "Hostname", Address: hostname})
	}
	return out
}

func kindOf(text string) string {
	if text == "" || len(text) > MaxAddress {
		return ""
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	address = address.Unmap()
	switch {
	case err != nil && strings.Contains(text, ".") && !strings.ContainsAny(text, "/:@"):
		return "ExternalDNS"
	case err != nil || !address.IsGlobalUnicast() && !address.IsLinkLocalUnicast():
		return ""
	case address.IsPrivate() || address.IsLinkLocalUnicast() || netip.MustParsePrefix("100.64.0.0/10").Contains(address):
		return "InternalIP"
	}
	return "ExternalIP"
}

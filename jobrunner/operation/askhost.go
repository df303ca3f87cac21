package operation

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/sshkeys"
)

// askHost asks the server, before anything is written there, for facts that the driver does not
// know: the own name of an existing host, and the IP addresses of a server that the driver knows by
// a DNS name. Without an IP address the server could not join a cluster.
func (s *session) askHost(ctx context.Context, client *sshkeys.Client) error {
	byName := isDNSName(s.server.SSHHost)
	if !s.profile.TakesHosts() && !byName {
		return nil
	}
	hostname, peer, err := s.hostFacts(ctx, client)
	if err != nil {
		return err
	}
	if s.profile.TakesHosts() {
		s.facts.Hostname = hostname
	}
	if byName {
		s.facts.HostAddresses = s.hostAddresses(ctx, peer)
	}
	server := s.profile.Server(s.facts)
	s.server = &server
	usable := func(a netip.Addr) bool { return a.IsGlobalUnicast() }
	if byName && !slices.ContainsFunc(s.facts.HostAddresses, usable) {
		return failf(rkev1.OptionsInvalidReason, rkev1.ClassInvalid, "the address %s of the server is a DNS name, but no IP address is known at which other servers reach it: "+
			"the name resolves to none in the Job's pod, and the server's sshd names none. Drover changed nothing there. Set an IP address, or correct the DNS name", s.server.SSHHost)
	}
	return nil
}

// askHostLine prints the host's name and sshd's description of the connection: the address and port
// of both ends.
const askHostLine = `sh -c 'echo "drover-name=$(uname -n)"; echo "drover-connection=$SSH_CONNECTION"'`

// hostFacts returns the host's own name and the address of the host at which the connection
// arrived. Each is empty if the host does not tell it.
func (s *session) hostFacts(ctx context.Context, client *sshkeys.Client) (hostname string, peer netip.Addr, err error) {
	var out bytes.Buffer
	_, err = client.Run(ctx, sshkeys.Command{Line: askHostLine, Stdout: &limited{to: &out, left: maxStatus}, Stderr: s.log})
	if cancelled(err) {
		return "", peer, err
	}
	if err != nil {
		return "", peer, fail(rkev1.SSHUnreachableReason, rkev1.ClassTransient, fmt.Errorf("asking the host for its name: %w", err))
	}
	for line := range strings.Lines(strings.ToValidUTF8(out.String(), "?")) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "drover-name="); ok {
			hostname = name
		}
		if connection, ok := strings.CutPrefix(line, "drover-connection="); ok {
			if fields := strings.Fields(connection); len(fields) == 4 {
				peer, _ = netip.ParseAddr(fields[2])
				peer = peer.Unmap().WithZone("")
			}
		}
	}
	return hostname, peer, nil
}

// hostAddresses returns the IP addresses of a server that the driver knows by a DNS name. The
// address at which the server received the connection comes first, because it is certainly the
// server's own; behind NAT it is not an address of the name. If the name has that address, its
// other addresses of the family are left out: they may belong to other servers.
func (s *session) hostAddresses(ctx context.Context, peer netip.Addr) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	found, err := s.options.LookupIP(ctx, s.server.SSHHost)
	if err != nil {
		s.log.printf("resolving %s: %v", s.server.SSHHost, err) // a jump host may know the name
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	var addresses []netip.Addr
	if peer.IsGlobalUnicast() {
		addresses = append(addresses, peer)
	}
	direct := slices.Contains(found, peer)
	for _, address := range found {
		if !direct || address.Is4() != peer.Is4() {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// isDNSName reports whether a driver knows its server by a DNS name.
func isDNSName(host string) bool {
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host != "" && err != nil
}

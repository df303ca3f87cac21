package server

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/drover-project/drover/localkube/join"
	"github.com/drover-project/drover/localkube/pki"
)

// certify gives an agent a certificate that ends after a while.
func certify(t *testing.T, a *agent, name string, life time.Duration) {
	t.Helper()
	key, err := pki.OpenKey(a.pair(name).Key)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(life),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(a.pair(name).Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
}

func encodeKey(t *testing.T, public any) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestPublicKey(t *testing.T) {
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	big2048, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	small := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), 1023), E: 65537}
	for name, tc := range map[string]struct {
		raw  []byte
		want string
	}{
		"Ed25519":   {encodeKey(t, edwards), ""},
		"ECDSA":     {encodeKey(t, curve.Public()), ""},
		"RSA":       {encodeKey(t, big2048.Public()), ""},
		"short RSA": {encodeKey(t, small), "reading public key: neither ECDSA, Ed25519 nor RSA of 2048 bits or more: denied"},
		"nothing":   {nil, "reading public key: not PEM: denied"},
		"no key":    {[]byte("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"), "reading public key: denied\nasn1: "},
	} {
		t.Run(name, func(t *testing.T) {
			key, err := publicKey(tc.raw)
			if tc.want == "" {
				require.NoError(t, err)
				require.Equal(t, tc.raw, encodeKey(t, key))
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.ErrorIs(t, err, join.ErrDenied)
		})
	}
}

func TestAddAgent_gives_a_name_to_one(t *testing.T) {
	const machines = 12
	s := joinable(t)
	var requests []join.AgentRequest
	for range machines {
		req, _ := request(t, "worker")
		requests = append(requests, req)
	}
	var won, denied atomic.Int32
	var wait sync.WaitGroup
	for _, req := range requests {
		wait.Go(func() {
			switch _, err := s.AddAgent(t.Context(), req); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, join.ErrDenied):
				denied.Add(1)
			}
		})
	}
	wait.Wait()
	require.EqualValues(t, 1, won.Load())
	require.EqualValues(t, machines-1, denied.Load())
}

func TestNames_of_nodes_and_servers_are_one_set(t *testing.T) {
	s := joinable(t)
	node, _ := request(t, "two")
	_, err := s.AddAgent(t.Context(), node)
	require.NoError(t, err)
	_, err = s.AddServer(t.Context(), join.ServerRequest{Name: "two", PeerURL: "https://198.18.0.2:2380"})
	require.EqualError(t, err, "node name two belongs to another machine: set another --node-name, or remove "+s.dir.Path("join", "two")+" if that machine is gone: denied")

	_, err = s.AddServer(t.Context(), join.ServerRequest{Name: "three", PeerURL: "https://198.18.0.3:2380"})
	require.ErrorContains(t, err, "reading shared identities", "no token has been made here")
	impostor, _ := request(t, "three")
	_, err = s.AddAgent(t.Context(), impostor)
	require.ErrorContains(t, err, "node name three belongs to another machine", "its kubelet would be that server's")

	require.NoError(t, os.Remove(s.dir.Path("join", "two")))
	heir, _ := request(t, "two")
	_, err = s.AddAgent(t.Context(), heir)
	require.NoError(t, err, "what the message says helps")
}

func TestClaim_that_cannot_be_read(t *testing.T) {
	s := joinable(t)
	require.NoError(t, os.MkdirAll(s.dir.Path("join", "worker"), 0o700))
	req, _ := request(t, "worker")
	_, err := s.AddAgent(t.Context(), req)
	require.EqualError(t, err, "reading who has node name worker: read "+s.dir.Path("join", "worker")+": is a directory")
	require.NotErrorIs(t, err, join.ErrDenied, "asking again may help")
}

func TestRefuseImpostor(t *testing.T) {
	s := joinable(t)
	s.plane.ExtraNames = []string{"api.example", "198.18.0.200"}
	s.plane.BindAddress = net.IPv4(127, 0, 0, 1)
	host, err := os.Hostname()
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		name    string
		address net.IP
		want    string
	}{
		"a worker":                    {"worker", net.IPv4(198, 18, 0, 2), ""},
		"a name below the API's":      {"worker.api.example", net.IPv4(198, 18, 0, 2), ""},
		"this server":                 {"boss", net.IPv4(198, 18, 0, 2), "node name boss is this server's: set another --node-name: denied"},
		"this machine":                {host, net.IPv4(198, 18, 0, 2), "node name " + host + " is the API server's: set another --node-name: denied"},
		"a name given with --tls-san": {"api.example", net.IPv4(198, 18, 0, 2), "node name api.example is the API server's: set another --node-name: denied"},
		"an address given with it":    {"worker", net.IPv4(198, 18, 0, 200), "address 198.18.0.200 is the API server's: set another --node-ip: denied"},
		"the API server's Service":    {"kubernetes.default.svc", net.IPv4(198, 18, 0, 2), "node name kubernetes.default.svc is the API server's: set another --node-name: denied"},
		"names to come":               {"kubernetes.default.svc.other", net.IPv4(198, 18, 0, 2), "node name kubernetes.default.svc.other is the API server's: set another --node-name: denied"},
		"the advertised address":      {"worker", net.IPv4(198, 18, 0, 1), "address 198.18.0.1 cannot be another machine's: set --node-ip: denied"},
		"no address":                  {"worker", nil, "address <nil> cannot be another machine's: set --node-ip: denied"},
		"loopback":                    {"worker", net.IPv6loopback, "address ::1 cannot be another machine's: set --node-ip: denied"},
		"a Service's address":         {"worker", net.IPv4(198, 19, 200, 1), "address 198.19.200.1 is a Service's: set --node-ip: denied"},
	} {
		t.Run(name, func(t *testing.T) { requireText(t, tc.want, s.refuseImpostor(tc.name, tc.address)) })
	}
}

// Whatever an agent is certified for, a client of the cluster would not take
// it for the API server.
func TestAddAgent_certifies_no_second_API_server(t *testing.T) {
	s := joinable(t)
	s.plane.ExtraNames = []string{"api.example"}
	s.plane.BindAddress = net.IPv4zero
	require.NoError(t, s.plane.IssueIdentities())
	raw, err := os.ReadFile(s.plane.ServingPair().Cert)
	require.NoError(t, err)
	serving := parse(t, raw)
	for i, name := range serving.DNSNames {
		req, _ := request(t, "worker")
		req.NodeName = name
		_, err := s.AddAgent(t.Context(), req)
		require.ErrorIs(t, err, join.ErrDenied, "%d: %s", i, name)
	}
	for _, address := range serving.IPAddresses {
		req, _ := request(t, "worker")
		req.Address = address.String()
		_, err := s.AddAgent(t.Context(), req)
		require.ErrorIs(t, err, join.ErrDenied, address)
	}
	req, _ := request(t, "worker")
	res, err := s.AddAgent(t.Context(), req)
	require.NoError(t, err)
	for _, name := range serving.DNSNames {
		require.Error(t, parse(t, res.KubeletServing).VerifyHostname(name))
	}
}

func TestProgress_bears_many_and_broken_screens(t *testing.T) {
	var log bytes.Buffer
	say := newProgress(&log)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Go(func() { say.step("step %d of %s", i, "many") })
	}
	wait.Wait()
	lines := bytes.Split(bytes.TrimSpace(log.Bytes()), []byte("\n"))
	require.Len(t, lines, 20)
	for _, line := range lines {
		require.Regexp(t, `^localkube +\d+\.\d\ds  step \d+ of many$`, string(line))
	}
	newProgress(broken{}).step("nobody reads this")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no screen") }

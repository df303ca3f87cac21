package workload

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// TestMain gives the manager a proxy, which is asked for none of the addresses of this machine.
func TestMain(m *testing.M) {
	for _, name := range []string{"NO_PROXY", "no_proxy", "https_proxy"} {
		_ = os.Unsetenv(name)
	}
	_ = os.Setenv("HTTPS_PROXY", "https://127.0.0.1:1")
	os.Exit(m.Run())
}

// Past a proxy nobody is called and nobody asked; that there is one is told at once.
func TestProxied(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)))
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c1"}}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	key := client.ObjectKeyFromObject(cluster)
	for host, want := range map[string]bool{"https://192.0.2.1": true, "https://127.0.0.1:1": false} {
		d, err := newDialer(&rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, func(context.Context) []string { return nil }, nil)
		require.NoError(t, err)
		require.Equal(t, want, d.servers == nil, host)

		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "c1-kubeconfig"}, Data: map[string][]byte{"value": []byte(
			"current-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n" +
				"users: [{name: u, user: {token: t}}]\nclusters: [{name: c, cluster: {server: '" + host + "'}}]\n")}}
		known := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster, secret).Build()
		told := 0
		c := &Clusters{client: known, secrets: known, scheme: scheme, limits: newLimits(), base: t.Context(), remotes: map[client.ObjectKey]*remoteCluster{}}
		c.OnNode(func(client.ObjectKey, types.UID) { told++ })
		_, err = c.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		require.False(t, c.Reaches(key))
		require.Equal(t, want, c.Proxied(key), host)
		require.Equal(t, want, told == 1, host)
	}
}

// The address of the kubeconfig goes first; while it does not answer a server of the control plane is called, which the kubeconfig's authority must have signed for.
func TestDialer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }))
	defer server.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	second := httptest.NewTLSServer(server.Config.Handler)
	defer second.Close()
	stranger := httptest.NewUnstartedServer(http.NotFoundHandler())
	stranger.Start()
	defer stranger.Close()
	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	nobody, there, other := closed.Addr().String(), server.Listener.Addr().String(), second.Listener.Addr().String()
	require.NoError(t, closed.Close())
	mute := silence(t)
	for what, tt := range map[string]struct {
		address  string
		servers  []string
		insecure bool
		through  string
		err      bool
	}{
		"the kubeconfig's own":                 {address: there, servers: []string{nobody}},
		"nobody, and no other":                 {address: nobody, err: true},
		"a server":                             {address: nobody, servers: []string{there}, through: there},
		"the second server":                    {address: nobody, servers: []string{nobody, there}, through: there},
		"the first of two":                     {address: nobody, servers: []string{there, other}, through: there},
		"a kubeconfig without a port":          {address: "127.0.0.1", servers: []string{there}, through: there},
		"who accepts and never greets":         {address: mute, servers: []string{mute, mute, mute, mute, mute, there}, through: there},
		"a stranger at the endpoint":           {address: stranger.Listener.Addr().String(), servers: []string{there}, through: there},
		"a stranger in the place of a server":  {address: nobody, servers: []string{stranger.Listener.Addr().String()}, err: true},
		"a kubeconfig that trusts whoever":     {address: nobody, servers: []string{there}, insecure: true, err: true},
		"neither the endpoint nor the servers": {address: nobody, servers: []string{nobody}, err: true},
	} {
		t.Run(what, func(t *testing.T) {
			config, told := &rest.Config{Host: "https://" + tt.address, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, 0
			if tt.insecure {
				config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
			}
			d, err := newDialer(config, func(context.Context) []string { return tt.servers }, func() { told++ })
			require.NoError(t, err)
			transport := newTransport(d)
			defer transport.CloseIdleConnections()
			ctx, cancel := context.WithTimeout(t.Context(), callTime)
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host, nil)
			require.NoError(t, err)
			response, err := transport.RoundTrip(request)
			require.Equal(t, tt.err, err != nil, "%v", err)
			if err == nil {
				require.NoError(t, response.Body.Close())
				require.Equal(t, 1, response.ProtoMajor)
			}
			require.Equal(t, tt.through, d.by())
			require.Equal(t, tt.through != "", told == 1, "it is told once")
			require.False(t, d.isBack(t.Context()))
		})
	}
}

// silence is the address of a listener whose connections are made by the kernel, and never heard of again.
func silence(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Who is called beside the one that is taken is hung up on, whether he has greeted or not.
func TestDialer_hangsUp(t *testing.T) {
	arrived, ended := make(chan struct{}, 2), make(chan struct{}, 2)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		<-arrived
		<-arrived
		return nil, nil // nothing else than it has
	}}
	server.StartTLS()
	defer server.Close()
	servers := []string{server.Listener.Addr().String()}
	for _, greets := range []bool{false, true} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = listener.Close() }()
		servers = append(servers, listener.Addr().String())
		go func() {
			accepted, err := listener.Accept()
			if err == nil && greets {
				err = tls.Server(accepted, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: server.TLS.Certificates}).Handshake()
			}
			if err == nil {
				arrived <- struct{}{}
				_, _ = io.Copy(io.Discard, accepted)
				ended <- struct{}{}
			}
		}()
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	d, err := newDialer(&rest.Config{Host: "https://127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, nil, nil)
	require.NoError(t, err)
	made, by := d.greetServers(t.Context(), "tcp", servers)
	require.Equal(t, servers[0], by)
	<-ended
	<-ended
	require.NoError(t, made.Close())
}

// An address that answers again is found, and the next connection is made there.
func TestDialer_isBack(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	authority, there := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), server.Listener.Addr().String()
	told := 0
	d, err := newDialer(&rest.Config{Host: "https://" + there, TLSClientConfig: rest.TLSClientConfig{CAData: authority}}, nil, func() { told++ })
	require.NoError(t, err)
	d.note("10.0.0.1:6443")
	require.True(t, d.isBack(t.Context()))
	made, err := d.Dial(t.Context(), "tcp", there)
	require.NoError(t, err)
	require.NoError(t, made.Close())
	require.Empty(t, d.by())
	require.Equal(t, 2, told)
}

// door is a listener behind which nobody is while it is shut.
type door struct {
	net.Listener
	shut atomic.Bool
}

func (d *door) Accept() (net.Conn, error) {
	for {
		accepted, err := d.Listener.Accept()
		if err != nil || !d.shut.Load() {
			return accepted, err
		}
		_ = accepted.Close()
	}
}

// A cluster leaves the detour with the next probe once its own address is back, though its connection to the server would go on.
func TestProbe_leavesTheDetour(t *testing.T) {
	answer := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) })
	server, own := httptest.NewTLSServer(answer), httptest.NewUnstartedServer(answer)
	defer server.Close()
	entry := &door{Listener: own.Listener}
	entry.shut.Store(true)
	own.Listener = entry
	own.StartTLS()
	defer own.Close()
	there := server.Listener.Addr().String()
	config := &rest.Config{Host: "https://" + entry.Addr().String(), TLSClientConfig: rest.TLSClientConfig{
		CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}}
	d, err := newDialer(config, func(context.Context) []string { return []string{there} }, nil)
	require.NoError(t, err)
	transport := newTransport(d)
	defer transport.CloseIdleConnections()
	calls, err := limited{tenant: newLimits().tenant("team"), answer: maxHeader, time: callTime}.httpClient(config, transport)
	require.NoError(t, err)
	open := &connection{dialer: d, hangUp: transport.CloseIdleConnections}
	open.server, err = rawClient(config, calls)
	require.NoError(t, err)
	c, known := &Clusters{}, &remoteCluster{open: open, isUsed: true}
	for _, step := range []struct {
		shut bool
		by   string
	}{{true, there}, {true, there}, {false, there}, {false, ""}} {
		entry.shut.Store(step.shut)
		require.Equal(t, probeInterval, c.probe(t.Context(), known, open))
		require.Equal(t, step.by, known.by())
	}
}

// Servers are called at what their Machines say, with annotations in the place of the status, and never at what leads back to the manager itself.
func TestServersAmong(t *testing.T) {
	machine := func(kind string, addresses ...clusterv1.MachineAddress) clusterv1.Machine {
		return clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}},
			Spec:   clusterv1.MachineSpec{Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: kind, Name: "x"}}},
			Status: clusterv1.MachineStatus{Addresses: addresses}}
	}
	inside := func(address string) clusterv1.MachineAddress {
		return clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address}
	}
	outside := func(address string) clusterv1.MachineAddress {
		return clusterv1.MachineAddress{Type: clusterv1.MachineExternalIP, Address: address}
	}
	gone := machine("RKEBootstrap", inside("10.0.0.9"))
	gone.DeletionTimestamp = new(metav1.Now())
	annotated := machine("RKEBootstrap", inside("10.0.0.4"), outside("203.0.113.4"))
	annotated.Annotations[rkev1.AddressAnnotation] = "127.0.0.1, 192.0.2.4"
	require.Equal(t, []string{"203.0.113.1:6443", "192.0.2.4:6443", "10.0.0.1:6443", "[fd00::2]:6443", "10.0.0.4:6443"}, serversAmong([]clusterv1.Machine{
		machine("RKEBootstrap", inside("10.0.0.1"), outside("203.0.113.1"), clusterv1.MachineAddress{Type: clusterv1.MachineExternalDNS, Address: "api.example.org"}),
		machine("RKEBootstrap", inside("127.0.0.1"), inside("169.254.169.254"), inside("0.0.0.0"), inside("fd00::2")),
		machine("KubeadmConfig", inside("10.0.0.3")), gone, annotated}))
	annotated.Annotations[rkev1.InternalAddressAnnotation] = "10.1.0.4"
	require.Equal(t, []string{"192.0.2.4:6443", "10.1.0.4:6443"}, serversAmong([]clusterv1.Machine{annotated}))
	many := machine("RKEBootstrap")
	for range 2 * maxServers {
		many.Status.Addresses = append(many.Status.Addresses, inside("10.0.0.1"))
	}
	require.Len(t, serversAmong([]clusterv1.Machine{many}), maxServers)
}

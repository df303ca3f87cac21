package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/api/connect"
	agentplan "github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/endpoint/authority"
	"github.com/drover-project/drover/endpoint/certificate"
	"github.com/drover-project/drover/testkit"
)

// agentPort is where a manager of a test answers agents.
type agentPort struct {
	*testing.T
	url   string
	flags []string
	// trusts is what a server verifies the endpoint with.
	trusts *x509.CertPool
}

func newAgentPort(t *testing.T) *agentPort {
	t.Helper()
	dir, port := t.TempDir(), testkit.FreePort(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "drover-agent-linux-"+runtime.GOARCH), []byte("an agent"), 0o755))
	p := &agentPort{T: t, url: "https://localhost:" + port}
	p.flags = []string{"--server-url=" + p.url, "--agents-bind-address=127.0.0.1:" + port, "--agents-dir=" + dir}
	return p
}

// do asks the endpoint as an agent does that verifies what it trusts, or that trusts nothing yet and verifies by checksum.
func (p *agentPort) do(method, path string, header http.Header, body []byte) (int, []byte) {
	p.Helper()
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.trusts, InsecureSkipVerify: p.trusts == nil}, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(p.Context(), method, p.url+path, bytes.NewReader(body))
	require.NoError(p, err)
	req.Header = header
	resp, err := (&http.Client{Transport: transport}).Do(req)
	require.NoError(p, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(p, err)
	return resp.StatusCode, text
}

// trust takes what is served under the checksum that the install script has.
func (p *agentPort) trust(script []byte) {
	p.Helper()
	_, rest, found := strings.Cut(string(script), "DROVER_CA_CHECKSUM='")
	require.True(p, found)
	want, _, _ := strings.Cut(rest, "'")
	code, bundle := p.do(http.MethodGet, "/cacerts?checksum="+want, nil, nil)
	require.Equal(p, http.StatusOK, code)
	sum := sha256.Sum256(bundle)
	require.Equal(p, want, hex.EncodeToString(sum[:]))
	p.trusts = x509.NewCertPool()
	require.True(p, p.trusts.AppendCertsFromPEM(bundle))
}

// register is an agent's call, with the token of a bootstrap Secret or, renewing, with the name of its plan Secret; it gives its way to its plan Secret.
func (p *agentPort) register(token string, at client.ObjectKey) (*kubernetes.Clientset, connect.Answer) {
	p.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	body, err := json.Marshal(connect.Request{PublicKey: key.Public().(ed25519.PublicKey), Time: time.Now(), Nonce: []byte("n"),
		Namespace: at.Namespace, SecretName: at.Name})
	require.NoError(p, err)
	header := http.Header{connect.SignatureHeader: {connect.Sign(key, body)}}
	if token != "" {
		header.Set("Authorization", "Bearer "+token)
	}
	code, text := p.do(http.MethodPost, connect.Path, header, body)
	require.Equal(p, http.StatusOK, code, string(text))
	answer, err := connect.DecodeAnswer(text)
	require.NoError(p, err)
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(answer.KubeConfig))
	require.NoError(p, err)
	require.Equal(p, p.url, config.Host)
	set, err := kubernetes.NewForConfig(config)
	require.NoError(p, err)
	return set, answer
}

// bootstrapped is the life of an RKEBootstrap: its Secret is made, and again when the endpoint gets an authority, an agent registers by it and reports, and
// the token is burned.
func (p *agentPort) bootstrapped(c client.Client, at client.ObjectKey) {
	p.Helper()
	data := &corev1.Secret{}
	testkit.Eventually(p, patience, func() error {
		obj := &rkev1.RKEBootstrap{}
		if err := c.Get(p.Context(), at, obj); err != nil {
			return err
		}
		if obj.Status.DataSecretName == nil {
			return fmt.Errorf("no bootstrap data yet: %+v", obj.Status.Conditions)
		}
		return c.Get(p.Context(), client.ObjectKey{Namespace: at.Namespace, Name: *obj.Status.DataSecretName}, data)
	})
	p.learns(c, data)
	set, answer := p.register(string(data.Data["token"]), client.ObjectKey{})
	secrets := set.CoreV1().Secrets(answer.Namespace)
	secret, err := secrets.Get(p.Context(), answer.SecretName, metav1.GetOptions{})
	require.NoError(p, err)
	secret.Data[agentplan.KeyAgentStatus] = []byte("{}")
	_, err = secrets.Update(p.Context(), secret, metav1.UpdateOptions{})
	require.NoError(p, err)
	testkit.Eventually(p, patience, func() error {
		if err := c.Get(p.Context(), client.ObjectKeyFromObject(data), data); err != nil {
			return err
		}
		if len(data.Data["token"]) > 0 {
			return fmt.Errorf("the token of %s is not burned", data.Name)
		}
		return nil
	})
	for _, obj := range []client.Object{&corev1.ServiceAccount{}, &rbacv1.Role{}, &rbacv1.RoleBinding{}} {
		p.comesBack(c, client.ObjectKey{Namespace: answer.Namespace, Name: answer.SecretName}, obj)
	}
	p.isMended(c, client.ObjectKey{Namespace: answer.Namespace, Name: answer.SecretName})
}

// learns waits until a bootstrap Secret tells of an authority that is added, and trusts it; so may the server that boots by what it told before.
func (p *agentPort) learns(c client.Client, data *corev1.Secret) {
	p.Helper()
	added, _, err := certificate.Authority("another", time.Now(), time.Now().Add(time.Hour))
	require.NoError(p, err)
	secret := &corev1.Secret{}
	require.NoError(p, c.Get(p.Context(), client.ObjectKey{Namespace: "drover-system", Name: authority.Name}, secret))
	secret.Data["ca.crt"] = append(secret.Data["ca.crt"], added...)
	require.NoError(p, c.Update(p.Context(), secret))
	earlier := data.Data["value"]
	testkit.Eventually(p, patience, func() error {
		if _, served := p.do(http.MethodGet, "/cacerts", nil, nil); !bytes.Contains(served, added) {
			return errors.New("the authority that was added is not served")
		}
		if err := c.Get(p.Context(), client.ObjectKeyFromObject(data), data); err != nil {
			return err
		}
		if bytes.Equal(earlier, data.Data["value"]) {
			return fmt.Errorf("%s tells nothing of the authority that was added", data.Name)
		}
		return nil
	})
	p.trust(earlier)
	p.trust(data.Data["value"])
}

// isMended adds a rule to an agent's Role, and waits until it has its own alone again.
func (p *agentPort) isMended(c client.Client, key client.ObjectKey) {
	p.Helper()
	role := &rbacv1.Role{}
	require.NoError(p, c.Get(p.Context(), key, role))
	before := role.DeepCopy()
	role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
	require.NoError(p, c.Update(p.Context(), role))
	testkit.Eventually(p, patience, func() error {
		if err := c.Get(p.Context(), key, role); err != nil {
			return err
		}
		if !slices.EqualFunc(before.Rules, role.Rules, func(a, b rbacv1.PolicyRule) bool { return a.String() == b.String() }) {
			return fmt.Errorf("the rules are %v, not %v", role.Rules, before.Rules)
		}
		return nil
	})
}

// comesBack deletes what gives an agent its access, and waits until it is there again.
func (p *agentPort) comesBack(c client.Client, key client.ObjectKey, obj client.Object) {
	p.Helper()
	require.NoError(p, c.Get(p.Context(), key, obj))
	before := obj.GetUID()
	require.NoError(p, c.Delete(p.Context(), obj))
	testkit.Eventually(p, patience, func() error {
		if err := c.Get(p.Context(), key, obj); err != nil {
			return err
		}
		if obj.GetUID() == before {
			return fmt.Errorf("the %T is not gone yet", obj)
		}
		return nil
	})
}

// joiner makes a Cluster whose infrastructure is provisioned, with an RKEControlPlane, and a Machine with its RKEBootstrap; who embeds Cluster API has
// it own the one by the other.
func joiner(t *testing.T, c client.Client, ns string, owned bool) client.ObjectKey {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: ns, Name: "joiner"}
	cluster := &clusterv1.Cluster{ObjectMeta: meta, Spec: clusterv1.ClusterSpec{
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKECluster", Name: meta.Name},
		ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEControlPlane", Name: meta.Name}}}
	labels := map[string]string{clusterv1.ClusterNameLabel: meta.Name, rkev1.EtcdRoleLabel: "true", rkev1.ControlPlaneRoleLabel: "true"}
	obj := &rkev1.RKEBootstrap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: meta.Name, Labels: labels}}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: meta.Name, Labels: labels}, Spec: clusterv1.MachineSpec{ClusterName: meta.Name,
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{APIGroup: "rke.cattle.io", Kind: "RKEBootstrap", Name: meta.Name}},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: rkev1.MachineGroupVersion.Group, Kind: "DigitaloceanMachine", Name: meta.Name}}}
	control := &rkev1.RKEControlPlane{ObjectMeta: meta}
	control.Spec.KubernetesVersion = "v1.34.1+k3s1"
	infra := &rkev1.RKECluster{ObjectMeta: meta}
	infra.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "198.18.0.9", Port: 6443}
	for _, obj := range []client.Object{infra, control, cluster, machine} {
		require.NoError(t, c.Create(t.Context(), obj))
	}
	if owned { // Cluster API runs elsewhere, which is here
		cluster.Status.Initialization.InfrastructureProvisioned = new(true)
		require.NoError(t, c.Status().Update(t.Context(), cluster))
		before := control.DeepCopy()
		control.Labels, control.OwnerReferences = labels, []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterv1.GroupVersion.WithKind("Cluster"))}
		require.NoError(t, c.Patch(t.Context(), control, client.MergeFrom(before)))
		obj.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(machine, clusterv1.GroupVersion.WithKind("Machine"))}
	}
	require.NoError(t, c.Create(t.Context(), obj))
	return client.ObjectKeyFromObject(obj)
}

// A manager with the rights of its service account makes a machine's bootstrap data, and any replica registers its agent. Cluster API hands the data on.
func TestRun_agents(t *testing.T) {
	c := testClient(t)
	account := installAccount(t, c)
	leader, other := newAgentPort(t), newAgentPort(t)
	other.url = strings.Replace(other.url, "localhost", "127.0.0.1", 1) // its own name, of the same authority
	other.flags[0] = "--server-url=" + other.url
	startManager(t, account, append(leader.flags, "--leader-elect")...)
	stop := startManager(t, account, append(other.flags, "--leader-elect")...)
	for path, want := range map[string]string{"/healthz": "ok", "/assets/drover-agent-linux-" + runtime.GOARCH: "an agent"} {
		code, text := other.do(http.MethodGet, path, nil, nil)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, want, string(text))
	}
	code, script := leader.do(http.MethodGet, "/system-agent-install.sh", nil, nil)
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, string(script), "DROVER_TOKEN='", "whoever runs it by hand brings a token")
	leader.trust(script)
	other.trusts = leader.trusts
	code, _ = other.do(http.MethodGet, "/cacerts", nil, nil)
	require.Equal(t, http.StatusOK, code, "the replicas have one authority")

	at := joiner(t, c, testkit.Namespace(t), false)
	machine := &clusterv1.Machine{}
	testkit.Eventually(t, patience, func() error {
		if err := c.Get(t.Context(), at, machine); err != nil {
			return err
		}
		if machine.Spec.Bootstrap.DataSecretName == nil {
			return fmt.Errorf("Cluster API has not taken the bootstrap data: %+v", machine.Status.Conditions)
		}
		return nil
	})
	leader.bootstrapped(c, at)
	agent, answer := other.register("", client.ObjectKey{Namespace: at.Namespace, Name: agentplan.SecretName(at.Name)})
	_, err := agent.CoreV1().Secrets(at.Namespace).Watch(t.Context(), metav1.SingleObject(metav1.ObjectMeta{Name: answer.SecretName}))
	require.NoError(t, err)
	told := time.Now()
	stop()
	require.Less(t, time.Since(told), newOptions(os.LookupEnv).gracefulShutdown, "who leads keeps the lease until the last watch of an agent has ended")
}

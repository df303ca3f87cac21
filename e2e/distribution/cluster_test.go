package distribution_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/planner"
	"github.com/drover-project/drover/releases"
	"github.com/drover-project/drover/testkit"
)

// cluster is one that is planned by the test, as the controller of RKEControlPlanes does it.
type cluster struct {
	*world
	snapshot planner.Cluster
	marks    map[string]planner.Delivery // what was written beside each plan
}

func newCluster(w *world) *cluster {
	catalogue, err := releases.Default()
	require.NoError(w.t, err)
	return &cluster{world: w, marks: map[string]planner.Delivery{}, snapshot: planner.Cluster{
		Name: "prod", Releases: catalogue, InfrastructureProvisioned: true,
		Spec: rkev1.RKEControlPlaneSpec{KubernetesVersion: "v1.36.3+k3s1", ClusterConfiguration: rkev1.ClusterConfiguration{
			Registries: &rkev1.Registry{Mirrors: map[string]rkev1.Mirror{"docker.io": {Endpoints: []string{w.outside}}}},
		}},
		Tokens: planner.Tokens{Server: "server-password", Agent: "agent-password"},
		Authorities: planner.Authorities{Server: authority(w.t), Client: authority(w.t), Proxy: authority(w.t), EtcdServer: authority(w.t),
			EtcdPeer: authority(w.t), ServiceAccountKey: authority(w.t).Key},
	}}
}

// authority is one that the manager has made beforehand.
func authority(t *testing.T) planner.KeyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return planner.KeyPair{Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}),
		Key: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})}
}

// machine starts a server and makes it one of the cluster's.
func (c *cluster) machine(name, address string, roles planner.Roles) {
	c.startServer(name, address)
	c.snapshot.Machines = append(c.snapshot.Machines, planner.Machine{
		Name: name, ID: "id-" + name, Roles: roles, Provisioned: true, ProviderID: "digitalocean://" + name, InternalIPs: []string{address},
		NodeLabels: map[string]string{"team": "shop"}, Labels: map[string]string{},
	})
}

// secret is a machine's plan Secret.
func (c *cluster) secret(name string) *corev1.Secret {
	secret, err := c.client.CoreV1().Secrets(metav1.NamespaceDefault).Get(c.t.Context(), name, metav1.GetOptions{})
	require.NoError(c.t, err)
	return secret
}

// plan lets the planner look once and writes what it delivers.
func (c *cluster) plan() (planner.Result, error) {
	snapshot := c.snapshot
	snapshot.Machines = append([]planner.Machine{}, c.snapshot.Machines...)
	secrets := map[string]*corev1.Secret{}
	for i := range snapshot.Machines {
		m := &snapshot.Machines[i]
		secret := c.secret(m.Name)
		secrets[m.Name] = secret
		m.Secret = &planner.Secret{Data: secret.Data, Delivered: planner.NewDelivered(secret.Data[plan.KeyPlan]), InitNode: c.marks[m.Name].InitNode, JoinedTo: c.marks[m.Name].JoinedTo}
	}
	result := planner.Plan(snapshot)
	for _, verdict := range result.Machines {
		if verdict.Delivery == nil {
			continue
		}
		secret := secrets[verdict.Machine]
		secret.Data = verdict.Delivery.Data(secret.Data)
		if _, err := c.client.CoreV1().Secrets(metav1.NamespaceDefault).Update(c.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			return result, err // a conflict with the agent: look again
		}
		c.marks[verdict.Machine] = *verdict.Delivery
	}
	return result, nil
}

// await plans until the whole is as wanted.
func (c *cluster) await(limit time.Duration, wanted func(planner.Result) error) {
	begun, said := time.Now(), ""
	testkit.Eventually(c.t, limit, func() error {
		result, err := c.plan()
		if err != nil {
			return err
		}
		if result.Message != said {
			said = result.Message
			c.t.Logf("%6.1fs %s: %s", time.Since(begun).Seconds(), result.Reason, said)
		}
		return wanted(result)
	})
}

func isDone(result planner.Result) error {
	if result.Reason != rkev1.ReconciledReason {
		return fmt.Errorf("%s: %s", result.Reason, result.Message)
	}
	return nil
}

// api is the cluster's own API, by the administrator's kubeconfig on its server.
func (c *cluster) api(name, address string) kubernetes.Interface {
	kubeconfig, err := clientcmd.Load(c.read(name, "/etc/rancher/k3s/k3s.yaml"))
	require.NoError(c.t, err)
	for _, cluster := range kubeconfig.Clusters {
		cluster.Server = "https://" + address + ":6443"
	}
	return clientOf(c.t, kubeconfig)
}

// node returns a Node that is ready.
func (c *cluster) node(api kubernetes.Interface, name string) *corev1.Node {
	var node *corev1.Node
	testkit.Eventually(c.t, time.Minute, func() (err error) {
		node, err = api.CoreV1().Nodes().Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				return errors.New(condition.Message)
			}
		}
		return nil
	})
	return node
}

// answers asks a pod through the API server.
func answers(ctx context.Context, api kubernetes.Interface, pod string) error {
	answer, err := get(ctx, api, "/api/v1/namespaces/default/pods/"+pod+":8080/proxy/")
	if err == nil && strings.TrimSpace(answer) != pod {
		return fmt.Errorf("%s answers %q", pod, answer)
	}
	return err
}

// web runs a pod on a node, and returns it when it answers.
func (c *cluster) web(api kubernetes.Interface, node, image string) *corev1.Pod {
	ctx, pods := c.t.Context(), api.CoreV1().Pods(metav1.NamespaceDefault)
	testkit.Eventually(c.t, time.Minute, func() error {
		_, err := api.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "web", Image: image}}},
	}, metav1.CreateOptions{})
	require.NoError(c.t, err)
	name := pod.Name
	testkit.Eventually(c.t, 2*time.Minute, func() error {
		if pod, err = pods.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			text, err := json.Marshal(pod.Status)
			return errors.Join(fmt.Errorf("%s", text), err)
		}
		return answers(ctx, api, name)
	})
	_, err = get(ctx, api, "/api/v1/namespaces/default/pods/"+name+"/log")
	require.NoError(c.t, err, "its log is read through the kubelet")
	return pod
}

// requireSame asserts that a pod was not started again.
func (c *cluster) requireSame(api kubernetes.Interface, before *corev1.Pod) {
	after, err := api.CoreV1().Pods(before.Namespace).Get(c.t.Context(), before.Name, metav1.GetOptions{})
	require.NoError(c.t, err)
	require.Equal(c.t, before.UID, after.UID)
	require.Equal(c.t, before.Status.PodIP, after.Status.PodIP)
	for i, container := range after.Status.ContainerStatuses {
		require.Zero(c.t, container.RestartCount)
		require.Equal(c.t, before.Status.ContainerStatuses[i].ContainerID, container.ContainerID)
		require.NotNil(c.t, container.State.Running)
	}
	require.NoError(c.t, answers(c.t.Context(), api, before.Name))
}

// A cluster grows, is changed in place and shrinks: by plans of our planner, obeyed by our agent, on real servers.
func TestCluster(t *testing.T) {
	c := newCluster(newWorld(t))
	const first, second = "198.18.63.11", "198.18.63.12"
	c.machine("kd1", first, planner.Roles{Etcd: true, ControlPlane: true, Worker: true})
	c.await(6*time.Minute, isDone)
	api := c.api("kd1", first)
	node := c.node(api, "kd1")
	require.Equal(t, "digitalocean://kd1", node.Spec.ProviderID)
	require.Equal(t, []string{"shop", "id-kd1"}, []string{node.Labels["team"], node.Labels[rkev1.NodeMachineLabel]})
	require.Equal(t, "v1.36.3+k3s1", node.Status.NodeInfo.KubeletVersion)
	webs := []*corev1.Pod{c.web(api, "kd1", webImage)}

	t.Log("objects of the specification are made, and go with it")
	c.snapshot.Spec.AdditionalManifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: addon}"
	c.await(2*time.Minute, isDone)
	addon := func() error {
		_, err := api.CoreV1().ConfigMaps(metav1.NamespaceDefault).Get(t.Context(), "addon", metav1.GetOptions{})
		return err
	}
	testkit.Eventually(t, time.Minute, addon)
	c.snapshot.Spec.AdditionalManifest = ""
	c.await(2*time.Minute, isDone)
	testkit.Eventually(t, time.Minute, func() error {
		switch err := addon(); {
		case err == nil:
			return errors.New("it is still there")
		case apierrors.IsNotFound(err):
			return nil
		default:
			return err
		}
	})

	t.Log("a worker joins, and the API server reaches its pods")
	c.machine("kd2", second, planner.Roles{Worker: true})
	c.await(6*time.Minute, isDone)
	require.Equal(t, "digitalocean://kd2", c.node(api, "kd2").Spec.ProviderID)
	webs = append(webs, c.web(api, "kd2", webImage))

	t.Log("a mirror with a password is added in place: its images come, and no pod is started again")
	c.snapshot.Spec.Registries.Mirrors["images.example.com"] = rkev1.Mirror{Endpoints: []string{c.guarded}}
	c.snapshot.Spec.Registries.Configs = map[string]rkev1.RegistryConfig{
		strings.TrimPrefix(c.guarded, "https://"): {AuthConfigSecretName: "puller", CABundle: c.pki.PEM()},
	}
	c.snapshot.Objects = map[planner.ObjectKey]planner.Object{{Kind: planner.SecretKind, Name: "puller"}: {
		Type: string(corev1.SecretTypeBasicAuth), Data: map[string][]byte{"username": []byte("puller"), "password": []byte(registryPassword)},
	}}
	c.await(5*time.Minute, isDone)
	c.web(api, "kd2", "images.example.com/"+webImage)
	for _, pod := range webs {
		c.requireSame(api, pod)
	}

	t.Log("a machine is cleaned by a plan, and nothing of the distribution is left")
	text, err := json.Marshal(plan.Plan{Instructions: []plan.Instruction{{Command: plan.Command{Name: "uninstall", Command: "k3s-uninstall.sh"}}}})
	require.NoError(t, err)
	last := c.secret("kd2")
	last.Data = planner.Delivery{Plan: text, MaxFailures: 1}.Data(last.Data)
	_, err = c.client.CoreV1().Secrets(metav1.NamespaceDefault).Update(t.Context(), last, metav1.UpdateOptions{})
	require.NoError(t, err)
	testkit.Eventually(t, 2*time.Minute, func() error {
		data := c.secret("kd2").Data
		if string(data[plan.KeyAppliedChecksum]) != plan.Checksum(text) {
			return fmt.Errorf("%s: %s", data[plan.KeyState], data[plan.KeyAgentStatus])
		}
		return nil
	})
	for _, path := range []string{"/var/lib/rancher/k3s", "/etc/rancher/k3s", "/usr/local/bin/k3s", "/usr/local/bin/k3s-killall.sh", "/etc/systemd/system/k3s-agent.service"} {
		require.NoFileExists(t, c.path("kd2", path))
		require.NoDirExists(t, c.path("kd2", path))
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*/drover/kd2/kubepods")
	require.NoError(t, err)
	require.Empty(t, groups, "its pods have ended")

	t.Log("and it joins once more, as a machine that has never been one of a cluster")
	c.await(5*time.Minute, isDone)
	c.node(api, "kd2")
	c.web(api, "kd2", webImage)
}

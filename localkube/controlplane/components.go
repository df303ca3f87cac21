package controlplane

import (
	"strconv"

	"github.com/drover-project/drover/localkube/process"
)

// Names of the components, which are also the verbs of the executable.
const (
	EtcdName              = "etcd"
	APIServerName         = "kube-apiserver"
	ControllerManagerName = "kube-controller-manager"
	SchedulerName         = "kube-scheduler"
)

// Issuer is the issuer in service-account tokens.
const Issuer = "https://kubernetes.default.svc.cluster.local"

// APIServer says how to run kube-apiserver.
func (o Options) APIServer() process.Spec {
	id := o.identities()
	args := []string{
		"--etcd-servers=" + o.EtcdURL(),
		"--etcd-cafile=" + o.Store.Etcd.CertFile(),
		"--etcd-certfile=" + id.etcdClient.Cert,
		"--etcd-keyfile=" + id.etcdClient.Key,
		"--bind-address=" + o.BindAddress.String(),
		"--advertise-address=" + o.AdvertiseAddress.String(),
		"--secure-port=" + strconv.Itoa(o.Config.HTTPSPort),
		"--tls-cert-file=" + id.serving.Cert,
		"--tls-private-key-file=" + id.serving.Key,
		"--client-ca-file=" + o.Store.Cluster.CertFile(),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + o.Config.ServiceCIDR,
		"--service-account-issuer=" + Issuer,
		"--service-account-key-file=" + o.Store.ServiceAccountPublicKey(),
		"--service-account-signing-key-file=" + o.Store.ServiceAccountKey(),
		"--kubelet-certificate-authority=" + o.Store.Cluster.CertFile(),
		"--kubelet-client-certificate=" + id.kubelet.Cert,
		"--kubelet-client-key=" + id.kubelet.Key,
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + o.Store.FrontProxy.CertFile(),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + id.frontProxy.Cert,
		"--proxy-client-key-file=" + id.frontProxy.Key,
		"--profiling=false",
	}
	if o.AdvertiseAddress.IsLoopback() {
		// The kubernetes Service may not point at loopback; without it the
		// server would log that refusal every ten seconds.
		args = append(args, "--endpoint-reconciler-type=none")
	}
	return o.component(APIServerName, args...)
}

// ControllerManager says how to run kube-controller-manager.
func (o Options) ControllerManager() process.Spec {
	kubeconfig := o.kubeconfig("controller-manager")
	spec := o.component(ControllerManagerName,
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--secure-port=0",
		"--leader-elect="+strconv.FormatBool(o.Config.Replicated),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+o.Store.ServiceAccountKey(),
		"--root-ca-file="+o.Store.Cluster.CertFile(),
		"--cluster-signing-cert-file="+o.Store.Cluster.CertFile(),
		"--cluster-signing-key-file="+o.Store.Cluster.KeyFile(),
		"--allocate-node-cidrs=true",
		"--cluster-cidr="+o.Config.PodCIDR,
		"--service-cluster-ip-range="+o.Config.ServiceCIDR,
		"--flex-volume-plugin-dir="+o.Dir.Path("kubelet-volume-plugins"),
		"--profiling=false",
	)
	spec.Restart = true
	return spec
}

// Scheduler says how to run kube-scheduler.
func (o Options) Scheduler() process.Spec {
	kubeconfig := o.kubeconfig("scheduler")
	spec := o.component(SchedulerName,
		"--kubeconfig="+kubeconfig,
		"--authentication-kubeconfig="+kubeconfig,
		"--authorization-kubeconfig="+kubeconfig,
		"--secure-port=0",
		"--leader-elect="+strconv.FormatBool(o.Config.Replicated),
		"--profiling=false",
	)
	spec.Restart = true
	return spec
}

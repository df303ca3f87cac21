package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/releases"
)

// probes are what tells that the node is well. The ports are those of Kubernetes' components, of etcd's metrics and of calico's health.
func (l *look) probes(config settings, isServer bool) map[string]plan.Probe {
	tls := l.dataDir() + "/server/tls/"
	isRKE2 := l.release.Distribution == releases.RKE2
	all := map[string]plan.Probe{}
	if isServer && l.Roles.Etcd && isRKE2 {
		all["etcd"] = l.probe(plan.HTTPGet{URL: "http://:2381/health"})
	}
	if l.Roles.ControlPlane {
		all["kube-apiserver"] = l.probe(plan.HTTPGet{URL: "https://:6443/readyz", CACert: tls + "server-ca.crt",
			ClientCert: tls + "client-kube-apiserver.crt", ClientKey: tls + "client-kube-apiserver.key"})
		for _, component := range components {
			argument := component.name + "-arg"
			dir := cmp.Or(config.value(argument, "cert-dir="), tls+component.name)
			certificate := cmp.Or(config.value(argument, "tls-cert-file="), dir+"/"+component.name+".crt")
			port := cmp.Or(config.value(argument, "secure-port="), component.port)
			all[component.name] = l.probe(plan.HTTPGet{URL: "https://:" + port + "/healthz", CACert: certificate})
		}
	}
	onlyEtcd := l.Roles.Etcd && !l.Roles.ControlPlane && !l.Roles.Worker
	if isRKE2 || !onlyEtcd {
		all["kubelet"] = l.probe(plan.HTTPGet{URL: "http://:" + cmp.Or(config.value("kubelet-arg", "healthz-port="), "10248") + "/healthz"})
	}
	if isRKE2 && !onlyEtcd && l.hasCalico() {
		all["calico"] = l.probe(plan.HTTPGet{URL: "http://:9099/liveness"})
	}
	return all
}

// probe asks on the loopback address of the preferred network.
func (l *look) probe(get plan.HTTPGet) plan.Probe {
	host := "127.0.0.1"
	if n := l.Spec.Networking; n != nil {
		switch n.StackPreference {
		case rkev1.PreferIPv6:
			host = "[::1]"
		case rkev1.PreferDual:
			host = "localhost"
		}
	}
	get.URL = strings.Replace(get.URL, "://:", "://"+host+":", 1)
	return plan.Probe{InitialDelaySeconds: 1, TimeoutSeconds: 5, SuccessThreshold: 1, FailureThreshold: 5, HTTPGet: get}
}

// hasCalico reports whether the cluster's network is calico, which is what a server says, and its workers are not told.
func (l *look) hasCalico() bool {
	return slices.ContainsFunc(l.ofInit("cni"), func(item any) bool {
		text, _ := item.(string)
		return slices.Contains(strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '+' }), "calico")
	})
}

// value is what follows a prefix in a list; the last one counts.
func (s settings) value(name, prefix string) string {
	found := ""
	for _, item := range s.all(name) {
		if rest, ok := strings.CutPrefix(fmt.Sprint(item), prefix); ok {
			found = rest
		}
	}
	return found
}

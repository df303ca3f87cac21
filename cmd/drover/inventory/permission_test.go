package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/cmd/drover/inventory"
	"github.com/drover-project/drover/testkit"
)

// TestRefusalsOfARealServer: each kind of request that a user may lack the right to, as the API server words it today.
func TestRefusalsOfARealServer(t *testing.T) {
	w := newWorld(t)
	ns := w.namespace
	config := testkit.Config(t)
	config.Impersonate.UserName = "o'brian \"x\""
	kube, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	objects, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	ctx := t.Context()
	for want, ask := range map[string]func() error{
		`list secrets in namespace ` + ns:    func() error { _, err := kube.CoreV1().Secrets(ns).List(ctx, metav1.ListOptions{}); return err },
		`list secrets in the whole cluster`:  func() error { _, err := kube.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err },
		`get secrets "s" in namespace ` + ns: func() error { _, err := kube.CoreV1().Secrets(ns).Get(ctx, "s", metav1.GetOptions{}); return err },
		`watch pods in namespace ` + ns:      func() error { _, err := kube.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{}); return err },
		`get pods/log "p" in namespace ` + ns: func() error {
			_, err := kube.CoreV1().Pods(ns).GetLogs("p", &corev1.PodLogOptions{}).Stream(ctx)
			return err
		},
		`delete jobs.batch "j" in namespace ` + ns: func() error { return kube.BatchV1().Jobs(ns).Delete(ctx, "j", metav1.DeleteOptions{}) },
		`deletecollection jobs.batch in namespace ` + ns: func() error {
			return kube.BatchV1().Jobs(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		},
		`get deployments.apps/scale "d" in namespace ` + ns: func() error {
			_, err := kube.AppsV1().Deployments(ns).GetScale(ctx, "d", metav1.GetOptions{})
			return err
		},
		`get namespaces "` + ns + `" in namespace ` + ns: func() error { _, err := kube.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); return err },
		`get nodes "n" in the whole cluster`:             func() error { _, err := kube.CoreV1().Nodes().Get(ctx, "n", metav1.GetOptions{}); return err },
		`create subjectaccessreviews.authorization.k8s.io in the whole cluster`: func() error {
			_, err := kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{}, metav1.CreateOptions{})
			return err
		},
		`list genericmachines.rke-machine.cattle.io in namespace ` + ns: func() error {
			_, err := objects.Resource(inventory.ResourceOf(generic)).Namespace(ns).List(ctx, metav1.ListOptions{})
			return err
		},
		`get /metrics`: func() error { return kube.CoreV1().RESTClient().Get().AbsPath("/metrics").Do(ctx).Error() },
	} {
		t.Run(strings.ReplaceAll(want, "/", "|"), func(t *testing.T) {
			err := ask()
			require.Error(t, err)
			require.Equal(t, `doing it: forbidden: user "o'brian \"x\"" lacks the right to `+want, inventory.Plain(fmt.Errorf("doing it: %w", err)))
		})
	}
}

// TestRefusalOfImpersonation: --as itself needs a right.
func TestRefusalOfImpersonation(t *testing.T) {
	w := newWorld(t)
	token := w.account(t, "clerk")
	config := testkit.Config(t)
	config.CertData, config.KeyData, config.CertFile, config.KeyFile = nil, nil, "", ""
	config.BearerToken = token
	config.Impersonate.UserName = "boss"
	_, err := connect(t, config).Kinds(t.Context())
	require.Equal(t, `asking the API for machine kinds: forbidden: user "system:serviceaccount:`+w.namespace+`:clerk" lacks the right to be somebody else (--as): `+
		"impersonate users, or impersonate-on:user-info:get /apis/rke-machine.cattle.io/v1",
		inventory.Plain(err))
	config.BearerToken = "nonsense"
	_, err = connect(t, config).Kinds(t.Context())
	require.Equal(t, "asking the API for machine kinds: the API server does not accept the kubeconfig's credential (401 Unauthorized): it is wrong or has expired",
		inventory.Plain(err))
	require.False(t, inventory.IsUnreachable(err))
}

// TestRefusalNamesAllInOneLine: whoever lacks whatever right, the sentence names all of it, and in one line.
func TestRefusalNamesAllInOneLine(t *testing.T) {
	for _, c := range []struct{ user, verb, resource, group, where, want string }{
		{"alice", "list", "secrets", "", `in the namespace "shop"`, `list secrets in namespace shop`},
		{`a"b\`, "deletecollection", "pods/log", "batch", "at the cluster scope", `deletecollection pods.batch/log in the whole cluster`},
		{`o'brian cannot get path "/"`, "get", "x", "rke-machine.cattle.io", `in the namespace "a"`, `get x.rke-machine.cattle.io in namespace a`},
	} {
		err := refused(c.group, c.resource, "", fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", c.user, c.verb, c.resource, c.group, c.where))
		require.Equal(t, fmt.Sprintf("forbidden: user %q lacks the right to %s", c.user, c.want), inventory.Plain(err))
	}
}

func TestForbiddenError(t *testing.T) {
	list := func(user, resource, where string) error {
		return refused("g", resource, "", fmt.Sprintf("User %q cannot list resource %q in API group \"g\" %s", user, resource, where))
	}
	here, there := `in the namespace "a"`, `in the namespace "b"`
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"one":           {[]error{list("u", "x", here)}, `listing: forbidden: user "u" lacks the right to list x.g in namespace a`},
		"several kinds": {[]error{list("u", "y", here), list("u", "x", here), list("u", "y", here)}, `listing: forbidden: user "u" lacks the right to list x.g, y.g in namespace a`},
		"several places": {[]error{list("u", "x", there), list("u", "x", here)},
			`listing: forbidden: user "u" lacks the right to list x.g in namespace a; forbidden: user "u" lacks the right to list x.g in namespace b`},
		"a policy beside": {[]error{refused("g", "x", "n", "a policy says no"), list("u", "x", here)},
			`listing: forbidden: user "u" lacks the right to list x.g in namespace a; x.g "n" is forbidden: a policy says no`},
	} {
		t.Run(name, func(t *testing.T) {
			err := &inventory.ForbiddenError{Doing: "listing", Refusals: c.errs}
			require.EqualError(t, err, c.want)
			require.Equal(t, c.want, inventory.Plain(err), "it is plain already")
			for _, one := range c.errs {
				require.ErrorIs(t, err, one)
			}
		})
	}
}

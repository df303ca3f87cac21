package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/testkit"
)

func TestServingNames(t *testing.T) {
	for url, want := range map[string][]string{
		"":                          {"drover-webhooks.team.svc", "drover-webhooks.team.svc.cluster.local"},
		"https://h.example:9443":    {"h.example"},
		"https://127.0.0.1:9443/x":  {"127.0.0.1"},
		"https://[2001:db8::1]:443": {"2001:db8::1"},
	} {
		names, err := servingNames(&options{managerNamespace: "team", webhookURL: url})
		require.NoError(t, err)
		require.Equal(t, want, names, url)
	}
	_, err := servingNames(&options{webhookURL: "https://%zz"})
	require.ErrorContains(t, err, "reading --webhook-url: ")
}

// TestOwnName: the manager's own requests are let pass when it is a service account; a person's never are.
func TestOwnName(t *testing.T) {
	scheme, err := newScheme()
	require.NoError(t, err)
	admin := testkit.Config(t)
	ns := testkit.Namespace(t)
	clients, err := kubernetes.NewForConfig(admin)
	require.NoError(t, err)
	_, err = clients.CoreV1().ServiceAccounts(ns).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "me"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := clients.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "me", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)

	account := testkit.Config(t)
	account.CertData, account.KeyData, account.CertFile, account.KeyFile = nil, nil, "", ""
	account.BearerToken = token.Status.Token
	asAccount, err := client.New(account, client.Options{Scheme: scheme})
	require.NoError(t, err)
	name, err := ownName(t.Context(), asAccount)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:"+ns+":me", name)

	asPerson, err := client.New(admin, client.Options{Scheme: scheme})
	require.NoError(t, err)
	name, err = ownName(t.Context(), asPerson)
	require.NoError(t, err)
	require.Empty(t, name)

	account.BearerToken = "nonsense"
	asNobody, err := client.New(account, client.Options{Scheme: scheme})
	require.NoError(t, err)
	_, err = ownName(t.Context(), asNobody)
	require.ErrorContains(t, err, "asking the API server who we are: ")
}

// TestWebhooksStart: nothing is configured before the server answers, for then nobody could write anything.
func TestWebhooksStart(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	w := &webhooks{}
	require.NoError(t, w.start(ctx, func(*http.Request) error {
		if asked++; asked == 3 {
			cancel()
		}
		return errors.New("not yet")
	}))
	require.Equal(t, 3, asked)
	require.False(t, w.configured.Load())
}

func TestEveryReplica(t *testing.T) {
	ran := false
	run := everyReplica(func(context.Context) error {
		ran = true
		return errors.New("told")
	})
	require.False(t, run.NeedLeaderElection())
	require.EqualError(t, run.Start(t.Context()), "told")
	require.True(t, ran)
}

func TestPause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	pause(ctx, time.Hour)
	require.Less(t, time.Since(begin), time.Minute, "the end of the context ends it")
	pause(t.Context(), time.Nanosecond)
}

// TestEndWell: only a manager that was told to stop is forgiven, and only for not ending in time.
func TestEndWell(t *testing.T) {
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	late, broken := fmt.Errorf("waiting: %w", context.DeadlineExceeded), errors.New("broken")
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"running, broken":      {t.Context(), broken, broken},
		"running, late":        {t.Context(), late, late},
		"running, well":        {t.Context(), nil, nil},
		"told to stop, late":   {stopped, late, nil},
		"told to stop, broken": {stopped, broken, broken},
		"told to stop, well":   {stopped, nil, nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.want, endWell(c.ctx, c.err)) })
	}
}

func TestCacheOptions(t *testing.T) {
	all, err := (&options{}).cacheOptions()
	require.NoError(t, err)
	require.Empty(t, all.DefaultNamespaces)
	one, err := (&options{namespace: "team"}).cacheOptions()
	require.NoError(t, err)
	require.Len(t, one.DefaultNamespaces, 1)
	require.Contains(t, one.DefaultNamespaces, "team")
	for object, by := range one.ByObject {
		require.Equal(t, "drover.cattle.io/operation", by.Label.String(), "%T", object)
		require.Len(t, by.Namespaces, 2, "probes run in their own namespace: %T", object)
		require.Contains(t, by.Namespaces, "drover-drivers")
		require.Contains(t, by.Namespaces, "team")
	}
	for object, by := range all.ByObject {
		require.Empty(t, by.Namespaces, "%T", object)
	}
}

func TestDropPodSpec_keepsWhatIsWatched(t *testing.T) {
	meta := metav1.ObjectMeta{Namespace: "team", Name: "m", Labels: map[string]string{"a": "b"}}
	written := meta
	written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "drover-machine"}}
	spec := corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "machine"}}}
	for _, tt := range []struct{ in, want any }{
		{&batchv1.Job{ObjectMeta: written, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{Spec: spec}}, Status: batchv1.JobStatus{Active: 1}},
			&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0))}, Status: batchv1.JobStatus{Active: 1}}},
		{&corev1.Pod{ObjectMeta: written, Spec: spec, Status: corev1.PodStatus{Phase: corev1.PodRunning}},
			&corev1.Pod{ObjectMeta: meta, Status: corev1.PodStatus{Phase: corev1.PodRunning}}},
		{"of another kind", "of another kind"},
	} {
		got, err := dropPodSpec(tt.in)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
}

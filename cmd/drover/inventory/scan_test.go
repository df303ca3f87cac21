package inventory_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/cmd/drover/inventory"
)

var scans = schema.GroupVersionResource{Group: "rke.cattle.io", Version: "v1", Resource: "serverscans"}

// scan asks for a scan.
func (w *world) scan(t *testing.T, api *inventory.API) *rkev1.ServerScan {
	t.Helper()
	scan, err := api.MakeScan(t.Context(), w.namespace, rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "token", GracePeriod: &metav1.Duration{Duration: 90 * time.Minute}})
	require.NoError(t, err)
	return scan
}

// says writes the condition by which the manager tells how far a scan is.
func (w *world) says(t *testing.T, scan *rkev1.ServerScan, status metav1.ConditionStatus, message string) {
	t.Helper()
	client := w.Dynamic.Resource(scans).Namespace(w.namespace)
	u, err := client.Get(t.Context(), scan.Name, metav1.GetOptions{})
	require.NoError(t, err)
	condition := map[string]any{"type": rkev1.ScanDoneCondition, "status": string(status), "reason": "Test", "message": message, "lastTransitionTime": "2026-03-01T12:00:00Z"}
	require.NoError(t, unstructured.SetNestedSlice(u.Object, []any{condition}, "status", "conditions"))
	_, err = client.UpdateStatus(t.Context(), u, metav1.UpdateOptions{})
	require.NoError(t, err)
}

// awaiting is an AwaitScan at work.
type awaiting struct {
	told chan string
	done chan error
	last *rkev1.ServerScan
}

func await(ctx context.Context, api *inventory.API, scan *rkev1.ServerScan) *awaiting {
	a := &awaiting{told: make(chan string, 100), done: make(chan error, 1)}
	go func() {
		var err error
		a.last, err = api.AwaitScan(ctx, scan, func(message string) { a.told <- message })
		a.done <- err
	}()
	return a
}

func TestMakeScan(t *testing.T) {
	w := newWorld(t)
	scan := w.scan(t, w.API)
	require.True(t, strings.HasPrefix(scan.Name, "gc-"))
	require.NotEmpty(t, scan.UID)
	require.Equal(t, rkev1.ServerScanSpec{Driver: "digitalocean", CloudCredentialSecretName: "token", GracePeriod: &metav1.Duration{Duration: 90 * time.Minute}}, scan.Spec)
	require.NotEqual(t, scan.Name, w.scan(t, w.API).Name)

	_, err := w.MakeScan(t.Context(), w.namespace, rkev1.ServerScanSpec{Driver: "digitalocean"})
	require.ErrorContains(t, err, "making a ServerScan: ")
	require.ErrorContains(t, err, "cloudCredentialSecretName")
	_, err = w.as(t, "guest").MakeScan(t.Context(), w.namespace, scan.Spec)
	require.Equal(t, `making a ServerScan: serverscans.rke.cattle.io is forbidden: User "guest" cannot create resource "serverscans" in API group "rke.cattle.io" in the namespace "`+w.namespace+`"`, inventory.Plain(err))
	older := w.through(t, func(out http.ResponseWriter, _ *http.Request) bool { return notFound(out) })
	_, err = older.MakeScan(t.Context(), w.namespace, scan.Spec)
	require.EqualError(t, err, "this cluster has no ServerScan kind: its Drover is older than this drover, or not installed")
}

func TestAwaitScan(t *testing.T) {
	for name, end := range map[string]metav1.ConditionStatus{"well": metav1.ConditionTrue, "badly": metav1.ConditionFalse} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			scan := w.scan(t, w.API)
			a := await(t.Context(), w.API, scan)
			w.says(t, scan, metav1.ConditionUnknown, "waiting for the Job")
			require.Equal(t, "waiting for the Job", <-a.told)
			w.says(t, scan, metav1.ConditionUnknown, "the Job runs")
			require.Equal(t, "the Job runs", <-a.told)
			w.says(t, scan, end, "ended")
			require.NoError(t, <-a.done)
			require.Equal(t, "ended", a.last.Status.Conditions[0].Message)
			require.Empty(t, a.told, "each message once")
		})
	}
}

// TestAwaitScanEnds: a scan that was deleted, a user who goes, and a right that lacks.
func TestAwaitScanEnds(t *testing.T) {
	w := newWorld(t)
	scan := w.scan(t, w.API)
	w.says(t, scan, metav1.ConditionUnknown, "waiting")
	a := await(t.Context(), w.API, scan)
	require.Equal(t, "waiting", <-a.told)
	require.NoError(t, w.DeleteScan(t.Context(), scan))
	require.EqualError(t, <-a.done, "the ServerScan was deleted before it was done")
	require.NoError(t, w.DeleteScan(t.Context(), scan), "what is gone is deleted")
	_, err := w.AwaitScan(t.Context(), scan, func(string) {})
	require.EqualError(t, err, "the ServerScan was deleted before it was done")

	scan = w.scan(t, w.API)
	w.says(t, scan, metav1.ConditionUnknown, "waiting")
	ctx, cancel := context.WithCancel(t.Context())
	a = await(ctx, w.API, scan)
	require.Equal(t, "waiting", <-a.told)
	cancel()
	require.ErrorIs(t, <-a.done, context.Canceled)
	guest := w.as(t, "guest")
	_, err = guest.AwaitScan(t.Context(), scan, func(string) {})
	require.Equal(t, "getting serverscans "+w.namespace+"/"+scan.Name+`: serverscans.rke.cattle.io "`+scan.Name+`" is forbidden: User "guest" cannot get resource "serverscans" in API group "rke.cattle.io" in the namespace "`+w.namespace+`"`, inventory.Plain(err))
	err = guest.DeleteScan(t.Context(), scan)
	require.Equal(t, "deleting ServerScan "+scan.Name+`: serverscans.rke.cattle.io "`+scan.Name+`" is forbidden: User "guest" cannot delete resource "serverscans" in API group "rke.cattle.io" in the namespace "`+w.namespace+`"`, inventory.Plain(err))
}

// TestDeleteScanOfAnother: a scan of the same name that was made since is not ours to delete.
func TestDeleteScanOfAnother(t *testing.T) {
	w := newWorld(t)
	scan := w.scan(t, w.API)
	scan.UID = "of-an-earlier-one"
	require.ErrorContains(t, w.DeleteScan(t.Context(), scan), "deleting ServerScan "+scan.Name+": ")
	_, err := w.Dynamic.Resource(scans).Namespace(w.namespace).Get(t.Context(), scan.Name, metav1.GetOptions{})
	require.NoError(t, err)
}

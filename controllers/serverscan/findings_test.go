package serverscan

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// scrapedAt is when Prometheus reads.
var scrapedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// scanned is a ServerScan of an account that was done so many minutes ago.
func scanned(name, driver, credential string, minutes int, orphans int32, done metav1.ConditionStatus) *rkev1.ServerScan {
	at := metav1.NewTime(scrapedAt.Add(-time.Duration(minutes) * time.Minute))
	scan := &rkev1.ServerScan{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}, Spec: rkev1.ServerScanSpec{Driver: driver, CloudCredentialSecretName: credential}}
	scan.Status = rkev1.ServerScanStatus{Orphans: orphans, CompletionTime: &at, Conditions: []metav1.Condition{{Type: rkev1.ScanDoneCondition, Status: done}}}
	return scan
}

// scrape is what Prometheus would read where these ServerScans are there.
func scrape(t *testing.T, scans ...client.Object) string {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, rkev1.AddToScheme(scheme))
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(newFindings(fake.NewClientBuilder().WithScheme(scheme).WithObjects(scans...).Build())))
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, recorder.Code)
	var series []string
	for line := range strings.Lines(recorder.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			series = append(series, strings.TrimSpace(line))
		}
	}
	return strings.Join(series, "\n")
}

func TestFindings(t *testing.T) {
	require.Empty(t, scrape(t))
	scans := []client.Object{scanned("old", "digitalocean", "a", 60, 5, metav1.ConditionTrue), scanned("new", "digitalocean", "a", 1, 2, metav1.ConditionTrue),
		scanned("other", "digitalocean", "b", 30, 1, metav1.ConditionTrue), scanned("user", "whatever users write", "b", 30, 1, metav1.ConditionFalse)}
	require.Contains(t, scrape(t, scans...), `drover_orphan_servers{driver="digitalocean"} 3`)
	lost := scanned("lost", "google", "a", 1, 0, metav1.ConditionTrue)
	lost.Status.MachinesNotListed = []string{"m1", "m2"}
	running := scanned("running", "google", "b", 0, 0, metav1.ConditionUnknown)
	running.Status.CompletionTime = nil
	scans = append(scans, lost, running, scanned("failed", "google", "b", 1, 0, metav1.ConditionFalse), scanned("never", "linode", "a", 1, 0, metav1.ConditionFalse))
	require.Equal(t, `drover_machines_without_server{driver="digitalocean"} 0
drover_machines_without_server{driver="google"} 2
drover_orphan_servers{driver="digitalocean"} 3
drover_orphan_servers{driver="google"} 0
drover_server_scans_failed{driver="digitalocean"} 0
drover_server_scans_failed{driver="google"} 1
drover_server_scans_failed{driver="linode"} 1
drover_servers_listed_timestamp_seconds{driver="digitalocean"} 1.7723646e+09
drover_servers_listed_timestamp_seconds{driver="google"} 1.77236634e+09`, scrape(t, scans...), "what a cloud has that never answered nobody knows")
}

// What a ServerScan that failed could not see is still there.
func TestFindings_aFailureIsNoAnswer(t *testing.T) {
	saw := scanned("saw", "digitalocean", "a", 60, 5, metav1.ConditionTrue)
	saw.Status.MachinesNotListed = []string{"m1"}
	failed := scanned("failed", "digitalocean", "a", 1, 0, metav1.ConditionFalse)
	require.Equal(t, `drover_machines_without_server{driver="digitalocean"} 1
drover_orphan_servers{driver="digitalocean"} 5
drover_server_scans_failed{driver="digitalocean"} 1
drover_servers_listed_timestamp_seconds{driver="digitalocean"} 1.7723628e+09`, scrape(t, saw, failed))
	require.Equal(t, `drover_machines_without_server{driver="digitalocean"} 0
drover_orphan_servers{driver="digitalocean"} 0
drover_server_scans_failed{driver="digitalocean"} 0
drover_servers_listed_timestamp_seconds{driver="digitalocean"} 1.7723664e+09`, scrape(t, saw, failed, scanned("again", "digitalocean", "a", 0, 0, metav1.ConditionTrue)))
}

// Who asks by another grace period changes nothing of what is told of the account.
func TestFindings_ofTheUsualGrace(t *testing.T) {
	periodic := scanned("periodic", "digitalocean", "a", 60, 5, metav1.ConditionTrue)
	patient := scanned("patient", "digitalocean", "a", 1, 0, metav1.ConditionTrue)
	patient.Spec.GracePeriod = &metav1.Duration{Duration: 24 * time.Hour}
	require.Contains(t, scrape(t, periodic, patient), `drover_orphan_servers{driver="digitalocean"} 5`)
	same := scanned("same", "digitalocean", "a", 0, 3, metav1.ConditionTrue)
	same.Spec.GracePeriod = &metav1.Duration{Duration: time.Hour}
	require.Contains(t, scrape(t, periodic, patient, same), `drover_orphan_servers{driver="digitalocean"} 3`)
}

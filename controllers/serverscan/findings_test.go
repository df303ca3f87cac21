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
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// scrape is what Prometheus would read of it.
func scrape(t *testing.T, f *findings) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(f))
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
	f := newFindings(clocktesting.NewFakePassiveClock(scrapedAt))
	require.Empty(t, scrape(t, f))
	f.remember(scanned("old", "digitalocean", "a", 60, 5, metav1.ConditionTrue))
	f.remember(scanned("new", "digitalocean", "a", 1, 2, metav1.ConditionTrue))
	f.remember(scanned("other", "digitalocean", "b", 30, 1, metav1.ConditionTrue))
	f.remember(scanned("user", "whatever users write", "b", 30, 1, metav1.ConditionFalse))
	require.Contains(t, scrape(t, f), `drover_orphan_servers{driver="digitalocean"} 3`)
	lost := scanned("lost", "google", "a", 1, 0, metav1.ConditionTrue)
	lost.Status.MachinesNotListed = []string{"m1", "m2"}
	f.remember(lost)
	f.remember(scanned("failed", "google", "b", 1, 0, metav1.ConditionFalse))
	f.remember(scanned("never", "linode", "a", 1, 0, metav1.ConditionFalse))
	require.Equal(t, `drover_machines_without_server{driver="digitalocean"} 0
drover_machines_without_server{driver="google"} 2
drover_orphan_servers{driver="digitalocean"} 3
drover_orphan_servers{driver="google"} 0
drover_server_scans_failed{driver="digitalocean"} 0
drover_server_scans_failed{driver="google"} 1
drover_server_scans_failed{driver="linode"} 1
drover_servers_listed_timestamp_seconds{driver="digitalocean"} 1.7723646e+09
drover_servers_listed_timestamp_seconds{driver="google"} 1.77236634e+09`, scrape(t, f), "what a cloud has that never answered nobody knows")
}

// What a ServerScan that failed could not see is still there.
func TestFindings_aFailureIsNoAnswer(t *testing.T) {
	f := newFindings(clocktesting.NewFakePassiveClock(scrapedAt))
	saw := scanned("saw", "digitalocean", "a", 60, 5, metav1.ConditionTrue)
	saw.Status.MachinesNotListed = []string{"m1"}
	f.remember(saw)
	f.remember(scanned("failed", "digitalocean", "a", 1, 0, metav1.ConditionFalse))
	const both = `drover_machines_without_server{driver="digitalocean"} 1
drover_orphan_servers{driver="digitalocean"} 5
drover_server_scans_failed{driver="digitalocean"} 1
drover_servers_listed_timestamp_seconds{driver="digitalocean"} 1.7723628e+09`
	require.Equal(t, both, scrape(t, f))
	f.remember(saw)
	require.Equal(t, both, scrape(t, f), "it is older than the failure")
	f.remember(scanned("again", "digitalocean", "a", 0, 0, metav1.ConditionTrue))
	require.Equal(t, `drover_machines_without_server{driver="digitalocean"} 0
drover_orphan_servers{driver="digitalocean"} 0
drover_server_scans_failed{driver="digitalocean"} 0
drover_servers_listed_timestamp_seconds{driver="digitalocean"} 1.7723664e+09`, scrape(t, f))
}

// Who asks by another grace period changes nothing of what is told of the account.
func TestFindings_ofTheUsualGrace(t *testing.T) {
	f := newFindings(clocktesting.NewFakePassiveClock(scrapedAt))
	f.remember(scanned("periodic", "digitalocean", "a", 60, 5, metav1.ConditionTrue))
	patient := scanned("patient", "digitalocean", "a", 1, 0, metav1.ConditionTrue)
	patient.Spec.GracePeriod = &metav1.Duration{Duration: 24 * time.Hour}
	f.remember(patient)
	require.Contains(t, scrape(t, f), `drover_orphan_servers{driver="digitalocean"} 5`)
	same := scanned("same", "digitalocean", "a", 0, 3, metav1.ConditionTrue)
	same.Spec.GracePeriod = &metav1.Duration{Duration: time.Hour}
	f.remember(same)
	require.Contains(t, scrape(t, f), `drover_orphan_servers{driver="digitalocean"} 3`)
}

// `drover gc` deletes its ServerScan as soon as it has read it; what it found out holds all the same, as long as a ServerScan stays by itself.
func TestFindings_outliveTheirServerScan(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(scrapedAt)
	f := newFindings(clock)
	key := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "team", Name: name} }
	f.remember(scanned("periodic", "digitalocean", "a", 60, 5, metav1.ConditionTrue))
	f.remember(scanned("gc", "digitalocean", "a", 1, 0, metav1.ConditionTrue))
	f.forget(key("gc"))
	f.forget(key("gc"))
	f.remember(scanned("periodic", "digitalocean", "a", 60, 5, metav1.ConditionTrue))
	f.forget(key("periodic"))
	require.Contains(t, scrape(t, f), `drover_orphan_servers{driver="digitalocean"} 0`)
	f.remember(scanned("periodic", "digitalocean", "b", 0, 5, metav1.ConditionTrue))
	f.remember(scanned("refused", "digitalocean", "c", 0, 0, metav1.ConditionFalse))
	f.forget(key("refused"))

	clock.SetTime(scrapedAt.Add(DefaultTTL - time.Second))
	require.Contains(t, scrape(t, f), `drover_orphan_servers{driver="digitalocean"} 5`)
	require.Len(t, f.accounts, 1, "the answer of one is old, another never had one")
	f.forget(key("periodic"))
	require.NotEmpty(t, scrape(t, f))
	clock.SetTime(scrapedAt.Add(DefaultTTL))
	require.Empty(t, scrape(t, f), "nobody looks at the account any more")
}

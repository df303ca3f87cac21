package serverscan

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// findings are what ServerScans have found, as metrics. What was found last at an account counts while any ServerScan of it is
// there, for the one that found it may be deleted at once, as `drover gc` does. What was found with another grace period than the
// usual one does not count.
type findings struct {
	orphans, serverless, failed *prometheus.Desc

	mu       sync.Mutex
	scans    map[client.ObjectKey]account
	accounts map[account]finding
}

// finding is what is known of an account.
type finding struct {
	// at is when it was looked at last, and failed that the cloud could not be asked then.
	at     time.Time
	failed bool
	// told is when the cloud told last what it has; the numbers are of then.
	told                time.Time
	orphans, serverless int
}

func newFindings() *findings {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"driver"}, nil)
	}
	return &findings{
		orphans:    gauge("drover_orphan_servers", "Servers that no machine knows and that are provably ours, when the cloud answered last, by driver."),
		serverless: gauge("drover_machines_without_server", "Machines whose server the cloud did not list when it answered last, by driver."),
		failed:     gauge("drover_server_scans_failed", "Credentials with which the cloud could not be asked the last time, by driver."),
		scans:      map[client.ObjectKey]account{},
		accounts:   map[account]finding{},
	}
}

// remember takes in a ServerScan that is done. What users write as a driver becomes no label.
func (f *findings) remember(scan *rkev1.ServerScan) {
	if !clouds.Of(scan.Spec.Driver).Lists {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at, done := accountOf(scan), scan.Status.CompletionTime.Time
	f.scans[client.ObjectKeyFromObject(scan)] = at
	found := f.accounts[at]
	if done.After(found.at) {
		found.at, found.failed = done, !succeeded(scan)
	}
	if succeeded(scan) && usual(scan) && done.After(found.told) {
		found.told, found.orphans, found.serverless = done, int(scan.Status.Orphans), len(scan.Status.MachinesNotListed)
	}
	f.accounts[at] = found
}

// forget drops a ServerScan that is gone, and with the last one what was found at its account.
func (f *findings) forget(key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, known := f.scans[key]
	delete(f.scans, key)
	if known && !slices.Contains(slices.Collect(maps.Values(f.scans)), at) {
		delete(f.accounts, at)
	}
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{f.orphans, f.serverless, f.failed} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (f *findings) Collect(to chan<- prometheus.Metric) {
	orphans, serverless, failed := map[string]int{}, map[string]int{}, map[string]int{}
	f.mu.Lock()
	accounts := maps.Clone(f.accounts)
	f.mu.Unlock()
	for at, one := range accounts {
		orphans[at.driver] += one.orphans
		serverless[at.driver] += one.serverless
		failed[at.driver] += 0
		if one.failed {
			failed[at.driver]++
		}
	}
	for desc, values := range map[*prometheus.Desc]map[string]int{f.orphans: orphans, f.serverless: serverless, f.failed: failed} {
		for driver, n := range values {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), driver)
		}
	}
}

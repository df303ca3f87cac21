package serverscan

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner/operation/profile"
)

// findings are what the ServerScans that are there have found, as metrics: of each account the newest one counts.
type findings struct {
	orphans, serverless, failed *prometheus.Desc

	mu    sync.Mutex
	scans map[client.ObjectKey]finding
}

// finding is one ServerScan's.
type finding struct {
	account
	at                  time.Time
	orphans, serverless int
	failed              bool
}

func newFindings() *findings {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"driver"}, nil)
	}
	return &findings{
		orphans:    gauge("drover_orphan_servers", "Servers that no machine knows and that are provably ours, when the cloud was last asked, by driver."),
		serverless: gauge("drover_machines_without_server", "Machines whose server the cloud did not list when it was last asked, by driver."),
		failed:     gauge("drover_server_scans_failed", "Credentials with which the cloud could not be asked the last time, by driver."),
		scans:      map[client.ObjectKey]finding{},
	}
}

// remember takes in a ServerScan that is done. What users write as a driver becomes no label.
func (f *findings) remember(scan *rkev1.ServerScan) {
	if !profile.HasLister(scan.Spec.Driver) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scans[client.ObjectKeyFromObject(scan)] = finding{
		account: accountOf(scan), at: scan.Status.CompletionTime.Time, orphans: int(scan.Status.Orphans), serverless: len(scan.Status.MachinesNotListed),
		failed: !meta.IsStatusConditionTrue(scan.Status.Conditions, rkev1.ScanDoneCondition),
	}
}

// forget drops one that is gone.
func (f *findings) forget(key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.scans, key)
}

// newest is what was found last at each account.
func (f *findings) newest() map[account]finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	newest := map[account]finding{}
	for _, one := range f.scans {
		if one.at.After(newest[one.account].at) {
			newest[one.account] = one
		}
	}
	return newest
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
	for at, one := range f.newest() {
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

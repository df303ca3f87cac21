package serverscan

import (
	"maps"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// findings are what ServerScans have found, as metrics. What was found last at an account counts while any ServerScan of it is
// there, and for DefaultTTL, for the one that found it may be deleted at once, as `drover gc` does. What was found with another
// grace period than the usual one does not count.
type findings struct {
	clock clock.PassiveClock

	orphans, serverless, failed, listed *prometheus.Desc

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

func newFindings(clock clock.PassiveClock) *findings {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"driver"}, nil)
	}
	return &findings{
		clock:      clock,
		orphans:    gauge("drover_orphan_servers", "Servers that no machine knows and that are provably ours, when the cloud answered last, by driver."),
		serverless: gauge("drover_machines_without_server", "Machines whose server the cloud did not list when it answered last, by driver."),
		failed:     gauge("drover_server_scans_failed", "Credentials with which the cloud could not be asked the last time, by driver."),
		listed: gauge("drover_servers_listed_timestamp_seconds",
			"When the cloud told which servers it has, by driver: the time of the credential that was answered the longest ago."),
		scans:    map[client.ObjectKey]account{},
		accounts: map[account]finding{},
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

// forget drops a ServerScan that is gone.
func (f *findings) forget(key client.ObjectKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.scans, key)
	f.expire()
}

// expire drops what was found at accounts that have no ServerScan any more, once the cloud's answer is as old as one becomes by itself.
func (f *findings) expire() {
	scanned := map[account]bool{}
	for _, at := range f.scans {
		scanned[at] = true
	}
	maps.DeleteFunc(f.accounts, func(at account, found finding) bool {
		return !scanned[at] && f.clock.Since(found.told) >= DefaultTTL
	})
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{f.orphans, f.serverless, f.failed, f.listed} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. Of a driver whose cloud has never answered nothing is told but that it could not be asked.
func (f *findings) Collect(to chan<- prometheus.Metric) {
	orphans, serverless, failed, listed := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	f.mu.Lock()
	f.expire()
	accounts := maps.Clone(f.accounts)
	f.mu.Unlock()
	for at, one := range accounts {
		failed[at.driver] += 0
		if one.failed {
			failed[at.driver]++
		}
		if one.told.IsZero() {
			continue
		}
		orphans[at.driver] += float64(one.orphans)
		serverless[at.driver] += float64(one.serverless)
		told := float64(one.told.Unix())
		if oldest, known := listed[at.driver]; !known || told < oldest {
			listed[at.driver] = told
		}
	}
	for desc, values := range map[*prometheus.Desc]map[string]float64{f.orphans: orphans, f.serverless: serverless, f.failed: failed, f.listed: listed} {
		for driver, value := range values {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, driver)
		}
	}
}

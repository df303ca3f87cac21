package serverscan

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
)

// findings exports the findings of the existing ServerScans as metrics: for each account the latest
// ones. ServerScans with another grace period than the default do not count.
type findings struct {
	scans client.Reader

	orphans, serverless, failed, listed *prometheus.Desc
}

func newFindings(scans client.Reader) *findings {
	gauge := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"driver"}, nil)
	}
	return &findings{
		scans:      scans,
		orphans:    gauge("drover_orphan_servers", "Orphaned servers in the last response of the cloud, by driver."),
		serverless: gauge("drover_machines_without_server", "Machines whose server was missing in the last response of the cloud, by driver."),
		failed:     gauge("drover_server_scans_failed", "Credentials with which the last query of the cloud failed, by driver."),
		listed: gauge("drover_servers_listed_timestamp_seconds",
			"Time of the last successful query of the cloud, by driver: the oldest of all credentials."),
	}
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{f.orphans, f.serverless, f.failed, f.listed} {
		to <- desc
	}
}

// scrapeTime bounds how long a scrape waits for the ServerScans, which are in memory except while a
// manager starts.
const scrapeTime = 5 * time.Second

// Collect implements prometheus.Collector. For a driver whose cloud has never answered it exports
// only the number of failed scans.
func (f *findings) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	list := &rkev1.ServerScanList{}
	if err := f.scans.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // an error would take all other metrics along
	}
	orphans, serverless, failed, listed := map[string]float64{}, map[string]float64{}, map[string]float64{}, map[string]float64{}
	// A user's driver name becomes a label only if it is a known driver.
	isDone := func(scan *rkev1.ServerScan) bool { return !endOf(scan).IsZero() && clouds.Of(scan.Spec.Driver).Lists }
	for at, scan := range newest(list.Items, isDone) {
		failed[at.driver] += 0
		if !succeeded(scan) {
			failed[at.driver]++
		}
	}
	for at, scan := range newest(list.Items, isDone, usual, succeeded) {
		orphans[at.driver] += float64(scan.Status.Orphans)
		serverless[at.driver] += float64(len(scan.Status.MachinesNotListed))
		ended := float64(endOf(scan).Unix())
		listed[at.driver] = min(ended, cmp.Or(listed[at.driver], ended))
	}
	for desc, values := range map[*prometheus.Desc]map[string]float64{f.orphans: orphans, f.serverless: serverless, f.failed: failed, f.listed: listed} {
		for driver, value := range values {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, driver)
		}
	}
}

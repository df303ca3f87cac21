package serverscan

import "github.com/prometheus/client_golang/prometheus"

// Metrics are what a manager would serve.
func (r *Reconciler) Metrics() prometheus.Collector { return r.findings }

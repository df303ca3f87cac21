package main

import (
	"context"
	"net/http"
	"net/http/pprof"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/drover-project/drover/endpoint"
)

// addPorts serves metrics, health and, when asked for, profiles. They answer before caches are filled, and on every replica.
func (p *plan) addPorts(ctx context.Context, mgr ctrl.Manager, hooks *webhooks) error {
	o := p.options
	if err := endpoint.RegisterMetrics(); err != nil {
		return err
	}
	ready := hooks.ready(mgr.GetWebhookServer().StartedChecker())
	for _, port := range []struct {
		name, address string
		handler       http.Handler
		limits        endpoint.Limits
	}{
		{"metrics", o.metricsAddress, endpoint.Metrics(), endpoint.PlainLimits},
		{"health", o.healthAddress, healthHandler(ready), endpoint.PlainLimits},
		{"profiles", o.profilingAddress, profileHandler(), endpoint.ProfileLimits},
	} {
		server, err := endpoint.Plain(ctx, port.name, port.address, port.handler, port.limits)
		if err != nil {
			return err
		}
		if server == nil {
			continue
		}
		server.ShutdownTimeout = &o.gracefulShutdown
		if err := mgr.Add(server); err != nil {
			return err
		}
	}
	return nil
}

func healthHandler(ready healthz.Checker) http.Handler {
	mux := http.NewServeMux()
	for path, checks := range map[string]map[string]healthz.Checker{"/healthz": {"ping": healthz.Ping}, "/readyz": {"webhooks": ready}} {
		handler := http.StripPrefix(path, &healthz.Handler{Checks: checks})
		mux.Handle(path, handler)
		mux.Handle(path+"/", handler)
	}
	return mux
}

func profileHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

package capi

import (
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// Handover makes what Setup adds for the embedded core.
func Handover(informers cache.Informers, live client.Reader) manager.Runnable {
	return &handover{cache: informers, live: live}
}

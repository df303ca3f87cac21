package machine

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// watchIndex remembers which machines wait for which objects, so that an event about a Secret or a driver wakes them and no
// others. It is rebuilt after a restart, for then every machine is reconciled once.
//
// A machine notes its interest before it reads the object: what changes later wakes it, what changed earlier is read.
type watchIndex struct {
	mu        sync.Mutex
	byKey     map[string]map[Request]bool
	byRequest map[Request][]string
}

func newWatchIndex() *watchIndex {
	return &watchIndex{byKey: map[string]map[Request]bool{}, byRequest: map[Request][]string{}}
}

func secretKey(key types.NamespacedName) string { return "secret/" + key.String() }

func jobKey(key types.NamespacedName) string { return "job/" + key.String() }

func driverKey(driver string) string { return "driver/" + driver }

func clusterKey(key types.NamespacedName) string { return "cluster/" + key.String() }

// podsKey is that of the pods of a machine's Jobs, wherever they run.
func podsKey(machine string) string { return "pods/" + machine }

// nodeKey is that of a CAPI Machine's Node, or, without one, of the way into its cluster.
func nodeKey(cluster types.NamespacedName, machine types.UID) string {
	return "node/" + cluster.String() + "/" + string(machine)
}

func (i *watchIndex) note(request Request, key string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.byKey[key] == nil {
		i.byKey[key] = map[Request]bool{}
	}
	if !i.byKey[key][request] {
		i.byKey[key][request] = true
		i.byRequest[request] = append(i.byRequest[request], key)
	}
}

func (i *watchIndex) forget(request Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, key := range i.byRequest[request] {
		delete(i.byKey[key], request)
		if len(i.byKey[key]) == 0 {
			delete(i.byKey, key)
		}
	}
	delete(i.byRequest, request)
}

func (i *watchIndex) in(key string) []Request {
	i.mu.Lock()
	defer i.mu.Unlock()
	requests := make([]Request, 0, len(i.byKey[key]))
	for request := range i.byKey[key] {
		requests = append(requests, request)
	}
	return requests
}

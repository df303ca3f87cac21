package faults

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
)

// Where and when a fault strikes.
const (
	creating = "create"
	removing = "remove"

	manager = "manager"
	pod     = "pod"
	atCloud = "cloud"
)

// trouble is one fault: the index-th request of a place, counted from the beginning of a phase.
type trouble struct {
	phase, place, kind string
	index              int
	// request is what was recorded there.
	request string
}

func (t trouble) String() string {
	return fmt.Sprintf("%s: %s, %s request %d (%s)", t.phase, t.kind, t.place, t.index, t.request)
}

// strikes on requests to the API server, by name.
func (w *world) strikes() map[string]strike {
	all := map[string]strike{
		"killed before":     {die: diesBefore},
		"killed after":      {die: diesAfter},
		"unavailable":       {status: http.StatusServiceUnavailable},
		"answer lost":       {lost: true},
		"conflict":          {status: http.StatusConflict},
		"clock an hour on":  {before: func() { w.clock.SetTime(w.clock.Now().Add(time.Hour)) }},
		"clock an hour off": {before: func() { w.clock.SetTime(w.clock.Now().Add(-time.Hour)) }},
		"machine deleted":   {before: w.deleteAndCancel},
	}
	return all
}

// deleteAndCancel deletes the machine while its pod is at work; the manager sees it at once.
func (w *world) deleteAndCancel() {
	w.deleteMachine()
	w.say("the machine is deleted")
	if cancel := w.cancelPod; cancel != nil {
		w.reconcile()
		cancel()
	}
}

// struck lists, for a place, the names of what can strike its requests.
func struck(place string) []string {
	switch place {
	case manager:
		return []string{"killed before", "killed after", "unavailable", "answer lost", "conflict", "clock an hour on", "clock an hour off"}
	case pod:
		return []string{"killed before", "killed after", "unavailable", "answer lost", "machine deleted"}
	}
	var names []string
	for name := range effects() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// effect is what the cloud does, how often, and which classes a failure that it leads to may have.
type effect struct {
	fault.Effect
	// always holds on until the cause is mended.
	always bool
	// hopeless tells that no attempt can ever succeed, whatever is mended.
	hopeless bool
	// kills the pod as soon as it is hit.
	kills bool
	// classes that are true; empty when the fault says nothing of the cause.
	classes []string
}

func effects() map[string]effect {
	transient := []string{rkev1.ClassTransient, rkev1.ClassUnknown}
	all := map[string]effect{
		"401":                   {Effect: fault.Unauthorized(), always: true, classes: []string{rkev1.ClassUnauthorized}},
		"quota":                 {Effect: fault.Quota(), always: true, classes: []string{rkev1.ClassQuota}},
		"429":                   {Effect: fault.RateLimited(time.Second), always: true, classes: []string{rkev1.ClassThrottled}},
		"422":                   {Effect: fault.Refused("you specified an invalid size for Droplet creation."), always: true, classes: []string{rkev1.ClassInvalid}},
		"429 once":              {Effect: fault.RateLimited(time.Second), classes: []string{rkev1.ClassThrottled}},
		"500 before":            {Effect: fault.ServerError(http.StatusInternalServerError), classes: transient},
		"503 for long":          {Effect: fault.ServerError(http.StatusServiceUnavailable), always: true, classes: transient},
		"500 after":             {Effect: fault.ServerErrorAfter(http.StatusInternalServerError), classes: transient},
		"connection lost":       {Effect: fault.ConnectionLost(), classes: transient},
		"answer lost":           {Effect: fault.AnswerLost(), classes: transient},
		"slow":                  {Effect: fault.Slow(time.Second)},
		"pod killed before":     {Effect: fault.ConnectionLost(), kills: true},
		"pod killed after":      {Effect: fault.AnswerLost(), kills: true},
		"slow boot":             {Effect: fault.SlowBoot(2 * time.Second)},
		"vanishes after boot":   {Effect: fault.Vanishes(time.Millisecond)},
		"never boots":           {Effect: fault.NeverBoots(), hopeless: true},
		"active without a host": {Effect: fault.Offline()},
	}
	return all
}

// boots tells whether an effect is about a droplet's boot, so that it only means something when one is made.
func (e effect) boots() bool { return e.Boot != nil }

// record is which requests a run without faults made, by phase and place.
type record map[string]map[string][]string

// singles are all faults at all points.
func (r record) singles() []trouble {
	var all []trouble
	for _, phase := range []string{creating, removing} {
		for _, place := range []string{manager, pod, atCloud} {
			for index, request := range r[phase][place] {
				all = append(all, r.at(phase, place, index, request)...)
			}
		}
	}
	return all
}

func (r record) at(phase, place string, index int, request string) []trouble {
	var all []trouble
	for _, kind := range struck(place) {
		if phase == removing && kind == "machine deleted" {
			continue
		}
		if place == atCloud && effects()[kind].boots() && request != fault.CreateDroplet {
			continue
		}
		all = append(all, trouble{phase: phase, place: place, kind: kind, index: index, request: request})
	}
	return all
}

// run n of all: first every single fault, in an order that spreads them, then two at once.
func (r record) run(n int) []trouble {
	all := r.singles()
	order := rand.New(rand.NewPCG(1, 2)).Perm(len(all))
	if n < len(all) {
		return []trouble{all[order[n]]}
	}
	random := rand.New(rand.NewPCG(uint64(n), 3))
	return []trouble{all[random.IntN(len(all))], all[random.IntN(len(all))]}
}

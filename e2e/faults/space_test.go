package faults

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
)

// phases of a life. A restore is only in some.
var phases = []string{creating, removing, restoring}

// Where and when a fault strikes.
const (
	creating  = "create"
	restoring = "restore"
	removing  = "remove"

	manager = "manager"
	pod     = "pod"
	atCloud = "cloud"
	onDisk  = "disk"
)

// trouble is one fault: the index-th request of a place, counted from the beginning of a phase; of the disk, how much of it
// there is.
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
	return map[string]strike{
		"killed before":      {die: diesBefore},
		"killed after":       {die: diesAfter},
		"unavailable":        {status: http.StatusServiceUnavailable},
		"answer lost":        {lost: true},
		"conflict":           {status: http.StatusConflict},
		"conflict 4 times":   {status: http.StatusConflict, more: 3},
		"changed meanwhile":  {before: w.touch},
		"stale cache":        {before: w.lag},
		"restart: 4 refused": {refuse: 4},
		"refused to the end": {refuse: 1, more: 1 << 20},
		"clock an hour on":   {before: func() { w.clock.SetTime(w.clock.Now().Add(time.Hour)) }},
		"clock an hour off":  {before: func() { w.clock.SetTime(w.clock.Now().Add(-time.Hour)) }},
		"machine deleted":    {before: w.deleteAndCancel},
		"server lost":        {before: func() { w.loseServer(); w.lost = true }},
		"another's ID":       {before: w.nameAnothers},
	}
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

// loseServer removes the server behind everybody's back.
func (w *world) loseServer() {
	w.Helper()
	for _, record := range w.droplets() {
		if !record.IsLive() {
			continue
		}
		w.vanish(record.ID)
		delete(w.spared, record.ID)
		w.say("server %s is lost", record.ID)
	}
}

func (w *world) vanish(server string) {
	w.Helper()
	require.NoError(w, theCloud.Account.DeleteDroplet(context.WithoutCancel(w.Context()), account.Vanished, number(server)))
}

// number of a server; 0, which is none, for what is not its ID.
func number(server string) int {
	id, _ := strconv.Atoi(server)
	return id
}

var dropletID = regexp.MustCompile(`"DropletID":\s*\d+`)

// struck lists the names of what can strike a request of a place.
func struck(phase, place, request string) []string {
	kinds := []string{"killed before", "killed after", "unavailable", "answer lost", "restart: 4 refused"}
	if isChange(request) {
		kinds = append(kinds, "conflict", "conflict 4 times")
	}
	switch place {
	case manager:
		kinds = append(kinds, "clock an hour on", "clock an hour off")
		if isWrite(request) {
			kinds = append(kinds, "changed meanwhile", "stale cache")
		}
	case pod:
		kinds = append(kinds, "refused to the end")
	case onDisk:
		return []string{request}
	case atCloud:
		kinds = slices.DeleteFunc(effectNames(), func(name string) bool { return effects()[name].boots() && request != fault.CreateDroplet })
	}
	if place == atCloud {
		return kinds
	}
	kinds = append(kinds, "another's ID")
	if phase != removing {
		kinds = append(kinds, "machine deleted")
	}
	if phase != creating {
		kinds = append(kinds, "server lost")
	}
	return kinds
}

func effectNames() []string {
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
	// says is a part of the message that a failure must have.
	says string
}

func effects() map[string]effect {
	unclear := unclearClasses()
	return map[string]effect{
		"401":                   {Effect: fault.Unauthorized, always: true, classes: []string{rkev1.ClassUnauthorized}},
		"403":                   {Effect: forbidden(), always: true, classes: []string{rkev1.ClassUnauthorized}, says: "not permitted"},
		"quota":                 {Effect: fault.Quota, always: true, classes: []string{rkev1.ClassQuota}, says: "droplet limit"},
		"429":                   {Effect: fault.RateLimited(time.Second), always: true, classes: []string{rkev1.ClassThrottled}},
		"422":                   {Effect: fault.Refused("you specified an invalid size for Droplet creation."), always: true, classes: []string{rkev1.ClassInvalid}, says: "invalid size"},
		"429 once":              {Effect: fault.RateLimited(time.Second), classes: []string{rkev1.ClassThrottled}},
		"500 before":            {Effect: fault.Effect{Status: http.StatusInternalServerError}, classes: unclear},
		"503 for long":          {Effect: fault.Effect{Status: http.StatusServiceUnavailable}, always: true, classes: unclear},
		"500 after":             {Effect: fault.Effect{Status: http.StatusInternalServerError, After: true}, classes: unclear},
		"connection lost":       {Effect: fault.ConnectionLost, classes: unclear},
		"answer lost":           {Effect: fault.AnswerLost, classes: unclear},
		"slow":                  {Effect: fault.Effect{Latency: time.Second}},
		"hangs":                 {Effect: fault.Effect{Latency: podDeadline + podGrace}, classes: unclear},
		"pod killed before":     {Effect: fault.ConnectionLost, kills: true, classes: unclear},
		"pod killed after":      {Effect: fault.AnswerLost, kills: true, classes: unclear},
		"slow boot":             {Effect: fault.Effect{Boot: &fault.Boot{Delay: 2 * time.Second}}},
		"vanishes after boot":   {Effect: fault.Effect{Boot: &fault.Boot{VanishAfter: time.Millisecond}}},
		"never boots":           {Effect: fault.NeverBoots, hopeless: true},
		"no address":            {Effect: fault.Effect{Boot: &fault.Boot{NoAddress: true}}, hopeless: true},
		"active without a host": {Effect: fault.Offline},
	}
}

// unclearClasses are true of what passes by itself.
func unclearClasses() []string { return []string{rkev1.ClassTransient, rkev1.ClassUnknown} }

func forbidden() fault.Effect {
	return fault.Effect{Status: http.StatusForbidden, ErrorID: "forbidden", Message: "You are not permitted to perform this operation"}
}

// boots tells whether an effect is about a droplet's boot, so that it only means something when one is made. In a remove it
// means that a server is removed that was made under it.
func (e effect) boots() bool { return e.Boot != nil }

// inPhase tells whether a trouble is to be armed in a phase.
func (t trouble) inPhase(phase string) bool {
	return t.phase == phase && !t.early() || phase == creating && t.early()
}

// early is a trouble of the remove that begins before it.
func (t trouble) early() bool {
	return t.place == atCloud && t.phase == removing && effects()[t.kind].boots()
}

package faults

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/account"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

// Where and when a fault strikes.
const (
	creating = "create"
	removing = "remove"

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
		"server lost":        {before: w.loseServer},
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
		w.say("server %s is lost", record.ID)
	}
}

func (w *world) vanish(server string) {
	w.Helper()
	id, err := strconv.Atoi(server)
	require.NoError(w, err)
	require.NoError(w, theCloud.Account().Vanish(context.WithoutCancel(w.Context()), id))
}

// nameAnothers makes the record in the state name the server of another machine, as an edited or wrongly restored one does.
func (w *world) nameAnothers() {
	w.Helper()
	secret := &corev1.Secret{}
	err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}, secret)
	archive := secret.Data[state.ExtractedConfigKey]
	if err != nil || len(archive) == 0 {
		return
	}
	files, err := sshkeys.ReadArchive(archive)
	require.NoError(w, err)
	made, _, err := theCloud.Account().CreateDroplets(account.Caller{Token: w.token}, account.DropletRequest{
		Names: []string{"another"}, Region: "nyc3", Size: "s-1vcpu-1gb", Image: "ubuntu-22-04-x64", Tags: []string{"drover-machine-uid:another"}}, account.Boot{})
	require.NoError(w, err)
	for i := range files {
		files[i].Content = dropletID.ReplaceAll(files[i].Content, fmt.Appendf(nil, `"DropletID":%d`, made[0].ID))
	}
	secret.Data[state.ExtractedConfigKey], err = sshkeys.WriteArchive("/root/.docker/machine/machines", files)
	require.NoError(w, err)
	patch := fmt.Sprintf(`{"data":{%q:%q}}`, state.ExtractedConfigKey, base64.StdEncoding.EncodeToString(secret.Data[state.ExtractedConfigKey]))
	require.NoError(w, client.IgnoreNotFound(w.admin.Patch(w.Context(), secret, client.RawPatch("application/merge-patch+json", []byte(patch)))))
	w.spared[fmt.Sprint(made[0].ID)] = true
	w.say("the state names server %d of another machine", made[0].ID)
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
	if phase == creating && place != atCloud {
		return append(kinds, "machine deleted")
	}
	if place == manager || place == pod {
		kinds = append(kinds, "server lost", "another's ID")
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
		"401":                   {Effect: fault.Unauthorized(), always: true, classes: []string{rkev1.ClassUnauthorized}},
		"403":                   {Effect: forbidden(), always: true, classes: []string{rkev1.ClassUnauthorized}, says: "not permitted"},
		"quota":                 {Effect: fault.Quota(), always: true, classes: []string{rkev1.ClassQuota}, says: "droplet limit"},
		"429":                   {Effect: fault.RateLimited(time.Second), always: true, classes: []string{rkev1.ClassThrottled}},
		"422":                   {Effect: fault.Refused("you specified an invalid size for Droplet creation."), always: true, classes: []string{rkev1.ClassInvalid}, says: "invalid size"},
		"429 once":              {Effect: fault.RateLimited(time.Second), classes: []string{rkev1.ClassThrottled}},
		"500 before":            {Effect: fault.ServerError(http.StatusInternalServerError), classes: unclear},
		"503 for long":          {Effect: fault.ServerError(http.StatusServiceUnavailable), always: true, classes: unclear},
		"500 after":             {Effect: fault.ServerErrorAfter(http.StatusInternalServerError), classes: unclear},
		"connection lost":       {Effect: fault.ConnectionLost(), classes: unclear},
		"answer lost":           {Effect: fault.AnswerLost(), classes: unclear},
		"slow":                  {Effect: fault.Slow(time.Second)},
		"hangs":                 {Effect: fault.Slow(podDeadline + podGrace), classes: unclear},
		"pod killed before":     {Effect: fault.ConnectionLost(), kills: true, classes: unclear},
		"pod killed after":      {Effect: fault.AnswerLost(), kills: true, classes: unclear},
		"slow boot":             {Effect: fault.SlowBoot(2 * time.Second)},
		"vanishes after boot":   {Effect: fault.Vanishes(time.Millisecond)},
		"never boots":           {Effect: fault.NeverBoots(), hopeless: true},
		"no address":            {Effect: fault.Effect{Boot: &fault.Boot{NoAddress: true}}, hopeless: true},
		"active without a host": {Effect: fault.Offline()},
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

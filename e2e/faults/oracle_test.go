package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/e2e/cloud/fault"
	"github.com/drover-project/drover/e2e/cloud/ledger"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// droplets are all that this run ever had, in the order of their making.
func (w *world) droplets() []ledger.Record {
	var mine []ledger.Record
	for _, record := range theCloud.Ledger.Records(ledger.KindDroplet) {
		if slices.ContainsFunc(w.uids, func(uid string) bool { return slices.Contains(record.Tags, "drover-machine-uid:"+uid) }) {
			mine = append(mine, record)
		}
	}
	return mine
}

func isGone(r ledger.Record) bool { return !r.IsLive() }

// neverTwo finds two servers of the machine at the same time.
func (w *world) neverTwo() error {
	all := w.droplets()
	for i, first := range all {
		for _, second := range all[i+1:] {
			if first.IsLive() || first.Removed.After(second.Time) {
				return fmt.Errorf("servers %s and %s were there at the same time", first.ID, second.ID)
			}
		}
	}
	return nil
}

// forgotten finds, at any moment, a server that no object stands for, and a record that was lost while its server is there.
func (w *world) forgotten() error {
	live := slices.DeleteFunc(w.droplets(), isGone)
	if len(live) == 0 || w.stateless {
		return nil
	}
	if err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(w.obj), w.obj.DeepCopy()); err != nil {
		if waits, _ := w.waitsForMachine(); waits {
			return nil
		}
		return fmt.Errorf("server %s has no machine: %w", live[0].ID, err)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}
	if err := w.admin.Get(w.Context(), key, secret); err != nil {
		return fmt.Errorf("server %s has no state: %w", live[0].ID, err)
	}
	if len(secret.Data[state.JournalKey]) == 0 {
		return fmt.Errorf("server %s is not in its journal", live[0].ID)
	}
	if !slices.Contains(secret.Finalizers, rkev1.MachineFinalizer) {
		return fmt.Errorf("nothing keeps the state of server %s", live[0].ID)
	}
	recorded := len(secret.Data[state.ExtractedConfigKey]) > 0
	if w.kept == live[0].ID && !recorded {
		return fmt.Errorf("the record of server %s was there and is lost", w.kept)
	}
	if server, err := state.ReadServer(secret.Data); err == nil && recorded && server.InstanceID == live[0].ID {
		w.kept = live[0].ID
	}
	return nil
}

// waitsForMachine tells that a machine was deleted before it had taken over the state that a restore brought back: that stays, with its
// finalizer, knows the server, and waits for a machine of that name.
func (w *world) waitsForMachine() (bool, error) {
	if err := w.admin.Get(w.Context(), client.ObjectKeyFromObject(w.obj), w.obj.DeepCopy()); !apierrors.IsNotFound(err) {
		return false, err
	}
	secret := &corev1.Secret{}
	err := w.admin.Get(w.Context(), client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}, secret)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	server, err := state.ReadServer(secret.Data)
	return err == nil && server.InstanceID != "" && slices.Contains(secret.Finalizers, rkev1.MachineFinalizer) &&
		len(w.uids) > 1 && secret.Labels[rkev1.MachineUIDLabel] != w.uids[len(w.uids)-1], nil
}

// whenReady is what must hold of a machine that is Ready.
func (w *world) whenReady() error {
	if err := w.neverTwo(); err != nil {
		return err
	}
	if err := w.nothingShown(); err != nil {
		return err
	}
	live := slices.DeleteFunc(w.droplets(), isGone)
	if len(live) == 0 && w.lost {
		return nil // it went when everything was done
	}
	if len(live) != 1 {
		return fmt.Errorf("the machine is Ready and has %d servers", len(live))
	}
	data, err := theCloud.Account.UserData(number(live[0].ID))
	if times := strings.Count(data, bootstrapMarker); err != nil || times != 1 {
		return fmt.Errorf("the server's user data has the bootstrap data %d times: %s (%w)", times, data, err)
	}
	id, _, _ := unstructured.NestedString(w.obj.Object, "spec", "providerID")
	if want := "digitalocean://" + live[0].ID; id != want {
		return fmt.Errorf("the machine says %q, its server is %s", id, want)
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}
	if err := w.admin.Get(w.Context(), key, secret); err != nil {
		return err
	}
	for _, key := range []string{state.ExtractedConfigKey, state.SSHPrivateKeyKey, state.ServerKey} {
		if len(secret.Data[key]) == 0 {
			return fmt.Errorf("the machine is Ready and its state has no %s", key)
		}
	}
	return nil
}

// whenGone is what must hold when the machine is gone.
func (w *world) whenGone() error {
	if err := w.neverTwo(); err != nil {
		return err
	}
	if err := w.nothingShown(); err != nil {
		return err
	}
	if w.stateless && !w.held {
		w.loseServer() // no manager ever saw the machine, so that drover gc is who finds its server
	}
	live := theCloud.Ledger.Live()
	for _, record := range live {
		if w.spared[record.ID] && record.Kind == ledger.KindDroplet {
			delete(w.spared, record.ID)
			w.vanish(record.ID)
			continue
		}
		if w.stateless && (record.Kind == ledger.KindKey || w.setting.losesTag() && record.Kind == ledger.KindTag) {
			continue // with the state is lost which key it was, for it has no tag and many may have its name; and the UID by which the server was tagged
		}
		used := record.Kind == ledger.KindTag && slices.ContainsFunc(live, func(other ledger.Record) bool { return slices.Contains(other.Tags, record.Name) })
		used = used || record.Kind == ledger.KindTag && w.isRefused(record.Name)
		if record.Token == w.token && !used && record.Time.After(w.began) {
			return fmt.Errorf("%s %s (%s) is left at the cloud", record.Kind, record.ID, record.Name)
		}
	}
	if len(w.spared) > 0 {
		return fmt.Errorf("servers of another machine were removed: %v", w.spared)
	}
	var err error
	w.each(func(item client.Object) {
		owned := slices.ContainsFunc(item.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == w.obj.GetUID() })
		switch {
		case !owned:
			err = fmt.Errorf("%T %s is left and belongs to nobody", item, item.GetName())
		case slices.Contains(item.GetFinalizers(), rkev1.MachineFinalizer):
			err = fmt.Errorf("%T %s is left with its finalizer", item, item.GetName())
		}
	})
	return err
}

// isRefused reports whether the cloud refused for good to show or remove a tag: that is noted, and no tag keeps a machine.
func (w *world) isRefused(tag string) bool {
	refusing := map[string]bool{}
	for t, rule := range w.armed {
		refusing[rule] = effects()[t.kind].always
	}
	return slices.ContainsFunc(theCloud.Faults.Hits(), func(hit fault.Hit) bool {
		// Without the list nobody knows who uses a tag.
		return refusing[hit.Rule] && (hit.Path == "/v2/tags/"+tag || hit.Method == http.MethodGet && hit.Path == "/v2/droplets")
	})
}

// nothingShown finds secrets where people look: in the machine, its Jobs, and the parts of the state that are told further.
func (w *world) nothingShown() error {
	jobs := &batchv1.JobList{}
	require.NoError(w, w.admin.List(w.Context(), jobs, client.InNamespace(w.namespace)))
	shown := map[string]any{"the machine": w.obj.Object, "its Jobs": jobs.Items}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: w.namespace, Name: jobrunner.StateSecretName(machineName)}
	if err := w.admin.Get(w.Context(), key, secret); err == nil {
		for _, key := range []string{state.LogKey, state.ResultKey, state.JournalKey, state.ServerKey} {
			shown["the state's "+key] = string(secret.Data[key])
		}
	}
	for name, content := range shown {
		text, err := json.Marshal(content)
		require.NoError(w, err)
		for _, marker := range []string{w.secretToken, bootstrapMarker} {
			if strings.Contains(string(text), marker) {
				return fmt.Errorf("%s: a secret is shown (%s…)", name, marker[:8])
			}
		}
	}
	return nil
}

// story is what happened, for who has to find out why.
func (w *world) story() string {
	var out strings.Builder
	for _, line := range w.log {
		fmt.Fprintln(&out, "  ", line)
	}
	for _, entry := range theCloud.Ledger.Entries() {
		if entry.Token == w.token && entry.Time.After(w.began) {
			fmt.Fprintln(&out, "   ledger:", entry.Time.Format("05.000"), entry.Op, entry.Kind, entry.ID)
		}
	}
	status := w.status()
	for _, c := range status.Conditions {
		fmt.Fprintln(&out, "   condition:", c.Type, c.Status, c.Reason, c.Message)
	}
	return out.String()
}

func metaItems(list client.ObjectList) ([]client.Object, error) {
	raw, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	items := make([]client.Object, 0, len(raw))
	for _, item := range raw {
		if obj, ok := item.(client.Object); ok {
			items = append(items, obj)
		}
	}
	return items, nil
}

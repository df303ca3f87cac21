package machine

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/clouds"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/userdata"
)

// bootstrapValueKey is where Cluster API's contract has the data of a bootstrap Secret.
const bootstrapValueKey = "value"

// awaitBootstrap waits for the bootstrap data and checks it before a server is paid for.
func (r *Reconciler) awaitBootstrap(ctx context.Context, s *scope) error {
	name := s.machine.Spec.Bootstrap.DataSecretName
	if name == nil || *name == "" {
		return step.Wait(rkev1.WaitingForBootstrapReason,
			fmt.Sprintf("the CAPI Machine %s has no spec.bootstrap.dataSecretName yet: its bootstrap provider sets it", s.machine.Name), 0)
	}
	key := types.NamespacedName{Namespace: s.GetNamespace(), Name: *name}
	r.watchIndex.note(s.request, secretKey(key))
	secret := &corev1.Secret{}
	err := r.Live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return step.Wait(rkev1.BootstrapSecretMissingReason, fmt.Sprintf("the bootstrap Secret %s is not there: create it with the data in its key %s", *name, bootstrapValueKey), 0)
	}
	if err != nil {
		return fmt.Errorf("reading the bootstrap Secret %s: %w", *name, err)
	}
	if _, ok := secret.Data[bootstrapValueKey]; !ok {
		return step.Wait(rkev1.BootstrapSecretInvalidReason, fmt.Sprintf("the bootstrap Secret %s has no key %s: put the data there", *name, bootstrapValueKey), 0)
	}
	s.bootstrap = secret
	return r.checkUserData(s)
}

// checkUserData tells early what the Job would tell late, as far as that needs no parsing: the data is anybody's, the manager
// everybody's.
func (r *Reconciler) checkUserData(s *scope) error {
	data := s.bootstrap.Data[bootstrapValueKey]
	summary, err := userdata.Inspect(data)
	if err != nil {
		return step.Wait(rkev1.BootstrapSecretInvalidReason, fmt.Sprintf("the bootstrap data in Secret %s cannot be read: %v", s.bootstrap.Name, err), 0)
	}
	way, err := r.way(s)
	if err != nil && summary.Format != userdata.Empty {
		return step.Wait(rkev1.UserDataHabitUnknownReason, err.Error(), 0)
	}
	if known := clouds.Of(s.driver.ref.Name); way.Habit == clouds.None && summary.Format != userdata.Empty && (!known.NoServer || known.NeedsKey != "") &&
		s.SSHContact().Mode == rkev1.SSHContactOff {
		return step.Stall(rkev1.SpecInvalidReason, fmt.Errorf("driver %s takes no user data, so that the bootstrap data goes over SSH: spec.common.sshContact.mode must not be Off",
			s.driver.ref.Name))
	}
	var user []byte
	if err = nil; way.Flag != "" { // without a flag the data goes over SSH, which has no limit
		user = s.driver.files[way.Flag]
		if text, _ := s.driver.values[way.Flag].(string); len(user) == 0 && way.Habit != clouds.Base64 {
			user = []byte(text)
		}
		err = userdata.Check(s.driver.ref.Name, userdata.Input{Bootstrap: data, User: user})
	}
	if _, tooLarge := errors.AsType[*userdata.TooLargeError](err); tooLarge {
		return step.Wait(rkev1.UserDataTooLargeReason, fmt.Sprintf("%v: shorten the bootstrap data in Secret %s or the user data in this machine's template", err, s.bootstrap.Name), 0)
	}
	if own, unread := userdata.Inspect(user); err != nil && (unread != nil || own.Format == userdata.Opaque) {
		return step.Wait(rkev1.UserDataInvalidReason, fmt.Sprintf("the machine's own user data (driver flag --%s) cannot be used with the bootstrap data: %v: correct it in the machine's template",
			way.Flag, err), 0)
	}
	if err != nil {
		return step.Wait(rkev1.BootstrapSecretInvalidReason, fmt.Sprintf("the bootstrap data in Secret %s cannot be joined with the machine's own user data: %v", s.bootstrap.Name, err), 0)
	}
	if summary.IsUnexplained() {
		s.conditions.True(rkev1.BootstrapReadyCondition, rkev1.BootstrapFormatUnknownReason, fmt.Sprintf("nothing is known that would read the bootstrap data in Secret %s, "+
			"which is handed over as it is: a script begins with #!, cloud-init's configuration with #cloud-config", s.bootstrap.Name))
	}
	return nil
}

// way is how the machine's driver takes user data.
func (r *Reconciler) way(s *scope) (clouds.UserData, error) {
	flags := make([]userdata.Flag, len(r.kind.Fields))
	for i, field := range r.kind.Fields {
		flags[i] = userdata.Flag{Name: field.Flag, Text: field.Type == crdgen.String, File: field.File}
	}
	return userdata.Way(s.driver.ref.Name, s.driver.way, flags)
}

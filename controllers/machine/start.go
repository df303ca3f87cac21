package machine

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/credential"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// start claims an attempt and makes its Job.
func (r *Reconciler) start(ctx context.Context, s *scope, claim state.Claim) error {
	claim.Hash = r.requestHash(s, claim.Operation)
	task := r.task(s, claim)
	if err := r.awaitJobLimit(ctx, s, claim.Operation); err != nil {
		return err
	}
	if err := r.arm(ctx, s, claim); err != nil {
		return err
	}
	if err := r.dropJob(ctx, s, claim); err != nil {
		return err
	}
	var err error
	if task.Request.Registered, err = r.registered(ctx, s, claim); err != nil {
		return err
	}
	plan := attempt.Plan{Task: task, New: s.state.secret == nil, Taken: r.takeName, Check: func(ctx context.Context) error { return r.checkThere(ctx, s) }}
	if plan.Record, err = jobrunner.StateSecret(task); err != nil {
		return refused(err)
	}
	if task.Credential.Name != "" {
		if plan.Kept, err = jobrunner.CredentialSecret(task); err != nil {
			return refused(err)
		}
	}
	r.watchIndex.note(s.request, watchKey{kind: "Pod", uid: s.GetUID()})
	if err := r.runner.Start(ctx, s.subject(), plan); err != nil {
		return refused(err)
	}
	s.jobWanted = true
	s.status.JobName, s.status.Attempts, s.status.InstanceName = task.Name(), claim.Attempt, task.Request.InstanceName
	// Every reader of the machine sees this URL; only the state Secret has the whole address.
	s.status.DriverURL, s.status.DriverHash = driver.PublicURL(task.Request.Driver.URL), task.Request.Driver.Checksum
	s.status.NextAttemptTime = nil
	s.status.CloudCredentialSecretName = cmp.Or(s.credential.Name, s.status.CloudCredentialSecretName)
	return underWay(task.Name(), claim.Attempt, safetyNet)
}

// arm asks a bootstrap provider that distinguishes create attempts, as ours does, to create a token
// for this attempt: the server of an earlier attempt may have used up its own token. Other
// providers do not distinguish attempts.
func (r *Reconciler) arm(ctx context.Context, s *scope, claim state.Claim) error {
	if s.bootstrap == nil || claim.Operation != state.Create {
		return nil
	}
	armed, knows := s.bootstrap.Annotations[rkev1.ArmedForAnnotation]
	wanted := strconv.Itoa(int(claim.Attempt))
	if !knows || armed == wanted {
		return nil
	}
	if s.bootstrap.Annotations[rkev1.CreateAttemptAnnotation] != wanted {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, s.bootstrap.UID, rkev1.CreateAttemptAnnotation, wanted))
		if err := r.Client.Patch(ctx, s.bootstrap.DeepCopy(), patch); err != nil {
			return fmt.Errorf("requesting bootstrap data for attempt %s: %w", wanted, err)
		}
	}
	return step.Wait(rkev1.WaitingForBootstrapReason, fmt.Sprintf("the bootstrap Secret %s is for attempt %s; waiting for its provider to write it for attempt %s", s.bootstrap.Name, armed, wanted), 0)
}

// checkThere checks, before the machine's state and first Job are created, that the machine still
// exists. The API server checks the finalizers when a deletion starts. A machine that is deleted
// while it gets our finalizer may therefore be gone, and its server would never be removed.
func (r *Reconciler) checkThere(ctx context.Context, s *scope) error {
	if s.state.secret != nil {
		return nil
	}
	live := metadataOf(s.GroupVersionKind())
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(s), live); err != nil {
		return fmt.Errorf("checking whether the machine still exists: %w", err)
	}
	if live.UID != s.GetUID() {
		return fmt.Errorf("the machine with UID %s was deleted, and another machine has its name", s.GetUID())
	}
	return nil
}

// takeName refuses to overwrite objects that were not made for this machine. It deletes the objects
// of an earlier machine of this name, which also revokes the tokens of that machine's pods.
func (r *Reconciler) takeName(ctx context.Context, taken *attempt.TakenError) error {
	isJob := taken.Kind == "Job"
	switch {
	case isJob && !taken.Predecessor:
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("Job %s does not belong to this machine: delete it", taken.Name), foreignCheck)
	case !taken.Predecessor:
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("the %s %s does not belong to this machine: delete it, or use another name for the machine", taken.Kind, taken.Name), foreignCheck)
	}
	if _, err := step.DropFinalizer(ctx, r.Client, taken.Live, rkev1.MachineFinalizer); err != nil {
		return fmt.Errorf("releasing the %s %s of an earlier machine: %w", taken.Kind, taken.Name, err)
	}
	uid := taken.Live.GetUID()
	err := r.Client.Delete(ctx, taken.Live, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the %s %s of an earlier machine: %w", taken.Kind, taken.Name, err)
	}
	if isJob { // whose pod does nothing: its state Secret had another UID
		return step.Wait(rkev1.NameTakenReason, fmt.Sprintf("Job %s of an earlier machine of this name is being deleted", taken.Name), fallbackCheck)
	}
	return nil
}

// succeeds reports whether an object was made for an earlier machine of the same kind and name. An
// object from a backup may have lost its owner.
func (s *scope) succeeds(obj metav1.Object) bool {
	owner := metav1.GetControllerOf(obj)
	if owner == nil {
		return obj.GetLabels()[rkev1.MachineUIDLabel] != ""
	}
	mine := s.Reference()
	return owner.APIVersion == mine.APIVersion && owner.Kind == mine.Kind && owner.Name == mine.Name
}

// dropJob deletes the Job of the previous attempt: the machine's status has its result.
func (r *Reconciler) dropJob(ctx context.Context, s *scope, next state.Claim) error {
	if next.Attempt <= 1 || next.Attempt == s.state.Claim.Attempt {
		return nil
	}
	key := types.NamespacedName{Namespace: s.home.Namespace, Name: jobrunner.JobName(s.home.Name, next.Operation, next.Attempt-1)}
	job := &batchv1.Job{}
	err := r.Cache.Get(ctx, key, job)
	if err == nil && s.owns(job) {
		return r.runner.Stop(ctx, job, metav1.DeletePropagationBackground)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Job %s: %w", key.Name, err)
	}
	return nil
}

// refused finds the errors of the API server that stay until a user changes something.
func refused(err error) error {
	if isWaiting(err) {
		return err
	}
	if invalid, ok := errors.AsType[*attempt.InvalidError](err); ok && invalid.Pull {
		return step.Wait(rkev1.JobRefusedReason, err.Error(), time.Minute)
	} else if ok {
		return step.Stall(rkev1.SpecInvalidReason, err)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return step.Wait(rkev1.NamespaceTerminatingReason, "the namespace is being deleted, and no Job can be created in it", fallbackCheck)
	}
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		return step.Wait(rkev1.JobRefusedReason, fmt.Sprintf("the Job cannot be created: %v", err), time.Minute)
	}
	return fmt.Errorf("creating the Job: %w", err)
}

// task builds the task of the next Job.
func (r *Reconciler) task(s *scope, claim state.Claim) jobrunner.Task {
	tagged := s.ref() // as all its servers are, all its life
	tagged.UID = cmp.Or(s.state.TaggedUID, tagged.UID)
	// Those of the credential that no variable brings, and of the spec, which wins.
	options := credential.Options(r.kind.Driver, r.kind.Fields, s.credential.Env)
	maps.Copy(options, s.driver.values)
	request := jobrunner.Request{
		Operation:          claim.Operation,
		Attempt:            claim.Attempt,
		Machine:            s.ref(),
		Driver:             s.driver.ref,
		InstanceName:       s.driver.instanceName,
		Options:            options,
		Files:              s.files(),
		CredentialEnv:      s.credential.Env,
		Public:             r.public(),
		Secrets:            r.secrets(s),
		Tags:               jobrunner.Tags(tagged),
		Namespace:          s.home.Namespace,
		StateSecret:        jobrunner.StateSecretName(s.home.Name),
		ProviderIDTemplate: s.driver.template,
		ProviderID:         s.ProviderID(),
		SSHTimeoutSeconds:  int32(r.Settings.SSHTimeout.Seconds()),
		SSHContact:         s.SSHContact(),
		MayExist:           s.mayHaveServer(),
		Retry:              s.retry(),
		Looked:             s.looked(),
		Abandon:            claim.Operation == state.Remove && s.Abandoned(),
	}
	task := jobrunner.Task{Settings: r.Settings, Request: request, Credential: s.credential, Owner: s.Reference(), Hash: claim.Hash, Try: claim.Try, Made: claim.Made}
	if way, err := userdata.Way(s.driver.ref.Name, s.driver.way, r.kind.Fields); err == nil {
		task.Request.UserData = way
	}
	if s.bootstrap != nil && claim.Operation == state.Create {
		task.Request.HasBootstrap, task.Bootstrap = true, s.bootstrap.Data[bootstrapValueKey]
	}
	if s.inFallback() {
		task.Owner, task.Base = nil, s.home.Name
	}
	if s.machine != nil {
		task.CAPIMachine = s.machine.Name
	}
	return task
}

// retry returns a hash of the annotation that asks for another attempt; empty without one.
func (s *scope) retry() string {
	value := s.GetAnnotations()[rkev1.RetryAnnotation]
	if value == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// looked returns the number of the attempt after which the user confirmed a look in the cloud: that
// attempt could not find out whether a server exists, and the user asked for another one. It
// returns 0 without such a confirmation. The confirmation is valid until an attempt asks the cloud
// for a server again, which the pod records.
func (s *scope) looked() int32 {
	result := s.state.Result.Value
	if !s.state.Result.IsRead() || result.Operation != state.Create {
		return 0
	}
	if retry := s.retry(); result.Reason == rkev1.ServerMayExistReason && result.Retry != nil && retry != "" && *result.Retry != retry {
		return result.Attempt
	}
	return result.Looked
}

// files returns the files of the credential and of the spec; the spec wins.
func (s *scope) files() map[string][]byte {
	files := map[string][]byte{}
	maps.Copy(files, s.credential.Files)
	maps.Copy(files, s.driver.files)
	return files
}

// public returns the environment variables of the credential fields that the NodeDriver marks as
// public.
func (r *Reconciler) public() []string {
	var names, secret []string
	for _, field := range r.kind.Fields {
		name := credential.Variable(r.kind.Driver, field)
		switch {
		case field.Secret:
			secret = append(secret, name)
		case field.Credential == crdgen.PublicCredential:
			names = append(names, name)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(secret, name) })
}

// secrets returns the values of secret options. The pod redacts the values of the credential
// without this list.
func (r *Reconciler) secrets(s *scope) []string {
	var secrets []string
	for _, field := range r.kind.Fields {
		if !field.Secret {
			continue
		}
		if text, ok := s.driver.values[field.Flag].(string); ok && text != "" {
			secrets = append(secrets, text)
		}
		if content := s.files()[field.Flag]; len(content) > 0 {
			secrets = append(secrets, string(content))
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// requestHash changes when another attempt has a better chance than the last. This is the case if
// the user changes the machine, the credential or the bootstrap Secret, or asks for an attempt, or
// if the driver or the settings of Jobs change. It is computed from versions and not from content,
// because users who must not see a hash of a Secret can see it.
func (r *Reconciler) requestHash(s *scope, operation state.Operation) string {
	driver, _ := json.Marshal(s.driver.ref) // texts and booleans: there is nothing that cannot be encoded
	generation := strconv.FormatInt(s.GetGeneration(), 10)
	if operation == state.Remove {
		// The record has everything that a remove needs from the spec. Only a user's decision to
		// give the server up changes a remove.
		generation = strconv.FormatBool(s.Abandoned())
	}
	parts := []string{string(operation), generation, string(driver), s.credential.Version, s.GetAnnotations()[rkev1.RetryAnnotation], r.settings}
	if operation == state.Create && s.bootstrap != nil {
		parts = append(parts, s.bootstrapVersion())
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// bootstrapVersion changes with the bootstrap data. Some tools update the Secret often without a
// change of the data, which must not cause another attempt. The version is therefore a hash of the
// content, keyed with the credential; without a credential it is the Secret's version.
func (s *scope) bootstrapVersion() string {
	if version := s.bootstrap.Annotations[rkev1.DataVersionAnnotation]; version != "" {
		return string(s.bootstrap.UID) + "/" + version
	}
	if len(s.credential.Env) == 0 {
		return string(s.bootstrap.UID) + "/" + s.bootstrap.ResourceVersion
	}
	key := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(s.credential.Env)) {
		_, _ = fmt.Fprintf(key, "%q=%q\n", name, s.credential.Env[name])
	}
	sum := hmac.New(sha256.New, key.Sum(nil))
	_, _ = sum.Write(s.bootstrap.Data[bootstrapValueKey])
	return hex.EncodeToString(sum.Sum(nil))
}

// hashOf returns a hash of the settings of Jobs, or of a machine's spec: both can always be
// encoded.
func hashOf(value any) string {
	document, _ := json.Marshal(value)
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

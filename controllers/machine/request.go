package machine

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/userdata"
)

// task is what the next Job is asked to do.
func (r *Reconciler) task(s *scope, claim state.Claim) jobrunner.Task {
	request := jobrunner.Request{
		Operation:          claim.Operation,
		Attempt:            claim.Attempt,
		Machine:            s.ref(),
		Driver:             s.driver.ref,
		InstanceName:       s.driver.instanceName,
		Options:            s.driver.values,
		Files:              s.files(),
		CredentialEnv:      s.credential.Env,
		Public:             r.public(),
		Secrets:            r.secrets(s),
		Tags:               s.tags(),
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
	if way, err := r.way(s); err == nil {
		task.Request.UserData = userdata.FormatWay(way)
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

// retry stands for the value of the annotation that asks for another attempt; empty without one.
func (s *scope) retry() string {
	value := s.GetAnnotations()[rkev1.RetryAnnotation]
	if value == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:8])
}

// looked is the attempt after whose doubt, whether there is a server, the user asked for another one; 0 when he did not. His
// word holds until an attempt asks the cloud for a server again: the pod knows when one did.
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

// tags are those by which the machine's servers are found again, all its life.
func (s *scope) tags() map[string]string {
	whose := s.ref()
	whose.UID = cmp.Or(s.state.TaggedUID, whose.UID)
	return jobrunner.Tags(whose)
}

// files are those of the credential and of the spec, which wins.
func (s *scope) files() map[string][]byte {
	files := map[string][]byte{}
	for _, from := range []map[string][]byte{s.credential.Files, s.driver.files} {
		maps.Copy(files, from)
	}
	return files
}

// public are the environment variables of those credential fields that the NodeDriver says may be shown.
func (r *Reconciler) public() []string {
	var names, secret []string
	for _, field := range r.kind.Fields {
		switch {
		case field.Secret:
			secret = append(secret, field.EnvVar)
		case field.Credential == crdgen.PublicCredential && field.EnvVar != "":
			names = append(names, field.EnvVar)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(secret, name) })
}

// secrets are the values of secret options; what comes from the credential the pod redacts by itself.
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

// requestHash changes when another attempt has a better chance than the last: the user changed the machine, the credential or the
// bootstrap Secret, asked for it, the driver or the settings of Jobs are others. It is made of versions and not of content, for it can be
// seen by those who must not see a secret's hash.
func (r *Reconciler) requestHash(s *scope, operation state.Operation) (string, error) {
	driver, err := json.Marshal(s.driver.ref)
	if err != nil {
		return "", fmt.Errorf("encoding the driver: %w", err)
	}
	generation := strconv.FormatInt(s.GetGeneration(), 10)
	if operation == state.Remove {
		// The record has what a remove needs of the spec; what counts is whether the user gave the server up.
		generation = strconv.FormatBool(s.Abandoned())
	}
	parts := []string{string(operation), generation, string(driver), s.credential.Version, s.GetAnnotations()[rkev1.RetryAnnotation], r.settings}
	if operation == state.Create && s.bootstrap != nil {
		parts = append(parts, s.bootstrapVersion())
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8]), nil
}

// bootstrapVersion changes with the bootstrap data. A touch of its Secret, which some tools make all the time, must not be
// another attempt, so it is made of the content where the credential hides that; else it is the Secret's version.
func (s *scope) bootstrapVersion() string {
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

// hashOf stands for the settings of Jobs.
func hashOf(settings jobrunner.Settings) string {
	document, err := json.Marshal(settings)
	if err != nil {
		return settings.Image // numbers, text and quantities: there is nothing that cannot be encoded
	}
	sum := sha256.Sum256(document)
	return hex.EncodeToString(sum[:])
}

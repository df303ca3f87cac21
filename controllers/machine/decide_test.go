package machine

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	managementv3 "github.com/drover-project/drover/api/management/v3"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/controllers/attempt"
	"github.com/drover-project/drover/controllers/machine/breaker"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

// scopeOf is a machine m1 in namespace a, as far as decisions need it.
func scopeOf(changes ...func(*scope)) *scope {
	obj := machineNamed("m1")
	obj.SetNamespace("a")
	obj.SetUID("uid-1")
	s := &scope{DriverMachine: obj, request: requestFor("m1"), before: obj.DeepCopy(), now: time.Unix(1_900_000_000, 0)}
	s.conditions = step.NewConditions(&s.status.Conditions, 1, s.now)
	for _, change := range changes {
		change(s)
	}
	return s
}

func set(condition string, status metav1.ConditionStatus, reason string) func(*scope) {
	return func(s *scope) { s.conditions.Set(condition, status, reason, "because of "+reason) }
}

func attempted(s *scope) { s.status.LastAttempt = &rkev1.AttemptStatus{} }

func deletingNow(s *scope) { now := metav1.Now(); s.SetDeletionTimestamp(&now) }

// allTrue is a machine all of whose steps went well.
func allTrue(s *scope) {
	for _, condition := range order {
		set(condition, metav1.ConditionTrue, "Fine")(s)
	}
}

func TestSumUp(t *testing.T) {
	for name, tt := range map[string]struct {
		facts         []func(*scope)
		phase, reason string
		ready         metav1.ConditionStatus
	}{
		"nothing was looked at":     {nil, rkev1.PhasePending, rkev1.JobPendingReason, metav1.ConditionFalse},
		"paused from the start":     {[]func(*scope){set(rkev1.PausedCondition, metav1.ConditionTrue, "Paused")}, rkev1.PhasePending, "Paused", metav1.ConditionFalse},
		"not paused":                {[]func(*scope){set(rkev1.PausedCondition, metav1.ConditionFalse, "NotPaused")}, rkev1.PhasePending, rkev1.JobPendingReason, metav1.ConditionFalse},
		"waits for its cluster":     {[]func(*scope){set(rkev1.ClusterReadyCondition, metav1.ConditionFalse, "WaitingForOwner")}, rkev1.PhasePending, "WaitingForOwner", metav1.ConditionFalse},
		"the first that waits says": {[]func(*scope){set(rkev1.CredentialReadyCondition, metav1.ConditionFalse, "B"), set(rkev1.DriverReadyCondition, metav1.ConditionFalse, "A")}, rkev1.PhasePending, "A", metav1.ConditionFalse},
		"its Job cannot be made":    {[]func(*scope){set(rkev1.CreateJobCondition, metav1.ConditionFalse, rkev1.JobRefusedReason)}, rkev1.PhasePending, rkev1.JobRefusedReason, metav1.ConditionFalse},
		"its Job runs":              {[]func(*scope){set(rkev1.CreateJobCondition, metav1.ConditionUnknown, "JobRunning")}, rkev1.PhaseCreating, "JobRunning", metav1.ConditionFalse},
		"its Job failed":            {[]func(*scope){attempted, set(rkev1.CreateJobCondition, metav1.ConditionFalse, "WaitingForRetry")}, rkev1.PhaseFailed, "WaitingForRetry", metav1.ConditionFalse},
		"made, not stored":          {[]func(*scope){set(rkev1.CreateJobCondition, metav1.ConditionTrue, "JobSucceeded")}, rkev1.PhaseCreating, rkev1.JobPendingReason, metav1.ConditionFalse},
		"made, state missing":       {[]func(*scope){set(rkev1.CreateJobCondition, metav1.ConditionTrue, "JobSucceeded"), set(rkev1.StateStoredCondition, metav1.ConditionFalse, "StateMissing")}, rkev1.PhaseCreating, "StateMissing", metav1.ConditionFalse},
		"all is well":               {[]func(*scope){allTrue}, rkev1.PhaseRunning, rkev1.ReadyReason, metav1.ConditionTrue},
		"no provider ID yet":        {[]func(*scope){allTrue, set(rkev1.ProviderIDKnownCondition, metav1.ConditionFalse, "WaitingForNode")}, rkev1.PhaseRunning, rkev1.ReadyReason, metav1.ConditionTrue},
		"being deleted":             {[]func(*scope){allTrue, deletingNow}, rkev1.PhaseDeleting, rkev1.DeletingReason, metav1.ConditionFalse},
		"removing failed":           {[]func(*scope){allTrue, deletingNow, set(rkev1.DeleteJobCondition, metav1.ConditionFalse, "ServerMayExist")}, rkev1.PhaseDeleting, "ServerMayExist", metav1.ConditionFalse},
		"removing runs":             {[]func(*scope){deletingNow, set(rkev1.DeleteJobCondition, metav1.ConditionUnknown, "JobRunning")}, rkev1.PhaseDeleting, "JobRunning", metav1.ConditionFalse},
		"removed":                   {[]func(*scope){deletingNow, set(rkev1.DeleteJobCondition, metav1.ConditionTrue, "ServerGone")}, rkev1.PhaseDeleting, rkev1.DeletingReason, metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeOf(tt.facts...)
			s.SetGeneration(4)
			s.summarize()
			ready := s.conditions.Get(rkev1.ReadyCondition)
			require.Equal(t, tt.ready, ready.Status)
			require.Equal(t, tt.reason, ready.Reason)
			require.Equal(t, tt.phase, s.status.Phase)
			require.Equal(t, tt.ready == metav1.ConditionTrue, s.status.Ready)
			require.EqualValues(t, 4, s.status.ObservedGeneration)
		})
	}
}

// A machine that became ready keeps nothing of what went wrong on the way but its last attempt.
func TestSumUp_forgetsFailures(t *testing.T) {
	failed := func(s *scope) {
		s.status.FailureReason, s.status.FailureMessage, s.status.NextAttemptTime = rkev1.CreateErrorReason, "503", &metav1.Time{}
	}
	s := scopeOf(failed, attempted, allTrue)
	s.summarize()
	require.Empty(t, s.status.FailureReason+s.status.FailureMessage)
	require.Nil(t, s.status.NextAttemptTime)
	require.NotNil(t, s.status.LastAttempt)
	s = scopeOf(failed, set(rkev1.CreateJobCondition, metav1.ConditionFalse, "WaitingForRetry"))
	s.summarize()
	require.Equal(t, "503", s.status.FailureMessage)
}

// TestMetPreconditions: what a Job was started with was there, also if nobody had the time to say so; all else stays.
func TestMetPreconditions(t *testing.T) {
	s := scopeOf(set(rkev1.ClusterReadyCondition, metav1.ConditionTrue, "A"), set(rkev1.CredentialReadyCondition, metav1.ConditionFalse, "B"),
		set(rkev1.BootstrapReadyCondition, metav1.ConditionUnknown, "C"), set(rkev1.CreateJobCondition, metav1.ConditionUnknown, "D"),
		set(rkev1.ReadyCondition, metav1.ConditionFalse, "E"), set(rkev1.PausedCondition, metav1.ConditionFalse, "F"))
	steps := []step.Step[*scope]{{Condition: rkev1.ClusterReadyCondition, Reason: rkev1.ClusterReadyReason}, {}, {Condition: rkev1.DriverReadyCondition, Reason: rkev1.DriverReadyReason},
		{Condition: rkev1.BootstrapReadyCondition, Reason: rkev1.BootstrapReadyReason}, {Condition: rkev1.CredentialReadyCondition, Reason: rkev1.CredentialReadyReason}}
	before := slices.Clone(s.status.Conditions)
	s.metPreconditions(steps)
	require.Equal(t, before, s.status.Conditions, "what became of the attempt could not be read")
	s.attempt = &attempt.Attempt{}
	s.metPreconditions(steps)
	found := map[string]string{}
	for _, c := range s.status.Conditions {
		found[c.Type] = string(c.Status) + " " + c.Reason
	}
	require.Equal(t, map[string]string{
		rkev1.ClusterReadyCondition: "True A", rkev1.DriverReadyCondition: "True " + rkev1.DriverReadyReason,
		rkev1.BootstrapReadyCondition: "True " + rkev1.BootstrapReadyReason, rkev1.CredentialReadyCondition: "True " + rkev1.CredentialReadyReason,
		rkev1.CreateJobCondition: "Unknown D", rkev1.ReadyCondition: "False E", rkev1.PausedCondition: "False F",
	}, found)
}

func TestRefused_whatSomebodyMustChange(t *testing.T) {
	resource := schema.GroupResource{Group: "batch", Resource: "jobs"}
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tt := range map[string]struct {
		err          error
		reason, says string
	}{
		"quota":                 {apierrors.NewForbidden(resource, "m1-create-1", errors.New("exceeded quota")), rkev1.JobRefusedReason, "exceeded quota"},
		"pod security":          {fmt.Errorf("creating: %w", apierrors.NewForbidden(resource, "m1-create-1", errors.New("violates PodSecurity"))), rkev1.JobRefusedReason, "violates PodSecurity"},
		"a webhook":             {apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "m1-create-1", nil), rkev1.JobRefusedReason, "is invalid"},
		"a namespace that goes": {fmt.Errorf("applying: %w", terminating), rkev1.NamespaceTerminatingReason, "the namespace is being deleted"},
		"its own wait":          {step.Wait(rkev1.NameTakenReason, "taken", 0), rkev1.NameTakenReason, "taken"},
		"a network":             {errors.New("connection refused"), "", ""},
		"a conflict":            {apierrors.NewConflict(resource, "m1-create-1", errors.New("changed")), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(tt.err)
			require.Equal(t, tt.reason, stepReason(err))
			require.Equal(t, tt.reason != "", isWaiting(err))
			if tt.reason == "" {
				require.ErrorIs(t, err, tt.err)
				_, says := ending(err)
				require.Empty(t, says)
				return
			}
			_, says := ending(err)
			require.Contains(t, says, tt.says)
		})
	}
}

func TestWithReason_changesOnlyWaiting(t *testing.T) {
	wait := step.Wait("A", "a", time.Minute)
	changed := withReason(wait, "B", ", and b")
	require.Equal(t, &step.Waiting{Status: metav1.ConditionFalse, Reason: "B", Message: "a, and b", After: time.Minute}, changed)
	require.Equal(t, "A", stepReason(wait), "the first stays what it was")
	other := errors.New("no route")
	require.Equal(t, other, withReason(other, "B", ""))
	stalled := step.Stall("A", other)
	require.Equal(t, stalled, withReason(stalled, "B", ""))
	_, says := ending(stalled)
	require.Equal(t, "no route", says)
}

// Back-off counts by our clock where the pod's cannot be believed.
func TestRecord_endsByOurClock(t *testing.T) {
	for name, tt := range map[string]struct {
		end  time.Duration
		back time.Duration
	}{
		"a moment ago": {-time.Second, -time.Second}, "a minute ago": {-time.Minute, -time.Minute}, "two minutes ago": {-2 * time.Minute, 0},
		"in a second": {time.Second, 0}, "long ago": {-1000 * time.Hour, 0}, "in a year": {8760 * time.Hour, 0}, "now": {0, 0},
	} {
		s := scopeOf()
		s.record(jobrunner.Verdict{End: s.now.Add(tt.end)})
		require.Equal(t, s.now.Add(tt.back), s.status.LastAttempt.EndTime.Time, name)
	}
	s := scopeOf()
	s.record(jobrunner.Verdict{})
	require.Equal(t, s.now, s.status.LastAttempt.EndTime.Time, "a pod that told no time")
}

// An end that was written down stays, but not one that has yet to come.
func TestRecord_endsThatAreKnown(t *testing.T) {
	for name, tt := range map[string]struct{ known, want time.Duration }{
		"an hour ago":   {-time.Hour, -time.Hour},
		"in a second":   {time.Second, time.Second},
		"in a minute":   {time.Minute, time.Minute},
		"in ten hours":  {10 * time.Hour, 0},
		"in many years": {1 << 62, 0},
	} {
		s := scopeOf(func(s *scope) { s.state.Claim = state.Claim{Operation: state.Create, Attempt: 1} })
		s.status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Number: 1, EndTime: &metav1.Time{Time: s.now.Add(tt.known)}}
		s.record(jobrunner.Verdict{Done: true, Outcome: state.Failed, End: s.now.Add(-time.Second)})
		require.Equal(t, s.now.Add(tt.want), s.status.LastAttempt.EndTime.Time, name)
		require.False(t, s.fresh, name)
	}
}

// Who waits for its turn keeps its place when the API does not answer, and gives it up when it waits for something else.
func TestLeaveTurn(t *testing.T) {
	group := breaker.Group{Kind: "AcmeMachine", Credential: "a/cloud", Order: "1"}
	for name, tt := range map[string]struct {
		asked   bool
		outcome error
		next    string
	}{
		"asked":                      {true, step.Wait(rkev1.WaitingForQuotaReason, "", 0), "m1"},
		"asked, and it failed":       {true, errors.New("timeout"), "m1"},
		"the API does not answer":    {false, errors.New("timeout"), "m1"},
		"a conflict":                 {false, apierrors.NewConflict(schema.GroupResource{}, "m1", nil), "m1"},
		"paused":                     {false, nil, "m2"},
		"waits for its cluster":      {false, step.Wait(rkev1.WaitingForClusterReason, "", 0), "m2"},
		"a spec that is not allowed": {false, step.Stall(rkev1.SpecInvalidReason, errors.New("x")), "m2"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeOf(func(s *scope) { s.asked = tt.asked })
			r := New(Options{}).For(Kind{})
			var called []string
			r.breaker.OnCall(func(request Request) { called = append(called, request.Name) })
			r.breaker.Ask(requestFor("m0"), breaker.Ask{Group: group, Now: s.now.Add(-time.Hour)})
			r.breaker.Refused(requestFor("m0"), breaker.Refusal{Group: group, Class: rkev1.ClassQuota, Attempt: 1, Try: 1, End: s.now, Now: s.now, Fresh: true})
			for _, who := range []string{"m1", "m2"} {
				require.False(t, r.breaker.Ask(requestFor(who), breaker.Ask{Group: group, Now: s.now}).Go)
			}
			r.leaveTurn(s, tt.outcome)
			r.breaker.Leave(requestFor("m0"), s.now)
			require.Equal(t, []string{tt.next}, called)
		})
	}
}

func TestAbandoned(t *testing.T) {
	given := func(s *scope) { s.SetAnnotations(map[string]string{rkev1.AbandonAnnotation: "m1"}) }
	rancher := func(s *scope) { s.SetAnnotations(map[string]string{rkev1.ForceRemoveAnnotation: "m1"}) }
	template := func(s *scope) { s.SetAnnotations(map[string]string{rkev1.ForceRemoveAnnotation: "true"}) }
	nobody := func(*scope) {}
	for name, tt := range map[string]struct {
		user func(*scope)
		err  error
		want bool
	}{
		"removed":                    {given, nil, false},
		"not asked for":              {nobody, step.Wait(rkev1.WaitingForRetryReason, "", 0), false},
		"after a failure":            {given, step.Wait(rkev1.WaitingForRetryReason, "", 0), true},
		"after a failure, Rancher's": {rancher, step.Wait(rkev1.WaitingForRetryReason, "", 0), true},
		"after a failure, template":  {template, step.Wait(rkev1.WaitingForRetryReason, "", 0), false},
		"while a Job runs":           {given, step.Progress(rkev1.JobRunningReason, "", 0), false},
		"while a create is ended":    {given, step.Progress(rkev1.JobCancelledReason, "", 0), false},
		"no Job can be made":         {given, step.Wait(rkev1.JobRefusedReason, "", 0), true},
		"no fallback namespace":      {given, step.Wait(rkev1.NamespaceTerminatingReason, "", 0), true},
		"no driver":                  {given, step.Wait(rkev1.DriverNotFoundReason, "", 0), true},
		"no credential":              {given, step.Wait(rkev1.CredentialMissingReason, "", 0), true},
		"the spec is wrong":          {given, step.Stall(rkev1.SpecInvalidReason, errors.New("x")), true},
		"the API does not answer":    {given, errors.New("timeout"), false},
	} {
		require.Equal(t, tt.want, tt.err != nil && scopeOf(tt.user).abandoned(tt.err) == nil, name)
	}
}

// Rancher's annotation with its plain value is not followed, and says how it would be.
func TestMark_forceRemoveOfATemplate(t *testing.T) {
	template := func(s *scope) { s.SetAnnotations(map[string]string{rkev1.ForceRemoveAnnotation: "true"}) }
	err := scopeOf(template).mark(step.Wait(rkev1.WaitingForRetryReason, "the cloud said no", 0))
	require.ErrorContains(t, err, "the cloud said no. The annotation provisioning.cattle.io/force-machine-remove=true does not give up the server")
	require.ErrorContains(t, err, "set it to the machine's name, m1")
	require.Equal(t, rkev1.WaitingForRetryReason, stepReason(err))
	require.NoError(t, scopeOf(template).mark(nil))
}

// A host that was there before is not removed: what was done with it, its Job tells.
func TestSucceeded_host(t *testing.T) {
	for result, want := range map[string]string{
		`{"operation":"remove","attempt":1,"outcome":"Succeeded","notes":["the host is clean"]}`: "Job m1-rm-1 of m1 has ended: the host is clean",
		`{"operation":"remove","attempt":1,"outcome":"Succeeded"}`:                               "Job m1-rm-1 of m1 has ended: nothing was on its host",
	} {
		s := scopeOf(stateWith(map[string]string{state.JournalKey: `{"phase":"Gone","instanceName":"m1"}`, state.ResultKey: result}), func(s *scope) {
			s.driver.ref.Name, s.status.JobName, s.state.Claim.Operation = "generic", "m1-rm-1", state.Remove
		})
		s.succeeded()
		require.Equal(t, want, s.conditions.Get(rkev1.DeleteJobCondition).Message)
	}
}

func TestLeftBehind_listsWhatMayCostMoney(t *testing.T) {
	made := stateWith(map[string]string{
		state.JournalKey: `{"phase":"Recorded","instanceName":"m1"}`,
		state.ServerKey:  `{"instanceID":"123","addresses":[{"type":"ExternalIP","address":"198.18.0.7"},{"type":"InternalIP","address":"10.0.0.1"}]}`})
	const server = "a user gave up the server. These resources may remain in the cloud: a server named m1, ID 123, ExternalIP 198.18.0.7, InternalIP 10.0.0.1"
	for driver, want := range map[string]string{
		"acme": server + ", with its SSH key, disks and other resources that the driver created",
		"none": server,
		"generic": "a user gave up the host, which was not cleaned: the host of m1, ID 123, ExternalIP 198.18.0.7, InternalIP 10.0.0.1" +
			", with the agent and its k3s or RKE2 on the host, and the file /var/lib/drover/claim, which keeps other machines away. A host that was given up joins its cluster again " +
			"when it is powered on, as an unmanaged Node without a Machine: clean the host by hand, and delete its Node.",
		"digitalocean": server + ", with its SSH key",
		"aliyunecs":    server + ", with its elastic IP address and route entry. The driver leaves its security group.",
	} {
		require.Equal(t, want, scopeOf(made, func(s *scope) { s.driver.ref.Name = driver }).leftBehind(), driver)
	}
	late := stateWith(map[string]string{state.JournalKey: `{"phase":"Intent","instanceName":"m1"}`, state.ResultKey: `{"outcome":"Failed","recorded":"ServerID srv-1"}`})
	require.Equal(t, "a user gave up the server. These resources may remain in the cloud: a server named m1, recorded by the driver as ServerID srv-1, with its SSH key, disks "+
		"and other resources that the driver created", scopeOf(late).leftBehind())
	require.Equal(t, "a user gave up the server. These resources may remain in the cloud: a server named , with its SSH key, disks and other resources that the driver created",
		scopeOf().leftBehind(), "nothing is known")
}

// The word of a user who asks for another attempt after the doubt was told, and not before.
func TestLooked(t *testing.T) {
	again := func(value string) func(*scope) {
		return func(s *scope) { s.SetAnnotations(map[string]string{rkev1.RetryAnnotation: value}) }
	}
	retry := scopeOf(again("1")).retry()
	result := func(text string) func(*scope) { return stateWith(map[string]string{state.ResultKey: text}) }
	doubt := `{"operation":"create","attempt":3,"outcome":"Failed","reason":"ServerMayExist","class":"Invalid","retry":"` + retry + `"}`
	for name, c := range map[string]struct {
		s    *scope
		want int32
	}{
		"no state":                       {scopeOf(again("2")), 0},
		"asked before the doubt":         {scopeOf(again("1"), result(doubt)), 0},
		"asked after it":                 {scopeOf(again("2"), result(doubt)), 3},
		"took the annotation away":       {scopeOf(result(doubt)), 0},
		"a result of before":             {scopeOf(again("2"), result(strings.Replace(doubt, `"retry"`, `"other"`, 1))), 0},
		"another failure":                {scopeOf(again("2"), result(strings.Replace(doubt, "ServerMayExist", "CreateFailed", 1))), 0},
		"another failure after he asked": {scopeOf(again("2"), result(`{"operation":"create","attempt":5,"outcome":"Failed","reason":"LookupFailed","looked":3}`)), 3},
		"a removal's doubt":              {scopeOf(again("2"), result(strings.Replace(doubt, "create", "remove", 1))), 0},
	} {
		require.Equal(t, c.want, c.s.looked(), name)
	}
}

func stateWith(data map[string]string) func(*scope) {
	return func(s *scope) {
		secret := &corev1.Secret{Data: map[string][]byte{}}
		for key, text := range data {
			secret.Data[key] = []byte(text)
		}
		s.state = stateOf(secret)
	}
}

// Nothing is dropped while a server may exist.
func TestNothingMade(t *testing.T) {
	for name, tt := range map[string]struct {
		facts []func(*scope)
		want  bool
	}{
		"never began":                 {nil, true},
		"a state without a word":      {[]func(*scope){stateWith(nil)}, true},
		"a result without a note":     {[]func(*scope){stateWith(map[string]string{state.ResultKey: `{"outcome":"Failed"}`})}, true},
		"a note":                      {[]func(*scope){stateWith(map[string]string{state.JournalKey: `{"phase":"Intent"}`})}, false},
		"a note that cannot be read":  {[]func(*scope){stateWith(map[string]string{state.JournalKey: `{`})}, false},
		"a record":                    {[]func(*scope){stateWith(map[string]string{state.ExtractedConfigKey: "x"})}, false},
		"state lost after an attempt": {[]func(*scope){func(s *scope) { s.status.Attempts = 1 }}, false},
		"state lost, but it had an ID": {[]func(*scope){func(s *scope) {
			_ = s.SetProviderID("acme://1")
			s.SetDeletionTimestamp(&metav1.Time{Time: s.now})
		}}, false},
		"emptied under a server": {[]func(*scope){stateWith(nil), func(s *scope) { s.status.Initialization.Provisioned = new(true) }}, false},
		"emptied before it was used": {[]func(*scope){stateWith(nil), func(s *scope) {
			s.status.LastAttempt = &rkev1.AttemptStatus{Operation: string(state.Create), Outcome: string(state.Succeeded)}
		}}, false},
		"restored without status":       {[]func(*scope){stateWith(nil), func(s *scope) { s.machine = &clusterv1.Machine{Spec: clusterv1.MachineSpec{ProviderID: "acme://1"}} }}, false},
		"an ID that the user gave":      {[]func(*scope){stateWith(nil), func(s *scope) { _ = s.SetProviderID("acme://1") }}, true},
		"a remove that began says when": {[]func(*scope){stateWith(nil), func(s *scope) { s.state.Claimed, s.state.Claim.Operation = true, state.Remove }}, false},
		"in the fallback namespace":     {[]func(*scope){stateWith(nil), func(s *scope) { s.home = s.fallbackOf() }}, false},
		"a create that was claimed":     {[]func(*scope){stateWith(nil), func(s *scope) { s.state.Claimed, s.state.Claim.Operation = true, state.Create }}, true},
	} {
		require.Equal(t, tt.want, scopeOf(tt.facts...).nothingMade(), name)
	}
}

func TestFirstNumber_neverGivesOneTwice(t *testing.T) {
	for name, tt := range map[string]struct {
		result string
		want   int32
	}{
		"no result":                   {"", 1},
		"one that cannot be read":     {"{", 1},
		"of another operation":        {`{"operation":"create","attempt":3,"outcome":"Failed"}`, 1},
		"of an attempt not claimed":   {`{"operation":"remove","attempt":3,"outcome":"Failed"}`, 4},
		"of a number that is none":    {`{"operation":"remove","attempt":-3,"outcome":"Failed"}`, 1},
		"taken over, by another hand": {`{"operation":"remove","attempt":1,"outcome":"Succeeded"}`, 2},
		"of the highest number":       {`{"operation":"remove","attempt":100000,"outcome":"Failed"}`, 1},
		"of a number beyond all":      {`{"operation":"remove","attempt":2147483647,"outcome":"Failed"}`, 1},
	} {
		s := scopeOf(stateWith(map[string]string{state.ResultKey: tt.result}))
		require.Equal(t, tt.want, s.firstNumber(state.Remove), name)
	}
}

func TestTakeOver_ownersOfTheState(t *testing.T) {
	yes := true
	mine := metav1.OwnerReference{APIVersion: "rke-machine.cattle.io/v1", Kind: "AcmeMachine", Name: "m1", UID: "uid-1", Controller: &yes, BlockOwnerDeletion: &yes}
	with := func(change func(*metav1.OwnerReference)) metav1.OwnerReference {
		other := mine
		change(&other)
		return other
	}
	stranger := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}
	for name, tt := range map[string]struct {
		before, after []metav1.OwnerReference
		changed       bool
	}{
		"as it should be":               {[]metav1.OwnerReference{mine}, []metav1.OwnerReference{mine}, false},
		"nobody":                        {nil, []metav1.OwnerReference{mine}, true},
		"an older version":              {[]metav1.OwnerReference{with(func(r *metav1.OwnerReference) { r.APIVersion = "rke-machine.cattle.io/v1alpha1" })}, []metav1.OwnerReference{mine}, true},
		"the machine before it, moved":  {[]metav1.OwnerReference{with(func(r *metav1.OwnerReference) { r.UID, r.Controller = "old", nil })}, []metav1.OwnerReference{mine}, true},
		"a stranger beside it":          {[]metav1.OwnerReference{stranger, mine}, []metav1.OwnerReference{stranger, mine}, false},
		"a stranger who does not count": {[]metav1.OwnerReference{stranger}, []metav1.OwnerReference{stranger, mine}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeOf()
			s.SetGroupVersionKind(rkev1.MachineGroupVersion.WithKind("AcmeMachine"))
			obj := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tt.before}}
			before := obj.DeepCopy()
			s.ensureOwner(obj)
			require.Equal(t, tt.changed, !equality.Semantic.DeepEqual(before, obj))
			require.Equal(t, tt.after, obj.OwnerReferences)
		})
	}
}

func nodeDriver(change func(*managementv3.NodeDriver)) *managementv3.NodeDriver {
	nd := &managementv3.NodeDriver{ObjectMeta: metav1.ObjectMeta{Name: "acme"}, Spec: managementv3.NodeDriverSpec{URL: "https://drivers.test/acme", Checksum: "ab", Active: true}}
	if change != nil {
		change(nd)
	}
	return nd
}

func TestUnusable_saysWhy(t *testing.T) {
	now := metav1.Now()
	for name, tt := range map[string]struct {
		change func(*managementv3.NodeDriver)
		want   string
	}{
		"read":            {func(nd *managementv3.NodeDriver) { nd.Status.Digest = "d" }, ""},
		"being read anew": {func(nd *managementv3.NodeDriver) { nd.Status.Digest, nd.Spec.Version = "d", "2" }, ""},
		"not read":        {nil, "is not ready: it is not downloaded and read yet"},
		"failed": {func(nd *managementv3.NodeDriver) {
			nd.Status.Conditions = []metav1.Condition{{Type: "Ready", Message: "404 Not Found"}}
		}, "is not ready: 404 Not Found"},
		"inactive":     {func(nd *managementv3.NodeDriver) { nd.Status.Digest, nd.Spec.Active = "d", false }, "is inactive: set its spec.active to true"},
		"going":        {func(nd *managementv3.NodeDriver) { nd.Status.Digest, nd.DeletionTimestamp = "d", &now }, "is being deleted, so Drover creates no new servers with it"},
		"built in":     {func(nd *managementv3.NodeDriver) { nd.Spec.URL, nd.Spec.DisplayName = "local://", "digitalocean" }, ""},
		"not built in": {func(nd *managementv3.NodeDriver) { nd.Spec.URL = "local://" }, "is not built in: set its url and checksum"},
		"built in and inactive": {func(nd *managementv3.NodeDriver) {
			nd.Spec.URL, nd.Spec.DisplayName, nd.Spec.Active = "local://", "digitalocean", false
		}, "is inactive: set its spec.active to true"},
	} {
		require.Equal(t, tt.want, unusable(nodeDriver(tt.change)), name)
	}
}

// A Job gets what was verified, not what is asked for since.
func TestFactsOf(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*managementv3.NodeDriver)
		want   state.DriverRef
	}{
		"built in": {func(nd *managementv3.NodeDriver) { nd.Spec.URL, nd.Spec.DisplayName = "local://", "digitalocean" }, state.DriverRef{Name: "digitalocean", Builtin: true}},
		"verified": {func(nd *managementv3.NodeDriver) {
			nd.Status.Digest, nd.Status.AppliedURL, nd.Status.AppliedChecksum, nd.Status.DriverName = "d", "https://drivers.test/old", "cd", "acme"
		}, state.DriverRef{Name: "acme", Digest: "d", URL: "https://drivers.test/old", Checksum: "cd"}},
		"not read yet": {nil, state.DriverRef{Name: "acme", URL: "https://drivers.test/acme", Checksum: "ab"}},
		"without a checksum": {func(nd *managementv3.NodeDriver) { nd.Spec.InsecureSkipChecksum, nd.Spec.Checksum = true, "" },
			state.DriverRef{Name: "acme", URL: "https://drivers.test/acme", SkipChecksum: true}},
		"renamed, not read again": {func(nd *managementv3.NodeDriver) {
			nd.Spec.DisplayName, nd.Status.DriverName, nd.Status.AppliedURL = "other", "acme", "https://drivers.test/acme"
		},
			state.DriverRef{Name: "acme", URL: "https://drivers.test/acme"}},
	} {
		require.Equal(t, tt.want, factsOf(nodeDriver(tt.change)).ref, name)
	}
}

func acmeFields(t *testing.T, flags ...crdgen.Flag) []crdgen.Field {
	t.Helper()
	fields, err := crdgen.FieldsOf("acme", flags, crdgen.Rules{PrivateCredentialFields: []string{"token"}, PublicCredentialFields: []string{"user"}, OptionalCredentialFields: []string{"user"}})
	require.NoError(t, err)
	return fields
}

func TestCredentialHelp(t *testing.T) {
	withToken := []crdgen.Flag{{Name: "acme-token", Type: crdgen.String}, {Name: "acme-user", Type: crdgen.String}, {Name: "acme-region", Type: crdgen.String}}
	named := func(name string) func(*scope) {
		return func(s *scope) {
			_ = unstructured.SetNestedField(s.Object, name, "spec", "common", "cloudCredentialSecretName")
		}
	}
	inSpec := func(s *scope) { _ = unstructured.SetNestedField(s.Object, "t", "spec", "token") }
	for name, tt := range map[string]struct {
		flags []crdgen.Flag
		facts []func(*scope)
		want  string
	}{
		"its own namespace": {withToken, []func(*scope){named("cloud")}, "The credential comes from Secret cloud in namespace a: check its keys token"},
		"another namespace": {withToken, []func(*scope){named("b:cloud")}, "The credential comes from Secret cloud in namespace b: check its keys token"},
		"the key is in the spec, others may be in the Secret": {withToken, []func(*scope){named("cloud"), inSpec}, "The credential comes from Secret cloud in namespace a: check its keys token, user"},
		"as it was at the creation": {withToken, []func(*scope){func(s *scope) {
			_ = unstructured.SetNestedField(s.Object, "was", "status", "cloudCredentialSecretName")
		}}, "The credential comes from Secret was in namespace a: check its keys token"},
		"none":                     {withToken, nil, "No Secret was given: check the machine's spec, or name a Secret with the keys token in its spec.common.cloudCredentialSecretName"},
		"a driver that takes none": {[]crdgen.Flag{{Name: "acme-region", Type: crdgen.String}}, nil, "Driver acme takes its credential from the machine's spec: check it there"},
		"none of its options is a credential": {[]crdgen.Flag{{Name: "acme-region", Type: crdgen.String}}, []func(*scope){named("cloud")},
			"The credential comes from Secret cloud in namespace a. No option of driver acme is a credential: check the annotation privateCredentialFields of its NodeDriver"},
		"recalled": {withToken, []func(*scope){named("cloud"), func(s *scope) { s.recalled = "the credential Secret cloud is not there" }},
			"The Job used the credential of the last attempt: the credential Secret cloud is not there"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reconciler{kind: Kind{Driver: "acme", Fields: acmeFields(t, tt.flags...)}}
			require.Equal(t, tt.want, r.credentialHelp(scopeOf(tt.facts...)))
		})
	}
}

// What must not be seen is told to the pod: secret options of the spec, and files; what is the spec's wins over the credential's.
func TestSecretsAndFiles(t *testing.T) {
	fields := []crdgen.Field{{Name: "password", Flag: "acme-password", Secret: true}, {Name: "key", Flag: "acme-key", Secret: true, File: true},
		{Name: "region", Flag: "acme-region"}, {Name: "empty", Flag: "acme-empty", Secret: true}, {Name: "again", Flag: "acme-again", Secret: true}}
	r := &Reconciler{kind: Kind{Driver: "acme", Fields: fields}}
	s := scopeOf(func(s *scope) {
		s.driver.values = map[string]any{"acme-password": "p", "acme-region": "public", "acme-empty": "", "acme-again": "p"}
		s.driver.files = map[string][]byte{"acme-key": []byte("of the spec")}
		s.credential.Files = map[string][]byte{"acme-key": []byte("of the credential"), "acme-ca": []byte("ca")}
	})
	require.Equal(t, []string{"of the spec", "p"}, r.secrets(s))
	require.Equal(t, map[string][]byte{"acme-key": []byte("of the spec"), "acme-ca": []byte("ca")}, s.files())
}

func TestRef_whoseTheServerIs(t *testing.T) {
	s := scopeOf()
	s.SetKind("AcmeMachine")
	s.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "labelled"})
	want := jobrunner.MachineRef{Namespace: "a", Name: "m1", UID: "uid-1", Kind: "AcmeMachine", ClusterName: "labelled"}
	require.Equal(t, want, s.ref(), "its Cluster is gone")
	s.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", UID: "cluster-uid"}}
	want.ClusterName, want.ClusterUID = "c1", "cluster-uid"
	require.Equal(t, want, s.ref())
}

// scrape reads one value as a scraper gets it; empty when there is none.
func scrape(t *testing.T, registry prometheus.Gatherer, series string) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, answer.Code)
	for line := range strings.Lines(answer.Body.String()) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return ""
}

func TestMetrics_countMachinesAndAttempts(t *testing.T) {
	m, registry := newMetrics(), prometheus.NewRegistry()
	require.NoError(t, m.register(registry))
	require.NoError(t, newMetrics().register(registry), "a second manager in one process goes without")
	inPhase := func(phase string) string {
		return scrape(t, registry, `drover_machines{kind="AcmeMachine",phase="`+phase+`"}`)
	}
	attempts := func() string {
		return scrape(t, registry, `drover_attempts_total{class="Quota",driver="acme",kind="AcmeMachine",operation="create"}`)
	}
	took := func(outcome string) string {
		return scrape(t, registry, `drover_job_duration_seconds_count{kind="AcmeMachine",operation="create",outcome="`+outcome+`"}`)
	}
	s := scopeOf(func(s *scope) { s.status.Phase = rkev1.PhaseCreating })
	m.observe(s, "acme")
	m.observe(s, "acme")
	require.Equal(t, "1", inPhase(rkev1.PhaseCreating), "looked at twice, counted once")

	start := metav1.NewTime(s.now.Add(-time.Minute))
	end := metav1.NewTime(s.now)
	s.status.Phase = rkev1.PhaseFailed
	s.status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Number: 1, Outcome: "Failed", Class: "Quota", StartTime: &start, EndTime: &end}
	m.observe(s, "acme")
	require.Equal(t, "0", inPhase(rkev1.PhaseCreating))
	require.Equal(t, "1", inPhase(rkev1.PhaseFailed))
	require.Equal(t, "1", attempts())
	require.Equal(t, "1", took("Failed"))

	require.NoError(t, s.SetStatus(s.status))
	s.before = s.DeepCopy()
	m.observe(s, "acme")
	require.Equal(t, "1", attempts(), "the same attempt is not counted again")
	s.status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Number: 2, Outcome: "Cancelled", Class: "Quota", StartTime: &start, EndTime: &end}
	m.observe(s, "acme")
	require.Equal(t, "2", attempts())
	require.Empty(t, took("Cancelled"), "what was cut short says nothing of how long it takes")

	m.count(s.request, tally{})
	m.count(s.request, tally{})
	require.Equal(t, "0", inPhase(rkev1.PhaseFailed))
	require.Empty(t, m.counted)
}

func TestMetrics_countWhatMachinesWaitFor(t *testing.T) {
	m, registry := newMetrics(), prometheus.NewRegistry()
	require.NoError(t, m.register(registry))
	waiting := func(class, until string) string {
		return scrape(t, registry, `drover_machines_waiting{class="`+class+`",driver="acme",until="`+until+`"}`)
	}
	at := &metav1.Time{Time: time.Unix(1_900_000_060, 0)}
	for name, c := range map[string]struct {
		reason, class string
		next          *metav1.Time
		counted       []string
	}{
		"held, never tried":        {rkev1.WaitingForQuotaReason, "", nil, []string{"Quota", "turn"}},
		"held for capacity":        {rkev1.WaitingForCapacityReason, "", nil, []string{"Capacity", "turn"}},
		"never tried, asks next":   {rkev1.WaitingForRateLimitReason, "", at, []string{"Throttled", "retry"}},
		"refused, asks next":       {rkev1.WaitingForRetryReason, "Quota", at, []string{"Quota", "retry"}},
		"refused, others first":    {rkev1.WaitingForRetryReason, "Quota", nil, []string{"Quota", "turn"}},
		"a failure of its own":     {rkev1.WaitingForRetryReason, "Transient", at, []string{"Transient", "retry"}},
		"no attempts left":         {rkev1.AttemptsExhaustedReason, "Invalid", nil, []string{"Invalid", "change"}},
		"waits for something else": {rkev1.NameTakenReason, "", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := scopeOf(func(s *scope) { s.status.NextAttemptTime = c.next })
			if c.class != "" {
				s.status.LastAttempt = &rkev1.AttemptStatus{Operation: "create", Number: 1, Outcome: "Failed", Class: c.class}
			}
			s.conditions.False(rkev1.CreateJobCondition, c.reason, "")
			m.observe(s, "acme")
			if c.counted != nil {
				require.Equal(t, "1", waiting(c.counted[0], c.counted[1]))
			}
			s.conditions.Set(rkev1.CreateJobCondition, metav1.ConditionUnknown, rkev1.JobRunningReason, "")
			m.observe(s, "acme")
			if c.counted != nil {
				require.Equal(t, "0", waiting(c.counted[0], c.counted[1]))
			}
			m.count(s.request, tally{})
			require.Empty(t, m.counted)
		})
	}
}

// What is counted is written down, with its labels, and none of them names an object.
func TestMetrics_areDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	require.NoError(t, err)
	m := newMetrics()
	for _, c := range []prometheus.Collector{m.machines, m.duration, m.attempts, m.waiting} {
		descriptions := make(chan *prometheus.Desc, 1)
		c.Describe(descriptions)
		said := (<-descriptions).String()
		found := regexp.MustCompile(`fqName: "([a-z_]+)".*variableLabels: \{([a-z,]+)\}`).FindStringSubmatch(said)
		require.NotNil(t, found, said)
		require.Contains(t, string(text), "| `"+found[1]+"` | `"+strings.ReplaceAll(found[2], ",", "`, `")+"` |")
		for label := range strings.SplitSeq(found[2], ",") {
			require.Contains(t, []string{"kind", "driver", "phase", "class", "until", "operation", "outcome"}, label)
		}
	}
}

// A state that lost its owner wakes the machine whose name it has, also one that is not there: its namespace may be going.
func TestOfOwnerless(t *testing.T) {
	secret := func(name, driver string, finalizers ...string) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: "a", Name: name, Finalizers: finalizers, Labels: map[string]string{rkev1.NodeDriverLabel: driver}}
	}
	want := []Request{{Kind: rkev1.MachineGroupVersion.WithKind("DigitaloceanMachine"), NamespacedName: types.NamespacedName{Namespace: "a", Name: "m"}}}
	require.Equal(t, want, ofOwnerless(secret("m-machine-state", "digitalocean", rkev1.MachineFinalizer)))
	require.Equal(t, want, ofOwnerless(secret("m-machine-credential", "digitalocean", rkev1.MachineFinalizer)))
	require.Empty(t, ofOwnerless(secret("m-machine-state", "digitalocean")), "nothing keeps it")
	require.Empty(t, ofOwnerless(secret("m-create-1", "digitalocean", rkev1.MachineFinalizer)))
	require.Empty(t, ofOwnerless(secret("m-machine-state", "", rkev1.MachineFinalizer)))
	owned := secret("m-machine-state", "digitalocean", rkev1.MachineFinalizer)
	owned.OwnerReferences = []metav1.OwnerReference{{Kind: "DigitaloceanMachine", Name: "m", Controller: new(true)}}
	require.Empty(t, ofOwnerless(owned), "its owner says whose it is")
}

func TestPublic_isWhatNoSecretShares(t *testing.T) {
	r := &Reconciler{kind: Kind{Driver: "x", Fields: []crdgen.Field{
		{Flag: "x-region", EnvVar: "REGION", Credential: crdgen.PublicCredential}, {Flag: "x-token", EnvVar: "TOKEN", Credential: crdgen.PrivateCredential, Secret: true},
		{Flag: "x-user", EnvVar: "TOKEN", Credential: crdgen.PublicCredential}, {Name: "zone", Flag: "x-zone", Credential: crdgen.PublicCredential}, {Flag: "x-size", EnvVar: "SIZE"},
	}}}
	require.Equal(t, []string{"REGION", "X_ZONE"}, r.public())
}

// TestNext over all that there is: no attempt is made beside one that is under way, none while there may be a server that nobody can look
// for, and none without a change when there are none left.
func TestNext(t *testing.T) {
	for _, s := range []attempt.State{attempt.Unclaimed, attempt.Claimed, attempt.Running, attempt.Succeeded, attempt.Failed} {
		for bits := range 1 << 4 {
			f := facts{state: s, changed: bits&1 != 0, doubt: bits&2 != 0, unlooked: bits&4 != 0, stopped: bits&8 != 0}
			want := map[attempt.State]action{attempt.Unclaimed: claimFirst, attempt.Claimed: makeJob, attempt.Running: awaitJob, attempt.Succeeded: finish}[s]
			if s == attempt.Failed {
				want = map[[3]bool]action{ // changed, doubt, stopped
					{false, false, false}: claimAgain,
					{false, false, true}:  stallExhausted,
					{false, true, false}:  stallInDoubt,
					{false, true, true}:   stallInDoubt,
					{true, false, false}:  claimChanged,
					{true, false, true}:   claimChanged,
					{true, true, false}:   claimChanged,
					{true, true, true}:    claimChanged,
				}[[3]bool{f.changed, f.doubt, f.stopped}]
				if f.doubt && f.unlooked {
					want = stallInDoubt
				}
			}
			require.Equal(t, want, f.next(), "%+v", f)
		}
	}
}

// Who shares a credential with another namespace writes the states there, and with them what a cloud is said to have refused.
func TestGroup_ofOneNamespace(t *testing.T) {
	in := func(namespace string) breaker.Group {
		s := scopeOf(func(s *scope) {
			s.SetNamespace(namespace)
			require.NoError(t, unstructured.SetNestedField(s.Object, "a:shared", "spec", rkev1.CommonField, "cloudCredentialSecretName"))
		})
		return s.group()
	}
	require.Equal(t, in("b"), in("b"))
	require.NotEqual(t, in("b"), in("c"))
}

package jobrunner_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
	"github.com/drover-project/drover/testkit/golden"
)

// jobs are one of each kind, plain and with all settings.
func jobs() map[string]*batchv1.Job {
	full := jobrunner.Settings{Image: "i", ImagePullSecrets: []string{"regcred"}, CABundle: []byte("marker-secret CA"),
		Proxy: jobrunner.Proxy{HTTPS: "http://p:1"}, Deadline: 5 * time.Minute, TTL: time.Hour, GracePeriod: time.Minute, ScratchSize: resource.MustParse("1Gi")}
	all := map[string]*batchv1.Job{}
	for name, settings := range map[string]jobrunner.Settings{"plain": {Image: "i"}, "full": full} {
		for _, operation := range []state.Operation{state.Create, state.Remove, state.Scan} {
			given := task(operation)
			given.Settings, given.Base, given.Request.Secrets = settings, "scan", []string{"marker-secret"}
			given.Request.Options["acme-password"] = "marker-secret"
			given.Credential = state.Credential{Name: "cloud", Env: map[string]string{"TOKEN": "marker-secret"}}
			given.Bootstrap = []byte("marker-secret")
			all[string(operation)+", "+name] = jobrunner.Job(given)
		}
		given := probe()
		given.Settings = settings
		all["probe, "+name] = jobrunner.ProbeJob(given)
	}
	return all
}

func allContainers(pod corev1.PodSpec) []corev1.Container {
	return slices.Concat(pod.InitContainers, pod.Containers)
}

// What runs in a Job's pod is a driver that nobody has looked at: these hold for every Job, whatever the settings.
func TestJobs_areLocked(t *testing.T) {
	for name, job := range jobs() {
		t.Run(name, func(t *testing.T) {
			pod := job.Spec.Template.Spec
			require.Equal(t, corev1.RestartPolicyNever, pod.RestartPolicy, "a second try is the controller's decision")
			require.Zero(t, *job.Spec.BackoffLimit)
			require.Equal(t, batchv1.Failed, *job.Spec.PodReplacementPolicy, "two pods never run for one machine")
			require.Positive(t, *pod.ActiveDeadlineSeconds)
			require.Nil(t, job.Spec.ActiveDeadlineSeconds, "a pod that waits for a node has not begun")
			require.Positive(t, *job.Spec.TTLSecondsAfterFinished)
			require.False(t, pod.HostNetwork || pod.HostPID || pod.HostIPC)
			require.False(t, *pod.AutomountServiceAccountToken || *pod.EnableServiceLinks)
			require.True(t, *pod.SecurityContext.RunAsNonRoot)
			require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
			for _, c := range allContainers(pod) {
				security := c.SecurityContext
				require.False(t, *security.AllowPrivilegeEscalation || *security.Privileged, c.Name)
				require.True(t, *security.ReadOnlyRootFilesystem && *security.RunAsNonRoot, c.Name)
				require.Equal(t, []corev1.Capability{"ALL"}, security.Capabilities.Drop)
				require.Empty(t, security.Capabilities.Add)
				require.Empty(t, c.Ports, "nobody is to reach a driver")
				require.Empty(t, c.Args)
				require.NotZero(t, c.Resources.Limits.Memory().Value(), "a driver that eats memory eats its own")
				require.NotZero(t, c.Resources.Limits.Cpu().MilliValue())
			}
		})
	}
}

// A secret in a Job could be read by whoever may see Jobs.
func TestJobs_holdNoSecrets(t *testing.T) {
	for name, job := range jobs() {
		text, err := json.Marshal(job)
		require.NoError(t, err)
		require.NotContains(t, string(text), "marker-secret", name)
		for _, c := range allContainers(job.Spec.Template.Spec) {
			require.Empty(t, c.EnvFrom, name)
			for _, env := range c.Env {
				require.Nil(t, env.ValueFrom, "%s: the environment of a process is seen by all of its user", name)
			}
		}
	}
}

// commands are all that stands in the command lines.
func TestJobs_commands(t *testing.T) {
	want := map[string][]string{
		"create": {"machine: /machine create"}, "remove": {"machine: /machine remove"}, "scan": {"machine: /machine scan"},
		"probe": {"fetch: /machine probe fetch", "flags: /machine probe flags", "report: /machine probe report"},
	}
	for name, job := range jobs() {
		var got []string
		for _, c := range allContainers(job.Spec.Template.Spec) {
			got = append(got, c.Name+": "+strings.Join(c.Command, " "))
		}
		kind, _, _ := strings.Cut(name, ",")
		require.Equal(t, want[kind], got, name)
	}
}

// A pod whose mount has no volume, or whose volume nobody mounts, was put together wrongly.
func TestJobs_volumesAndMountsAgree(t *testing.T) {
	for name, job := range jobs() {
		t.Run(name, func(t *testing.T) {
			pod := job.Spec.Template.Spec
			volumes, mounted := map[string]corev1.Volume{}, map[string]bool{}
			for _, v := range pod.Volumes {
				require.NotContains(t, volumes, v.Name)
				require.Nil(t, v.HostPath)
				if v.EmptyDir != nil {
					require.Positive(t, v.EmptyDir.SizeLimit.Value(), "a driver that writes without end fills its own directory only")
				}
				volumes[v.Name] = v
			}
			for _, c := range allContainers(pod) {
				paths := map[string]bool{}
				for _, m := range c.VolumeMounts {
					require.Contains(t, volumes, m.Name, c.Name)
					require.False(t, paths[m.MountPath], "%s mounts %s twice", c.Name, m.MountPath)
					paths[m.MountPath], mounted[m.Name] = true, true
					writable := volumes[m.Name].EmptyDir != nil
					require.True(t, writable || m.ReadOnly, "%s may write %s", c.Name, m.MountPath)
				}
			}
			for volume := range volumes {
				require.True(t, mounted[volume], volume)
			}
		})
	}
}

// mounts are path to volume of one container.
func mounts(t *testing.T, job *batchv1.Job, container string) map[string]corev1.VolumeMount {
	t.Helper()
	out := map[string]corev1.VolumeMount{}
	for _, c := range allContainers(job.Spec.Template.Spec) {
		if c.Name != container {
			continue
		}
		for _, m := range c.VolumeMounts {
			out[m.MountPath] = m
		}
	}
	require.NotEmpty(t, out)
	return out
}

// The container of a probe in which the unknown driver runs has no token, cannot change the binary that was verified, and leaves
// nothing where the container after it would look.
func TestProbeJob_theDriverIsAlone(t *testing.T) {
	const token = "/var/run/secrets/kubernetes.io/serviceaccount"
	job := jobs()["probe, full"]
	fetch, flags, report := mounts(t, job, "fetch"), mounts(t, job, "flags"), mounts(t, job, "report")
	require.Contains(t, fetch, token)
	require.NotContains(t, flags, token)
	require.Contains(t, report, token)
	require.False(t, fetch[jobrunner.FetchedDir].ReadOnly)
	require.True(t, flags[jobrunner.FetchedDir].ReadOnly)
	require.True(t, report[jobrunner.FetchedDir].ReadOnly)
	require.False(t, flags[jobrunner.FlagsDir].ReadOnly)
	require.True(t, report[jobrunner.FlagsDir].ReadOnly)
	for _, path := range []string{"/tmp", jobrunner.HomeDir} {
		require.NotEqual(t, flags[path].Name, report[path].Name)
		require.NotEqual(t, flags[path].Name, fetch[path].Name)
	}
	require.NotContains(t, fetch, jobrunner.FlagsDir)
}

// Rancher's tools find Jobs by these labels, ours by the others.
func TestJobs_labels(t *testing.T) {
	got := jobrunner.Job(task(state.Remove))
	require.Equal(t, map[string]string{
		rkev1.InfraMachineGroupLabel: "rke-machine.cattle.io", rkev1.InfraMachineVersionLabel: "v1", rkev1.InfraMachineKindLabel: "DigitaloceanMachine",
		rkev1.InfraMachineNameLabel: "pool1-abc", rkev1.InfraRemoveLabel: "true", rkev1.CAPIMachineLabel: "pool1-abc",
		rkev1.OperationLabel: "remove", rkev1.AttemptLabel: "1", rkev1.NodeDriverLabel: "digitalocean",
		rkev1.MachineUIDLabel: "11111111-2222-3333-4444-555555555555"}, got.Labels)
	require.Equal(t, got.Labels, got.Spec.Template.Labels, "pods are found like their Jobs")
	require.Equal(t, map[string]string{rkev1.RequestHashAnnotation: "0123456789abcdef"}, got.Annotations)

	alone := task(state.Create)
	alone.CAPIMachine, alone.Hash = "", ""
	require.NotContains(t, jobrunner.Job(alone).Labels, rkev1.CAPIMachineLabel)
	require.Empty(t, jobrunner.Job(alone).Annotations)
}

// A request must fit into a Secret together; the message says how much is too much.
func TestRequestSecret_size(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*jobrunner.Task)
		fits   bool
	}{
		"small":                   {func(*jobrunner.Task) {}, true},
		"bootstrap data":          {func(g *jobrunner.Task) { g.Bootstrap = make([]byte, 990<<10) }, true},
		"too much bootstrap data": {func(g *jobrunner.Task) { g.Bootstrap = make([]byte, 1000<<10) }, false},
		"files count":             {func(g *jobrunner.Task) { g.Request.Files = map[string][]byte{"f": make([]byte, 800<<10)} }, false},
		"certificates count":      {func(g *jobrunner.Task) { g.Settings.CABundle = make([]byte, 1000<<10) }, false},
		"together": {func(g *jobrunner.Task) {
			g.Bootstrap, g.Settings.CABundle = make([]byte, 500<<10), make([]byte, 500<<10)
		}, false},
		"bootstrap of no operation": {func(g *jobrunner.Task) { g.Bootstrap, g.Request.HasBootstrap = make([]byte, 2<<20), false }, true},
	} {
		t.Run(name, func(t *testing.T) {
			given := task(state.Create)
			tt.change(&given)
			secret, err := jobrunner.RequestSecret(given)
			if tt.fits {
				require.NoError(t, err)
				require.EqualValues(t, rkev1.MachineRequestSecretType, secret.Type)
				return
			}
			require.ErrorContains(t, err, "with its files and bootstrap data, more than the 1024000 that fit into a Secret")
		})
	}
	given := task(state.Create)
	given.Request.Options["acme-f"] = func() {}
	_, err := jobrunner.RequestSecret(given)
	require.ErrorContains(t, err, "encoding the request")
}

// verdictFacts are what the verdicts are made of.
func verdictFacts() (results map[string]string, ends map[string]*batchv1.Job, pods map[string][]corev1.Pod) {
	results = map[string]string{"no result": "", "rubbish": "{", "older": `{"operation":"create","attempt":1,"outcome":"Succeeded"}`,
		"succeeded": `{"operation":"create","attempt":2,"outcome":"Succeeded"}`,
		"failed":    `{"operation":"create","attempt":2,"outcome":"Failed","reason":"LimitReached","class":"Quota","message":"droplet limit"}`,
		"cancelled": `{"operation":"create","attempt":2,"outcome":"Cancelled","reason":"Cancelled","class":"Transient","message":"told to stop"}`}
	ends = map[string]*batchv1.Job{"no Job": nil, "runs": job("", ""), "complete": job(batchv1.JobComplete, ""), "failed": job(batchv1.JobFailed, "BackoffLimitExceeded"),
		"late": job(batchv1.JobFailed, "DeadlineExceeded")}
	pods = map[string][]corev1.Pod{"no pod": nil,
		"no image": pod(container(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}})),
		"evicted":  pod(func(s *corev1.PodStatus) { s.Phase, s.Reason, s.Message = corev1.PodFailed, "Evicted", "disk pressure" })}
	return results, ends, pods
}

// Every combination of what may be seen of an attempt, and what is made of it.
func TestOutcomeOf_goldenVerdicts(t *testing.T) {
	results, ends, pods := verdictFacts()
	var lines []string
	for result, text := range results {
		for end, ended := range ends {
			for seen, list := range pods {
				evidence := jobrunner.Evidence{Operation: state.Create, Attempt: 2, Job: ended, Pods: list, State: state.Of(map[string][]byte{state.ResultKey: []byte(text)})}
				v := jobrunner.OutcomeOf(evidence)
				said := "waits"
				if v.Done {
					said = fmt.Sprintf("%s %s", v.Outcome, v.Class)
				}
				lines = append(lines, strings.TrimRight(fmt.Sprintf("%-9s | Job %-8s | %-8s → %s %s: %s", result, end, seen, said, v.Reason, v.Message), ": "))
			}
		}
	}
	slices.Sort(lines)
	golden.Require(t, "testdata/verdicts.txt", strings.Join(lines, "\n")+"\n")
}

// A verdict is never in two minds, and a second Job never starts while the first may run.
func TestOutcomeOf_properties(t *testing.T) {
	results, ends, pods := verdictFacts()
	for result, text := range results {
		for end, ended := range ends {
			for seen, list := range pods {
				v := jobrunner.OutcomeOf(jobrunner.Evidence{Operation: state.Create, Attempt: 2, Job: ended, Pods: list,
					State: state.Of(map[string][]byte{state.ResultKey: []byte(text)})})
				about := fmt.Sprint(result, end, seen)
				require.Equal(t, v.Done, v.Outcome != "", about)
				mayRun := ended == nil && seen == "no image"
				require.False(t, v.Done && mayRun && (result == "no result" || result == "older" || result == "rubbish"), about)
				if v.Done && v.Outcome != state.Succeeded {
					require.NotEmpty(t, v.Reason, about)
					require.NotEmpty(t, v.Class, about)
					require.NotEmpty(t, v.Message, about)
					require.True(t, ended == nil || jobrunner.JobEnded(ended), about)
				}
				require.Equal(t, result == "succeeded", v.Outcome == state.Succeeded, about)
			}
		}
	}
}

func TestCheckInstanceName(t *testing.T) {
	for _, tt := range []struct {
		driver, name string
		wantErr      string
	}{
		{"digitalocean", strings.Repeat("a", 63), ""},
		{"google", strings.Repeat("a", 58), ""},
		{"google", strings.Repeat("a", 59), "longer than the 58 characters that google takes: lower the limit that the machine's annotation rke.cattle.io/hostname-length-limit sets"},
		{"google", "0pool", "must begin with a letter for google: rename the machine or its pool"},
		{"google", "-pool", "must begin with a letter"},
		{"google", "Pool", "must begin with a letter"},
		{"azure", strings.Repeat("a", 59), ""},
		{"azure", strings.Repeat("a", 60), "longer than the 59 characters that azure takes"},
		{"azure", "0pool", ""},
		{"", "", ""},
		{"something-new", "anything", ""},
	} {
		err := jobrunner.CheckInstanceName(tt.driver, tt.name)
		if tt.wantErr == "" {
			require.NoError(t, err, "%+v", tt)
			continue
		}
		require.ErrorContains(t, err, tt.wantErr)
	}
}

// Without an annotation no machine's name is too long for its cloud.
func TestInstanceName_fitsEachDriver(t *testing.T) {
	for _, driver := range []string{"google", "azure", "digitalocean", "acme"} {
		limit, err := jobrunner.ParseInstanceNameLimit(driver, "")
		require.NoError(t, err)
		for _, machine := range oddNames {
			name, err := jobrunner.InstanceName("m"+machine, limit)
			require.NoError(t, err)
			require.NoError(t, jobrunner.CheckInstanceName(driver, name), "%s for %s", name, driver)
		}
	}
}

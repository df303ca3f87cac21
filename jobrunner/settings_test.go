package jobrunner_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/state"
)

func TestSettingsDefaults(t *testing.T) {
	given := jobrunner.Settings{}.WithDefaults()
	require.Equal(t, 40*time.Minute, given.Deadline)
	require.Equal(t, 24*time.Hour, given.TTL)
	require.Equal(t, 90*time.Second, given.GracePeriod)
	require.Equal(t, "512Mi", given.ScratchSize.String())
	require.Equal(t, "50m", given.Resources.Requests.Cpu().String())
	require.Equal(t, "96Mi", given.Resources.Requests.Memory().String())
	require.Equal(t, "1", given.Resources.Limits.Cpu().String())
	require.Equal(t, "768Mi", given.Resources.Limits.Memory().String())
	require.Equal(t, given, given.WithDefaults(), "filling in twice changes nothing")

	own := jobrunner.Settings{Deadline: time.Minute, TTL: time.Hour, GracePeriod: time.Second, ScratchSize: resource.MustParse("1Gi"),
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	require.Equal(t, own, own.WithDefaults(), "what is given stays, an empty list of resources too")
	require.Equal(t, 40*time.Minute, jobrunner.Settings{Deadline: -1}.WithDefaults().Deadline)
}

// envOf is the environment of the only container.
func envOf(t *testing.T, settings jobrunner.Settings) map[string]string {
	t.Helper()
	create := task(state.Create)
	create.Settings = settings
	env := map[string]string{}
	for _, v := range jobrunner.Job(create).Spec.Template.Spec.Containers[0].Env {
		require.NotContains(t, env, v.Name, "no variable twice")
		env[v.Name] = v.Value
	}
	return env
}

func TestProxyIsPassedOn(t *testing.T) {
	cluster := "$(KUBERNETES_SERVICE_HOST),kubernetes.default.svc"
	base := map[string]string{"HOME": jobrunner.HomeDir, "TMPDIR": "/tmp"}
	for name, tt := range map[string]struct {
		proxy jobrunner.Proxy
		want  map[string]string
	}{
		"none":                     {},
		"exceptions without proxy": {proxy: jobrunner.Proxy{No: "example.test"}},
		"HTTPS alone": {proxy: jobrunner.Proxy{HTTPS: "http://p:1"},
			want: map[string]string{"HTTPS_PROXY": "http://p:1", "https_proxy": "http://p:1", "NO_PROXY": cluster, "no_proxy": cluster}},
		"all": {proxy: jobrunner.Proxy{HTTP: "http://q:2", HTTPS: "http://p:1", No: "example.test"},
			want: map[string]string{"HTTP_PROXY": "http://q:2", "http_proxy": "http://q:2", "HTTPS_PROXY": "http://p:1", "https_proxy": "http://p:1",
				"NO_PROXY": "example.test," + cluster, "no_proxy": "example.test," + cluster}},
	} {
		t.Run(name, func(t *testing.T) {
			got := envOf(t, jobrunner.Settings{Proxy: tt.proxy})
			for key, value := range base {
				require.Equal(t, value, got[key])
				delete(got, key)
			}
			if len(tt.want) == 0 {
				require.Empty(t, got)
				return
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestCABundleIsAddedToTheImagesOwn(t *testing.T) {
	require.NotContains(t, envOf(t, jobrunner.Settings{}), "SSL_CERT_DIR")
	require.Equal(t, "/etc/ssl/certs:"+jobrunner.CADir, envOf(t, jobrunner.Settings{CABundle: []byte("PEM")})["SSL_CERT_DIR"])
}

// A volume without bootstrap data must not ask for its key: the kubelet would wait for it forever.
func TestVolumesNameOnlyKeysThatAreThere(t *testing.T) {
	for _, operation := range []state.Operation{state.Create, state.Remove} {
		for _, bundle := range [][]byte{nil, []byte("PEM")} {
			given := task(operation)
			given.Settings.CABundle = bundle
			secret, err := jobrunner.RequestSecret(given)
			require.NoError(t, err)
			asked := map[string]bool{}
			for _, volume := range jobrunner.Job(given).Spec.Template.Spec.Volumes {
				if volume.Secret == nil {
					continue
				}
				require.Equal(t, secret.Name, volume.Secret.SecretName)
				for _, item := range volume.Secret.Items {
					asked[item.Key] = true
				}
			}
			require.Len(t, asked, len(secret.Data), operation)
			for key := range secret.Data {
				require.True(t, asked[key], key)
			}
		}
	}
}

// An image that is not for a node's processor never starts there.
func TestJobsRunWhereTheirImageCan(t *testing.T) {
	const arch, system = corev1.LabelArchStable, corev1.LabelOSStable
	for name, c := range map[string]struct {
		architectures []string
		given, want   map[string]string
		oneOf         []string
	}{
		"one":               {[]string{"arm64"}, map[string]string{"pool": "jobs"}, map[string]string{"pool": "jobs", arch: "arm64", system: "linux"}, nil},
		"several":           {[]string{"amd64", "arm64"}, nil, map[string]string{system: "linux"}, []string{"amd64", "arm64"}},
		"the user's choice": {[]string{"amd64", "arm64"}, map[string]string{arch: "riscv64"}, map[string]string{arch: "riscv64", system: "linux"}, nil},
		"none":              {nil, nil, map[string]string{system: "linux"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			given := task(state.Create)
			given.Settings.NodeSelector, given.Settings.Architectures = c.given, c.architectures
			pod := jobrunner.Job(given).Spec.Template.Spec
			require.Equal(t, c.want, pod.NodeSelector)
			if c.oneOf == nil {
				require.Nil(t, pod.Affinity)
				return
			}
			terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
			require.Equal(t, []corev1.NodeSelectorRequirement{{Key: arch, Operator: corev1.NodeSelectorOpIn, Values: c.oneOf}}, terms[0].MatchExpressions)
		})
	}
}

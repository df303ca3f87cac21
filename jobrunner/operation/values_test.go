package operation

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/driver"
	"github.com/drover-project/drover/jobrunner"
	"github.com/drover-project/drover/jobrunner/operation/redact"
	"github.com/drover-project/drover/sshkeys"
	"github.com/drover-project/drover/state"
)

func TestFlagValues(t *testing.T) {
	flags := []crdgen.Flag{
		{Name: "x-token", Type: crdgen.String, EnvVar: "X_TOKEN"},
		{Name: "x-region", Type: crdgen.String, EnvVar: "X_OTHER,X_REGION", Default: "nyc"},
		{Name: "x-port", Type: crdgen.Int, Default: int64(22)},
		{Name: "x-disk", Type: crdgen.Int, EnvVar: "X_DISK"},
		{Name: "x-ipv6", Type: crdgen.Bool, EnvVar: "X_IPV6"},
		{Name: "x-list", Type: crdgen.StringSlice, Default: []string{"a", "b"}},
		{Name: "x-more", Type: crdgen.StringSlice},
		{Name: "x-key", Type: crdgen.String},
	}
	request := jobrunner.Request{
		Options: map[string]any{"x-port": float64(2222), "x-more": []any{"c"}, "x-token": nil},
		CredentialEnv: map[string]string{
			"X_TOKEN": "t", "X_REGION": "fra", "X_DISK": "50", "X_IPV6": "true",
		},
	}
	values, err := flagValues(flags, request, map[string]string{"x-key": "/path"}, false)
	require.NoError(t, err)
	for name, want := range map[string]any{
		"x-token": "t", "x-region": "fra", "x-port": 2222, "x-disk": 50, "x-ipv6": true, "x-list": []string{"a", "b"}, "x-more": []string{"c"},
		"x-key": "/path", "swarm-master": false,
	} {
		require.Equal(t, want, values[name], name)
	}

	for name, options := range map[string]map[string]any{
		"unknown": {"x-colour": "MARKER"}, "no number": {"x-port": "MARKER"}, "a fraction": {"x-port": 1.5}, "no truth": {"x-ipv6": "MARKER"},
		"no list": {"x-list": map[string]any{}}, "no text": {"x-region": []any{}}, "a list of lists": {"x-list": []any{[]any{}}},
	} {
		request.Options = options
		_, err := flagValues(flags, request, nil, false)
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "MARKER")
	}
	request.Options = map[string]any{"x-colour": "red"}
	_, err = flagValues(flags, request, nil, true)
	require.NoError(t, err, "a removal does not mind")
}

// TestFlagValues_noPath: a driver that takes an address or a path gets no path into our pod, where the credential lies.
func TestFlagValues_noPath(t *testing.T) {
	const cloudinit, image = "vmwarevsphere-cloudinit", "vmwarevsphere-boot2docker-url"
	flags, _ := driver.Builtin("vmwarevsphere")
	for value, taken := range map[string]bool{
		"": true, "https://example.com/user-data?a=b": true, "http://198.18.0.1/x": true, "HTTPS://example.com": true,
		"/run/drover/request/request.json": false, "../../../run/drover/request/request.json": false, "file:///run/drover/request/request.json": false,
		"request.json": false, "http:/run/x": false, "https://": false, "ftp://example.com/x": false, "http://%zz/../../../../run/x": false, " https://x": false,
	} {
		for name, request := range map[string]jobrunner.Request{
			cloudinit: {Options: map[string]any{cloudinit: value}}, image: {Options: map[string]any{image: value}},
			"the environment": {CredentialEnv: map[string]string{"VSPHERE_CLOUDINIT": value}},
		} {
			values, err := flagValues(flags, request, nil, false)
			if taken {
				require.NoError(t, err, "%s %q", name, value)
				require.Equal(t, value, values[cloudinit].(string)+values[image].(string))
				continue
			}
			require.ErrorContains(t, err, "it must be an address that begins with http:// or https://", "%s %q", name, value)
			require.NotContains(t, err.Error(), "run")
			values, err = flagValues(flags, request, nil, true)
			require.NoError(t, err, "a removal does without")
			require.Empty(t, values[cloudinit].(string)+values[image].(string), "%q", value)
		}
	}
	own := []crdgen.Flag{{Name: "x-boot2docker-url", Type: crdgen.String, Default: "/images/x.iso"}}
	values, err := flagValues(own, jobrunner.Request{}, nil, false)
	require.NoError(t, err)
	require.Equal(t, "/images/x.iso", values["x-boot2docker-url"], "a path of the driver's own is its author's affair")
}

// TestFlagValues_of_every_driver: every flag gets a value of the type that libmachine asserts.
func TestFlagValues_of_every_driver(t *testing.T) {
	for _, name := range driver.BuiltinNames() {
		flags, _ := driver.Builtin(name)
		values, err := flagValues(flags, jobrunner.Request{}, nil, false)
		require.NoError(t, err)
		for _, flag := range flags {
			switch flag.Type {
			case crdgen.Int:
				require.IsType(t, 0, values[flag.Name])
			case crdgen.Bool:
				require.IsType(t, false, values[flag.Name])
			case crdgen.StringSlice:
				require.IsType(t, []string{}, values[flag.Name])
			case crdgen.String:
				require.IsType(t, "", values[flag.Name])
			}
		}
	}
}

func TestWriteFiles(t *testing.T) {
	pair, err := sshkeys.Generate("x")
	require.NoError(t, err)
	dir := t.TempDir()
	paths, err := writeFiles(dir, map[string][]byte{"x-key": pair.Private, "x-ca": []byte("pem"), "x-empty": nil, "../up": []byte("x")})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"x-key": filepath.Join(dir, "x-key/id_rsa"), "x-ca": filepath.Join(dir, "x-ca/content")}, paths)
	info, err := os.Stat(paths["x-key"])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.FileExists(t, paths["x-key"]+".pub")
}

func TestStateSecret(t *testing.T) {
	client := fake.NewClientset(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "s"}, Data: map[string][]byte{"a": []byte("1"), "b": []byte("2")}})
	s := &stateSecret{client: client.CoreV1().Secrets("n"), name: "s"}
	require.NoError(t, s.load(t.Context()))
	require.NoError(t, s.save(t.Context(), map[string][]byte{"a": []byte("1"), "gone": nil}))
	require.Zero(t, s.writes, "nothing differs")

	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, s.save(cancelled, map[string][]byte{"a": []byte("3"), "b": nil}), "what is known is saved after the end too")
	secret, err := client.CoreV1().Secrets("n").Get(t.Context(), "s", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string][]byte{"a": []byte("3")}, secret.Data)
	require.ErrorIs(t, s.save(t.Context(), map[string][]byte{"c": make([]byte, 2<<20)}), errStateTooLarge)
	missing := &stateSecret{client: client.CoreV1().Secrets("n"), name: "missing"}
	require.Error(t, missing.load(t.Context()))
}

func TestLog_keeps_the_end(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, &redact.Redactor{})
	for range 3000 {
		log.printf("%s", strings.Repeat("x", 50))
	}
	log.printf("the end")
	require.LessOrEqual(t, len(log.ring.bytes()), state.MaxLogBytes)
	require.True(t, bytes.HasSuffix(log.ring.bytes(), []byte(" the end\n")))
	require.Equal(t, byte(':'), log.ring.bytes()[2], "it begins with a line")
}

func TestCancellable(t *testing.T) {
	parent, cancel := context.WithCancelCause(t.Context())
	ctx, stop := cancellable(parent)
	defer stop()
	cancel(errors.New("terminated"))
	<-ctx.Done()
	require.True(t, cancelled(context.Cause(ctx)))
}

func TestClip(t *testing.T) {
	require.Equal(t, "abc", clip("abc", 5))
	require.LessOrEqual(t, len(clip(strings.Repeat("ü", 10), 5)), 5)
}

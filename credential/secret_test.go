package credential_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
	"github.com/drover-project/drover/credential"
)

func TestParse(t *testing.T) {
	for given, want := range map[string]types.NamespacedName{
		"cloud": {Namespace: "a", Name: "cloud"}, "b:cloud": {Namespace: "b", Name: "cloud"}, "b:": {Namespace: "b"}, ":cloud": {Name: "cloud"},
		"b:c:d": {Namespace: "b", Name: "c:d"}, "": {Namespace: "a"}, "a:cloud": {Namespace: "a", Name: "cloud"},
	} {
		ref := credential.Parse("a", given)
		require.Equal(t, want, ref.NamespacedName, given)
		require.Equal(t, want.Namespace != "a", ref.IsForeign(), given)
	}
}

func secret(namespace, name, allowed string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{rkev1.AllowedNamespacesAnnotation: allowed}},
		Data: map[string][]byte{"token": []byte("t"), "account": []byte("a")}}
}

// Who may use a Secret; of one that may not be used nobody learns whether it is there.
func TestSource_Look(t *testing.T) {
	for allowed, want := range map[string]error{"": credential.ErrNotShared, "team-a": nil, "team-b, team-a ": nil, "*": nil,
		"team-b": credential.ErrNotShared, "team": credential.ErrNotShared, "team-a.": credential.ErrNotShared, ",": credential.ErrNotShared} {
		source := credential.Source{Reader: fake.NewFakeClient(secret("b", "cloud", allowed))}
		require.ErrorIs(t, source.Look(t.Context(), credential.Parse("team-a", "b:cloud"), &corev1.Secret{}), want, allowed)
	}
	// Of a trusted namespace only what Rancher's user interface made is taken, and not its other Secrets.
	reader := fake.NewFakeClient(secret("cattle-global-data", "cc-x7k2p", ""), secret("cattle-global-data", "bootstrap-secret", ""), secret("team-b", "cc-x7k2p", ""),
		secret("team-a", "own", ""))
	trusting := credential.Source{Reader: reader, Trusted: []string{"cattle-global-data"}}
	for name, tt := range map[string]struct {
		source credential.Source
		want   error
	}{
		"cattle-global-data:cc-x7k2p":         {trusting, nil},
		"cattle-global-data:bootstrap-secret": {trusting, credential.ErrNotShared},
		"team-b:cc-x7k2p":                     {trusting, credential.ErrNotShared},
		"team-b:none":                         {trusting, credential.ErrNotShared},
		"own":                                 {trusting, nil},
		"team-a:own":                          {trusting, nil},
		"none":                                {trusting, credential.ErrMissing},
	} {
		require.ErrorIs(t, tt.source.Look(t.Context(), credential.Parse("team-a", name), &corev1.Secret{}), tt.want, name)
	}
	require.ErrorIs(t, credential.Source{Reader: reader}.Look(t.Context(), credential.Parse("team-a", "cattle-global-data:cc-x7k2p"), &corev1.Secret{}), credential.ErrNotShared)
}

// What a condition says of each Secret that cannot be used: what is wrong, and what to do.
func TestSource_Resolve(t *testing.T) {
	own := secret("a", "cloud", "")
	own.UID = "uid"
	wrongType := secret("a", "token", "")
	wrongType.Type = corev1.SecretTypeServiceAccountToken
	empty := secret("a", "empty", "")
	empty.Data = nil
	failing := func(err error) client.Reader {
		return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		}})
	}
	forbidden := failing(apierrors.NewForbidden(corev1.Resource("secrets"), "cloud", nil))
	for name, tt := range map[string]struct {
		reader          client.Reader
		credential      string
		spec            map[string]any
		reason, message string
	}{
		"missing":             {nil, "none", nil, rkev1.CredentialMissingReason, "the credential Secret none is not there: create it in namespace a with the keys account, token"},
		"one key in the spec": {nil, "none", map[string]any{"token": "t"}, rkev1.CredentialMissingReason, "the credential Secret none is not there: create it in namespace a with the keys account"},
		"not shared": {nil, "b:cloud", nil, rkev1.CredentialNotSharedReason,
			"there is no Secret b:cloud that may be used here: create it, and name this namespace, a, in its annotation drover.cattle.io/allowed-namespaces"},
		"foreign and forbidden": {forbidden, "b:cloud", nil, rkev1.CredentialNotSharedReason,
			"there is no Secret b:cloud that may be used here: create it, and name this namespace, a, in its annotation drover.cattle.io/allowed-namespaces"},
		"forbidden": {forbidden, "cloud", nil, rkev1.CredentialInvalidReason,
			"the credential Secret cloud in namespace a must not be read: let the manager's service account get it (keys account, token)"},
		"of another type": {nil, "token", nil, rkev1.CredentialInvalidReason,
			"Secret token is of type kubernetes.io/service-account-token: a credential is of type provisioning.cattle.io/cloud-credential or Opaque"},
		"without a key": {nil, "empty", map[string]any{"account": "a"}, rkev1.CredentialInvalidReason,
			"Secret empty: reading the credential of driver acme: key token is missing or empty: set token, or acmecredentialConfig-token, in the Secret"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.reader == nil {
				tt.reader = fake.NewFakeClient(own, wrongType, empty)
			}
			_, err := credential.Source{Reader: tt.reader}.Resolve(t.Context(), "a", tt.credential, "acme", acmeFields(), tt.spec)
			refused, ok := errors.AsType[*credential.Refused](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, tt.reason, refused.Reason)
			require.Equal(t, tt.message, refused.Message)
		})
	}
	given, err := credential.Source{Reader: fake.NewFakeClient(own)}.Resolve(t.Context(), "a", "a:cloud", "acme", acmeFields(), nil)
	require.NoError(t, err)
	require.Equal(t, "a:cloud", given.Name)
	require.Equal(t, "uid/999", given.Version)
	require.Equal(t, map[string]string{"ACME_TOKEN_VAR": "t", "ACME_ACCOUNT": "a", "ACME_PORT": "443"}, given.Env)

	_, err = credential.Source{Reader: failing(apierrors.NewInternalError(errors.New("etcd")))}.Resolve(t.Context(), "a", "cloud", "acme", nil, nil)
	require.ErrorContains(t, err, "reading the credential Secret a/cloud")
	_, ok := errors.AsType[*credential.Refused](err)
	require.False(t, ok, "an API server that does not answer says nothing of the credential")
}

package planner

import (
	corev1 "k8s.io/api/core/v1"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// Uses are the keys of the objects that a control plane names which its plans are made from: what else they hold need not be kept.
type Uses map[ObjectKey]map[string]bool

// Keys of registries' Secrets, and of credentials for snapshots.
var (
	registryKeys = []string{rkev1.AuthConfigUsername, rkev1.AuthConfigPassword, rkev1.AuthConfigAuth, rkev1.AuthConfigIdentityToken,
		corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey, corev1.DockerConfigJsonKey}
	certificateKeys = []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey, "ca.crt"}
	snapshotKeys    = []string{"accessKey", "secretKey", "defaultBucket", "defaultRegion", "defaultFolder", "defaultEndpoint", "defaultEndpointCA",
		"defaultSkipSSLVerify"}
)

// NewUses goes through a specification.
func NewUses(spec rkev1.RKEControlPlaneSpec) Uses {
	u := Uses{}
	if spec.Registries != nil {
		for _, registry := range spec.Registries.Configs {
			u.add(SecretKind, registry.AuthConfigSecretName, registryKeys...)
			u.add(SecretKind, registry.TLSSecretName, certificateKeys...)
		}
	}
	for _, files := range spec.MachineSelectorFiles {
		for _, source := range files.FileSources {
			u.items(SecretKind, source.Secret)
			u.items(ConfigMapKind, source.ConfigMap)
		}
	}
	if spec.ETCD != nil && spec.ETCD.S3 != nil {
		u.add(SecretKind, spec.ETCD.S3.CloudCredentialName, snapshotKeys...)
	}
	return u
}

func (u Uses) items(kind string, source rkev1.K8sObjectFileSource) {
	u.add(kind, source.Name)
	for _, item := range source.Items {
		u.add(kind, source.Name, item.Key)
	}
}

// add notes keys of an object. Once there are more objects than are read, no further one is noted.
func (u Uses) add(kind, name string, keys ...string) {
	key := ObjectKey{kind, name}
	if name == "" || u[key] == nil && len(u) > MaxReferences {
		return
	}
	if u[key] == nil {
		u[key] = map[string]bool{}
	}
	for _, one := range keys {
		u[key][one] = true
	}
}

// Of is the part of an object's data that is used.
func (u Uses) Of(key ObjectKey, data map[string][]byte) map[string][]byte {
	used := map[string][]byte{}
	for name, value := range data {
		if u[key][name] {
			used[name] = value
		}
	}
	return used
}

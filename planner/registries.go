package planner

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// The form of registries.yaml (k3s documentation, "Private Registry Configuration"; RKE2's is the same).
type registriesFile struct {
	Mirrors map[string]rkev1.Mirror   `json:"mirrors,omitempty"`
	Configs map[string]registryConfig `json:"configs,omitempty"`
}

type registryConfig struct {
	Auth *registryAuth `json:"auth,omitempty"`
	TLS  *registryTLS  `json:"tls,omitempty"`
}

type registryAuth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	Auth          string `json:"auth,omitempty"`
	IdentityToken string `json:"identity_token,omitempty"`
}

type registryTLS struct {
	CAFile             string `json:"ca_file,omitempty"`
	CertFile           string `json:"cert_file,omitempty"`
	KeyFile            string `json:"key_file,omitempty"`
	InsecureSkipVerify bool   `json:"insecure_skip_verify,omitempty"`
}

// registries are registries.yaml of the distribution and of the agent, and the certificates they name.
func (l *look) registries() ([]plan.File, error) {
	spec := l.Spec.Registries
	if spec == nil || len(spec.Mirrors)+len(spec.Configs) == 0 {
		return nil, nil
	}
	content := registriesFile{Mirrors: spec.Mirrors, Configs: map[string]registryConfig{}}
	var certificates []plan.File
	for _, host := range slices.Sorted(maps.Keys(spec.Configs)) {
		auth, err := l.registryAuth(host, spec.Configs[host])
		if err != nil {
			return nil, err
		}
		tls, files, err := l.registryTLS(host, spec.Configs[host])
		if err != nil {
			return nil, err
		}
		content.Configs[host] = registryConfig{Auth: auth, TLS: tls}
		certificates = append(certificates, files...)
	}
	text, err := encode(content)
	if err != nil {
		return nil, err
	}
	agents := plan.NewFile(etcDir+"agent/registries.yaml", "0600", text)
	agents.Dynamic = true
	return append([]plan.File{agents, plan.NewFile(etcDir+l.release.Distribution+"/registries.yaml", "0600", text)}, certificates...), nil
}

// registrySecret is a Secret that a registry's configuration names.
func (l *look) registrySecret(host, field, name string) (Object, error) {
	object, found := l.Objects[ObjectKey{SecretKind, name}]
	if !found {
		return object, because(rkev1.RegistrySecretMissingReason, "spec.registries.configs[%.100q].%s: there is no Secret %.100q in the control plane's namespace", host, field, name)
	}
	return object, nil
}

func (l *look) registryAuth(host string, config rkev1.RegistryConfig) (*registryAuth, error) {
	const field = "authConfigSecretName"
	if config.AuthConfigSecretName == "" {
		return nil, nil
	}
	secret, err := l.registrySecret(host, field, config.AuthConfigSecretName)
	if err != nil {
		return nil, err
	}
	said := func(key string) string { return string(secret.Data[key]) }
	auth := registryAuth{}
	switch secret.Type {
	case rkev1.AuthConfigSecretType:
		auth = registryAuth{said(rkev1.AuthConfigUsername), said(rkev1.AuthConfigPassword), said(rkev1.AuthConfigAuth), said(rkev1.AuthConfigIdentityToken)}
	case string(corev1.SecretTypeBasicAuth):
		auth = registryAuth{Username: said(corev1.BasicAuthUsernameKey), Password: said(corev1.BasicAuthPasswordKey)}
	case string(corev1.SecretTypeDockerConfigJson):
		auth = dockerAuth(secret.Data[corev1.DockerConfigJsonKey], host)
	}
	if auth == (registryAuth{}) {
		return nil, because(rkev1.RegistrySecretInvalidReason, "spec.registries.configs[%.100q].%s: Secret %.100q of type %.60q has no credential for it: types are %s, %s and %s",
			host, field, config.AuthConfigSecretName, secret.Type, rkev1.AuthConfigSecretType, corev1.SecretTypeBasicAuth, corev1.SecretTypeDockerConfigJson)
	}
	return &auth, nil
}

// dockerAuth is the credential of a registry in a config.json of Docker's.
func dockerAuth(text []byte, host string) registryAuth {
	var config struct {
		Auths map[string]struct {
			Username      string `json:"username"`
			Password      string `json:"password"`
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return registryAuth{}
	}
	for _, name := range []string{host, "https://" + host, "https://" + host + "/v1/"} {
		if found, ok := config.Auths[name]; ok {
			return registryAuth{found.Username, found.Password, found.Auth, found.IdentityToken}
		}
	}
	return registryAuth{}
}

// folder is a registry whose name can be a folder's.
var folder = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.:_-]*[A-Za-z0-9])?$`)

func (l *look) registryTLS(host string, config rkev1.RegistryConfig) (*registryTLS, []plan.File, error) {
	tls, dir := registryTLS{InsecureSkipVerify: config.InsecureSkipVerify}, l.dataDir()+"/etc/tls/registries/"+host
	var files []plan.File
	add := func(name string, content []byte) string {
		if len(content) == 0 {
			return ""
		}
		files = append(files, plan.NewFile(dir+"/"+name, "0600", content))
		return dir + "/" + name
	}
	ca := config.CABundle
	if name := config.TLSSecretName; name != "" {
		secret, err := l.registrySecret(host, "tlsSecretName", name)
		if err != nil {
			return nil, nil, err
		}
		certificate, key := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
		if secret.Type != string(corev1.SecretTypeTLS) || len(certificate) == 0 || len(key) == 0 {
			return nil, nil, because(rkev1.RegistrySecretInvalidReason, "spec.registries.configs[%.100q].tlsSecretName: Secret %.100q is not of type %s, or lacks %s or %s",
				host, name, corev1.SecretTypeTLS, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
		}
		tls.CertFile, tls.KeyFile = add(corev1.TLSCertKey, certificate), add(corev1.TLSPrivateKeyKey, key)
		if len(ca) == 0 {
			ca = secret.Data["ca.crt"]
		}
	}
	tls.CAFile = add("ca.crt", ca)
	if len(files) > 0 && (!folder.MatchString(host) || len(host) > 253) {
		return nil, nil, because(rkev1.ConfigInvalidReason, "spec.registries.configs: %.100q is no name of a registry, with or without a port", host)
	}
	if tls == (registryTLS{}) {
		return nil, nil, nil
	}
	return &tls, files, nil
}

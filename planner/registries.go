package planner

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/api/keys"
	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// registryFiles returns registries.yaml of the distribution and of the agent, and the certificates
// they name. It rejects settings that no server could use before they cause damage.
func (p *planner) registryFiles() ([]plan.File, error) {
	spec := p.Spec.Registries
	if spec == nil || len(spec.Mirrors)+len(spec.Configs) == 0 {
		return nil, nil
	}
	content := plan.Registries{Mirrors: mirrors(spec), Configs: map[string]plan.RegistryConfig{}}
	if err := plan.CheckMirrors(content.Mirrors); err != nil {
		return nil, because(rkev1.ConfigInvalidReason, "spec.registries.%v", err)
	}
	var certificates []plan.File
	size := 0
	for _, host := range slices.Sorted(maps.Keys(spec.Configs)) {
		auth, authErr := p.registryAuth(host, spec.Configs[host])
		settings, files, err := p.registryTLS(host, spec.Configs[host])
		if err := cmp.Or(authErr, err); err != nil {
			return nil, err
		}
		content.Configs[host] = plan.RegistryConfig{Auth: auth, TLS: settings}
		certificates = append(certificates, files...)
		// Many registries may name one large Secret.
		if auth != nil {
			size += len(auth.Username) + len(auth.Password) + len(auth.Auth) + len(auth.IdentityToken)
		}
		if size+contentBytes(certificates) > maxPlanBytes {
			return nil, because(rkev1.ConfigInvalidReason, "the credentials and certificates of spec.registries.configs have more than %d bytes, the most that a plan has room for", maxPlanBytes)
		}
	}
	text, err := encode(content)
	if err != nil {
		return nil, err
	}
	agents := plan.NewFile(etcDir+"agent/registries.yaml", "0600", text)
	agents.Dynamic = true
	return append([]plan.File{agents, plan.NewFile(etcDir+p.release.Distribution+"/registries.yaml", "0600", text)}, certificates...), nil
}

// CheckSpec returns an error if a control plane's specification has values that no plan may have,
// whatever the cluster's machines and objects are. Admission calls it, so that the user sees the
// error where the user writes the value.
func CheckSpec(spec *rkev1.RKEControlPlaneSpec) error {
	if err := checkBounds(spec); err != nil {
		return err
	}
	if err := checkArguments("spec.machineGlobalConfig", spec.MachineGlobalConfig); err != nil {
		return err
	}
	if err := checkSingles(spec.MachineGlobalConfig); err != nil {
		return err
	}
	for i, entry := range spec.MachineSelectorConfig {
		if err := checkArguments(fmt.Sprintf("spec.machineSelectorConfig[%d].config", i), entry.Config); err != nil {
			return err
		}
	}
	if err := checkSnapshots(spec.ETCD); err != nil {
		return err
	}
	if _, err := chartConfigs(spec.ChartValues, spec.ManagementClusterName); err != nil {
		return err
	}
	if spec.Registries == nil {
		return nil
	}
	if err := plan.CheckMirrors(mirrors(spec.Registries)); err != nil {
		return fmt.Errorf("spec.registries.%w", err)
	}
	return nil
}

func mirrors(spec *rkev1.Registry) map[string]plan.Mirror {
	out := map[string]plan.Mirror{}
	for registry, mirror := range spec.Mirrors {
		out[registry] = plan.Mirror(mirror)
	}
	return out
}

// registrySecret is a Secret that a registry's configuration names.
func (p *planner) registrySecret(host, field, name string) (Object, error) {
	object, found := p.Objects[ObjectKey{SecretKind, name}]
	if !found {
		return object, because(rkev1.RegistrySecretMissingReason, "spec.registries.configs[%.100q].%s: Secret %.100q does not exist in the control plane's namespace", host, field, name).of(SecretKind, name).at(field)
	}
	return object, nil
}

func (p *planner) registryAuth(host string, config rkev1.RegistryConfig) (*plan.RegistryAuth, error) {
	const field = "authConfigSecretName"
	if config.AuthConfigSecretName == "" {
		return nil, nil
	}
	secret, err := p.registrySecret(host, field, config.AuthConfigSecretName)
	if err != nil {
		return nil, err
	}
	said := func(key string) string { return string(secret.Data[key]) }
	auth, lacks := plan.RegistryAuth{}, ""
	switch secret.Type {
	case rkev1.AuthConfigSecretType:
		auth = plan.RegistryAuth{Username: said(rkev1.AuthConfigUsername), Password: said(rkev1.AuthConfigPassword), Auth: said(rkev1.AuthConfigAuth),
			IdentityToken: said(rkev1.AuthConfigIdentityToken)}
		lacks = "it needs username and password, or auth (user:password in base64), or identityToken"
	case string(corev1.SecretTypeBasicAuth):
		auth = plan.RegistryAuth{Username: said(corev1.BasicAuthUsernameKey), Password: said(corev1.BasicAuthPasswordKey)}
		lacks = "it needs username and password"
	case string(corev1.SecretTypeDockerConfigJson):
		auth, lacks = dockerAuth(secret.Data[corev1.DockerConfigJsonKey], host)
	default:
		lacks = fmt.Sprintf("its type must be %s, %s or %s", rkev1.AuthConfigSecretType, corev1.SecretTypeBasicAuth, corev1.SecretTypeDockerConfigJson)
	}
	if !isComplete(auth) {
		return nil, because(rkev1.RegistrySecretInvalidReason, "spec.registries.configs[%.100q].%s: Secret %.100q of type %.60q has no credential for this registry: %s",
			host, field, config.AuthConfigSecretName, secret.Type, lacks).of(SecretKind, config.AuthConfigSecretName).at(field)
	}
	return &auth, nil
}

// isComplete reports whether a registry can be logged in to with a credential, as containerd and
// the agent do.
func isComplete(a plan.RegistryAuth) bool {
	pair, err := base64.StdEncoding.DecodeString(a.Auth)
	if err != nil || a.Auth != "" && !strings.Contains(string(pair), ":") {
		return false
	}
	return a.Username != "" && a.Password != "" || a.IdentityToken != "" || a.Auth != ""
}

// dockerAuth returns the credential of a registry in a Docker config.json, or the reason why it is
// missing.
func dockerAuth(text []byte, host string) (auth plan.RegistryAuth, lacks string) {
	var config struct {
		Auths map[string]struct {
			Username      string `json:"username"`
			Password      string `json:"password"`
			Auth          string `json:"auth"`
			IdentityToken string `json:"identitytoken"`
		} `json:"auths"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return plan.RegistryAuth{}, "its " + corev1.DockerConfigJsonKey + " cannot be read"
	}
	names := []string{host, "https://" + host, "https://" + host + "/v1/"}
	if host == "docker.io" {
		names = append(names, "https://index.docker.io/v1/") // as docker login and kubectl create secret docker-registry write it
	}
	for _, name := range names {
		if found, ok := config.Auths[name]; ok {
			return plan.RegistryAuth{Username: found.Username, Password: found.Password, Auth: found.Auth, IdentityToken: found.IdentityToken},
				"its entry for the registry needs username and password, or auth, or identitytoken"
		}
	}
	hosts := slices.Sorted(maps.Keys(config.Auths))
	if len(hosts) == 0 {
		return plan.RegistryAuth{}, "it has no entries"
	}
	for i, name := range hosts {
		hosts[i] = fmt.Sprintf("%.100q", name)
	}
	if len(hosts) > 3 {
		hosts = append(hosts[:3], "others")
	}
	return plan.RegistryAuth{}, "its entries are for " + strings.Join(hosts, ", ")
}

// folder is a registry whose name, of at most 253 bytes, can be a folder's.
var folder = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.:_-]{0,251}[A-Za-z0-9])?$`)

func (p *planner) registryTLS(host string, config rkev1.RegistryConfig) (*plan.RegistryTLS, []plan.File, error) {
	settings, dir := plan.RegistryTLS{InsecureSkipVerify: config.InsecureSkipVerify}, p.dataDir()+"/etc/tls/registries/"+host
	var files []plan.File
	add := func(name string, content []byte) string {
		if len(content) == 0 {
			return ""
		}
		files = append(files, plan.NewFile(dir+"/"+name, "0600", content))
		return dir + "/" + name
	}
	ca := config.CABundle
	if lacksCertificate(ca) {
		return nil, nil, because(rkev1.ConfigInvalidReason,
			"spec.registries.configs[%.100q].caBundle must contain certificates as PEM in base64", host)
	}
	if config.TLSSecretName != "" {
		certificate, key, authority, err := p.tlsSecret(host, config)
		if err != nil {
			return nil, nil, err
		}
		settings.CertFile, settings.KeyFile, ca = add(corev1.TLSCertKey, certificate), add(corev1.TLSPrivateKeyKey, key), authority
	}
	settings.CAFile = add("ca.crt", ca)
	if len(files) > 0 && !folder.MatchString(host) {
		return nil, nil, because(rkev1.ConfigInvalidReason, "spec.registries.configs: %.100q is not a registry's host name with an optional port", host)
	}
	if settings == (plan.RegistryTLS{}) {
		return nil, nil, nil
	}
	return &settings, files, nil
}

// tlsSecret returns the content of a Secret: a client certificate and its key, and optionally the
// registry's authority, over which a caBundle takes precedence.
func (p *planner) tlsSecret(host string, config rkev1.RegistryConfig) (certificate, key, ca []byte, err error) {
	secret, err := p.registrySecret(host, "tlsSecretName", config.TLSSecretName)
	if err != nil {
		return nil, nil, nil, err
	}
	invalid := func(why string) error {
		return because(rkev1.RegistrySecretInvalidReason, "spec.registries.configs[%.100q].tlsSecretName: Secret %.100q %s", host, config.TLSSecretName, why).of(SecretKind, config.TLSSecretName).at("tlsSecretName")
	}
	certificate, key, ca = secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], config.CABundle
	if secret.Type != string(corev1.SecretTypeTLS) || len(certificate) == 0 || len(key) == 0 {
		return nil, nil, nil, invalid("is not of type " + string(corev1.SecretTypeTLS) + ", or lacks " + corev1.TLSCertKey + " or " + corev1.TLSPrivateKeyKey)
	}
	if err := keys.CheckKey(key); err != nil {
		return nil, nil, nil, invalid("has in " + corev1.TLSPrivateKeyKey + " a key that " + err.Error())
	}
	if err := errors.Join(keys.CheckCertificates(certificate), keys.CheckCertificates(secret.Data["ca.crt"])); err != nil {
		return nil, nil, nil, invalid(err.Error())
	}
	if _, err := tls.X509KeyPair(certificate, key); err != nil {
		return nil, nil, nil, invalid("has no certificate in " + corev1.TLSCertKey + " that matches the private key in " + corev1.TLSPrivateKeyKey)
	}
	if len(ca) == 0 {
		ca = secret.Data["ca.crt"]
	}
	if lacksCertificate(ca) {
		return nil, nil, nil, invalid("has no certificate in ca.crt")
	}
	return certificate, key, ca, nil
}

// lacksCertificate reports whether there is something in which the agent finds no certificate.
func lacksCertificate(bundle []byte) bool {
	return len(bundle) > 0 && !x509.NewCertPool().AppendCertsFromPEM(bundle)
}

// registryName is a registry as the names of images begin with it: no URL.
var registryName = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$`)

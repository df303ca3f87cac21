package v1

// AuthConfigSecretType is the type of a Secret with a registry's credential, and its keys.
const (
	AuthConfigSecretType    = "rke.cattle.io/auth-config"
	AuthConfigUsername      = "username"
	AuthConfigPassword      = "password"
	AuthConfigAuth          = "auth"
	AuthConfigIdentityToken = "identityToken"
)

// Registry is how servers reach container registries; it becomes registries.yaml of k3s or RKE2.
type Registry struct {
	// Mirrors by registry: where its images come from.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Mirrors map[string]Mirror `json:"mirrors,omitempty"`
	// Configs by registry: credentials and certificates.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Configs map[string]RegistryConfig `json:"configs,omitempty"`
}

// Mirror is where images of a registry come from.
type Mirror struct {
	// Endpoints are URLs, tried in turn.
	// +optional
	Endpoints []string `json:"endpoint,omitempty"`
	// Rewrites are regular expressions on the repository's name, and the text that replaces a match.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(pattern, size(pattern) <= 256)",message="a pattern has at most 256 bytes"
	Rewrites map[string]string `json:"rewrite,omitempty"`
}

// RegistryConfig is how a registry is spoken to.
type RegistryConfig struct {
	// AuthConfigSecretName is a Secret of type rke.cattle.io/auth-config, kubernetes.io/basic-auth
	// or kubernetes.io/dockerconfigjson.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	AuthConfigSecretName string `json:"authConfigSecretName,omitempty"`
	// TLSSecretName is a Secret of type kubernetes.io/tls: the certificate to show to the registry.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// CABundle are the certificates of the authorities of the registry: PEM, once more in base64
	// (base64 -w0 ca.crt), as in the data of a Secret.
	// +optional
	CABundle []byte `json:"caBundle,omitempty"`
	// InsecureSkipVerify: the certificate of the registry is not checked.
	// +optional
	InsecureSkipVerify bool `json:"insecureSkipVerify,omitempty"`
}

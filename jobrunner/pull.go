package jobrunner

import (
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// PullSecret returns a copy of the manager's pull Secrets in the Job's namespace, for pulling the
// Job's image, or nil if the manager has none. It merges their lists of registries.
func PullSecret(t Task) (*corev1.Secret, error) {
	if len(t.PullSecrets) == 0 {
		return nil, nil
	}
	registries := map[string]json.RawMessage{}
	for i := range t.PullSecrets {
		source := &t.PullSecrets[i]
		var document struct {
			Auths map[string]json.RawMessage `json:"auths"`
		}
		var err error
		switch source.Type {
		case corev1.SecretTypeDockerConfigJson:
			err = json.Unmarshal(source.Data[corev1.DockerConfigJsonKey], &document)
		case corev1.SecretTypeDockercfg:
			err = json.Unmarshal(source.Data[corev1.DockerConfigKey], &document.Auths)
		default:
			return nil, fmt.Errorf("the pull Secret %s in namespace %s is of type %q: it must be of type %s", source.Name, source.Namespace, source.Type, corev1.SecretTypeDockerConfigJson)
		}
		if err != nil {
			// Not the error's words: they could have some of the document.
			return nil, fmt.Errorf("the content of the pull Secret %s in namespace %s does not match its type", source.Name, source.Namespace)
		}
		all := map[string]json.RawMessage{}
		maps.Copy(all, document.Auths)
		maps.Copy(all, registries) // the first counts, as for the kubelet
		registries = all
	}
	document, err := json.Marshal(map[string]any{"auths": registries})
	if err != nil {
		return nil, fmt.Errorf("encoding the logins to registries: %w", err)
	}
	return secret(t.meta(ObjectName(t.Name(), "pull"), t.ownLabels()), corev1.SecretTypeDockerConfigJson, map[string][]byte{corev1.DockerConfigJsonKey: document}), nil
}

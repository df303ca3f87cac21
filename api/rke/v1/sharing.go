package v1

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RancherCredentialPrefix is what the names of credentials begin with that Rancher's user interface makes.
const RancherCredentialPrefix = "cc-"

// SharedWith reports whether a credential Secret may be used by machines of another namespace: it names that one, or it is a credential of
// Rancher's in a namespace that the manager was told to trust.
func SharedWith(secret metav1.Object, namespace string, trusted []string) bool {
	if slices.Contains(trusted, secret.GetNamespace()) && strings.HasPrefix(secret.GetName(), RancherCredentialPrefix) {
		return true
	}
	for allowed := range strings.SplitSeq(secret.GetAnnotations()[AllowedNamespacesAnnotation], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == "*" || allowed == namespace {
			return true
		}
	}
	return false
}

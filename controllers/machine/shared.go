package machine

import corev1 "k8s.io/api/core/v1"

// SharedWith tells whether a credential Secret of another namespace says that it may be used in this one.
func SharedWith(secret *corev1.Secret, namespace string) bool { return sharedWith(secret, namespace) }

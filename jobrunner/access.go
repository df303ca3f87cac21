package jobrunner

import (
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/state"
)

// ServiceAccount is the account of the pod. The Job mounts its token only into the containers that
// need it.
func ServiceAccount(t Task) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta:                   t.meta(t.accessName(), t.ownLabels()),
		AutomountServiceAccountToken: new(bool),
	}
}

// Role allows the pod to read and write only its own state Secret, by name. A probe may also write
// the driver cache and delete a damaged part of it; only containers without driver code have its
// token.
func Role(t Task) *rbacv1.Role {
	rules := []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"},
		ResourceNames: []string{t.Request.StateSecret},
		Verbs:         []string{"get", "patch"},
	}}
	if t.Request.Operation == state.Probe {
		rules = append(rules, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "create", "delete"},
		})
	}
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: t.meta(t.accessName(), t.ownLabels()),
		Rules:      rules,
	}
}

// RoleBinding gives the Role to the ServiceAccount.
func RoleBinding(t Task) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: t.meta(t.accessName(), t.ownLabels()),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: t.accessName()},
		Subjects: []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Name: t.accessName(), Namespace: t.Request.Namespace}},
	}
}

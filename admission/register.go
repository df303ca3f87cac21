package admission

import (
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Register makes the manager's webhook server serve the webhooks of this package.
func Register(mgr manager.Manager, trustedCredentialNamespaces []string) {
	server := mgr.GetWebhookServer()
	server.Register(MachineKindsPath, &admission.Webhook{Handler: &MachineKinds{Cached: mgr.GetClient(), Live: mgr.GetAPIReader(),
		TrustedCredentialNamespaces: trustedCredentialNamespaces}})
	server.Register(NodeDriversPath, &admission.Webhook{Handler: &NodeDrivers{}})
}

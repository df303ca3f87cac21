package guard

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-project/drover/capi/workload"
)

// Authorities is what the controller of Clusters reads with: for a Cluster without a control plane's controller it signs a kubeconfig with the
// authority in the Secret <cluster>-ca.
type Authorities struct{ client.Client }

// Get implements client.Reader.
func (c Authorities) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	read, ok := obj.(*corev1.Secret)
	if !ok || !strings.HasSuffix(key.Name, "-"+string(secret.ClusterCA)) {
		return nil
	}
	if err := errors.Join(workload.CheckKey(read.Data[secret.TLSKeyDataName]), workload.CheckCertificates(read.Data[secret.TLSCrtDataName])); err != nil {
		return fmt.Errorf("the authority in Secret %s %w", key.Name, err)
	}
	return nil
}

package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
)

func (r *Reconciler) checkCompatible(ctx context.Context, s *scope, fields []crdgen.Field) error {
	name := s.nd.DriverName()
	// The fields of the kinds as they are served now; none when there are no kinds, or none of ours.
	var old []crdgen.Field
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.opts.Reader.Get(ctx, client.ObjectKey{Name: crdgen.CRDName(crdgen.MachineGroup, crdgen.KindsOf(name).Machine)}, crd)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the present CRD: %w", err)
	}
	if err == nil {
		if old, err = crdgen.FieldsFromCRD(crd); err != nil && !errors.Is(err, crdgen.ErrNoFields) {
			return err
		}
	}
	changes := crdgen.Incompatible(old, fields)
	if len(changes) == 0 {
		return nil
	}
	users, err := r.fieldUsers(ctx, name, old)
	if err != nil {
		return err
	}
	var hits []string
	for _, change := range changes {
		if objects := users[change.Field]; objects != nil {
			hits = append(hits, fmt.Sprintf("%s, which %s", change, objects.use("")))
		}
	}
	if len(hits) == 0 {
		return nil
	}
	r.opts.Watch.Ensure(s.nd.Name, name)
	return step.Stall(v3.SchemaIncompatibleReason, fmt.Errorf("driver %s has changed: %s. Its kinds stay as they were. "+
		"Make new templates without the field, roll the machines over to them, and delete the old templates and configs: "+
		"then the change goes through by itself. Or set the URL, checksum and annotations back", name, strings.Join(hits, "; ")))
}

// establishNet is when to look again for a CRD that was not seen to become established.
const establishNet = 30 * time.Second

package nodedriver

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v3 "github.com/drover-project/drover/api/management/v3"
	"github.com/drover-project/drover/controllers/step"
	"github.com/drover-project/drover/crdgen"
	"github.com/drover-project/drover/userdata"
)

// schema makes the kinds from the flags, and stops where the API server would then prune or refuse what users wrote.
func (r *Reconciler) schema(ctx context.Context, s *scope) error {
	name := s.nd.DriverName()
	fields, err := crdgen.FieldsOf(name, s.flags, s.rules)
	if err != nil {
		return step.Stall(v3.FlagsInvalidReason, err)
	}
	config, template, machine, err := crdgen.CRDs(crdgen.Schema{Driver: name, Fields: fields})
	if err != nil {
		return step.Stall(v3.FlagsInvalidReason, err)
	}
	if err := r.checkCompatible(ctx, s, fields); err != nil {
		return err
	}
	s.fields, s.crds = fields, []*apiextensionsv1.CustomResourceDefinition{config, template, machine}
	unmatched := crdgen.Unmatched(name, fields, s.rules)
	if annotation := s.nd.Annotations[v3.UserDataAnnotation]; annotation != "" {
		flags := make([]userdata.Flag, len(fields))
		for i, field := range fields {
			flags[i] = userdata.Flag{Name: field.Flag, Text: field.Type == crdgen.String, File: field.File}
		}
		if _, err := userdata.Way(name, annotation, flags); err != nil {
			unmatched = append(unmatched, err.Error())
		}
	}
	if len(unmatched) > 0 {
		s.conditions.True(v3.SchemaCompatibleCondition, v3.CompatibleReason, "look at the annotations: "+strings.Join(unmatched, "; "))
	}
	return nil
}

func (r *Reconciler) checkCompatible(ctx context.Context, s *scope, fields []crdgen.Field) error {
	name := s.nd.DriverName()
	old, err := r.presentFields(ctx, name)
	if err != nil {
		return err
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

// presentFields are those of the kinds as they are served now; none when there are no kinds, or none of ours.
func (r *Reconciler) presentFields(ctx context.Context, driverName string) ([]crdgen.Field, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := r.opts.Reader.Get(ctx, client.ObjectKey{Name: crdgen.CRDName(crdgen.MachineGroup, crdgen.KindsOf(driverName).Machine)}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the present CRD: %w", err)
	}
	fields, err := crdgen.FieldsFromCRD(crd)
	if errors.Is(err, crdgen.ErrNoFields) {
		return nil, nil
	}
	return fields, err
}

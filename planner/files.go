package planner

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/api/plan"
	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// selectedFiles are those of spec.machineSelectorFiles whose selectors match the machine.
func (l *look) selectedFiles() ([]plan.File, error) {
	var files []plan.File
	room := maxPlanBytes
	for i, entry := range l.Spec.MachineSelectorFiles {
		where := l.planner.files[i].where
		matches, err := l.planner.files[i].matches(l.Labels)
		if err != nil {
			return nil, because(rkev1.FileSourceInvalidReason, "%v", err)
		}
		if !matches {
			continue
		}
		for _, source := range entry.FileSources {
			for _, from := range []struct {
				kind string
				rkev1.K8sObjectFileSource
			}{{SecretKind, source.Secret}, {ConfigMapKind, source.ConfigMap}} {
				if from.Name == "" {
					continue
				}
				more, err := l.filesOf(where, from.kind, from.K8sObjectFileSource, &room)
				if err != nil {
					return nil, err
				}
				files = append(files, more...)
			}
		}
	}
	return files, nil
}

// filesOf makes files of an object that is shared with the cluster, and takes what they need from room: a key that is named a thousand times would
// else be a thousand times in memory before the plan is found too large.
func (l *look) filesOf(where, kind string, source rkev1.K8sObjectFileSource, room *int) ([]plan.File, error) {
	object, err := l.shared(where, kind, source.Name)
	if err != nil {
		return nil, err
	}
	var files []plan.File
	for _, item := range source.Items {
		content, found := object.Data[item.Key]
		if *room -= base64.StdEncoding.EncodedLen(len(content)); *room < 0 {
			return nil, because(rkev1.ConfigInvalidReason, "%s: a plan has room for %d bytes, and its files have more: fewer or smaller ones are needed", where, maxPlanBytes)
		}
		hash := sha256.Sum256(content)
		switch {
		case !found:
			return nil, because(rkev1.FileSourceInvalidReason, "%s: %s %.100q has no key %.100q", where, kind, source.Name, item.Key)
		case !path.IsAbs(item.Path) || path.Clean(item.Path) != item.Path || item.Path == "/":
			return nil, because(rkev1.FileSourceInvalidReason, "%s: %.200q is no absolute path of a file", where, item.Path)
		case item.Hash != "" && subtle.ConstantTimeCompare([]byte(item.Hash), []byte(base64.StdEncoding.EncodeToString(hash[:]))) == 0:
			return nil, because(rkev1.FileSourceInvalidReason, "%s: the content of key %.100q of %s %.100q has another sha256 than hash says", where, item.Key, kind, source.Name)
		}
		file := plan.NewFile(item.Path, cmp.Or(item.Permissions, source.DefaultPermissions, "0600"), content)
		file.Dynamic = item.Dynamic
		files = append(files, file)
	}
	return files, nil
}

// shared is an object that is shared with the cluster.
func (l *look) shared(where, kind, name string) (Object, error) {
	object, found := l.Objects[ObjectKey{kind, name}]
	if !found {
		return object, because(rkev1.FileSourceMissingReason, "%s: there is no %s %.100q in the control plane's namespace", where, kind, name).of(kind, name)
	}
	lists := func(cluster string) bool { return strings.TrimSpace(cluster) == l.Cluster.Name }
	if !slices.ContainsFunc(strings.Split(object.AuthorizedClusters, ","), lists) {
		return object, because(rkev1.FileSourceNotAuthorizedReason, "%s: the annotation %s of %s %.100q does not list %s", where,
			rkev1.AuthorizedForClustersAnnotation, kind, name, l.Cluster.Name).of(kind, name)
	}
	return object, nil
}

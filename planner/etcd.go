package planner

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// snapshots passes spec.etcd to the distribution, which takes the snapshots itself.
func (l *look) snapshots(s settings) error {
	etcd := l.Spec.ETCD
	if etcd == nil || !l.Roles.Etcd {
		return nil
	}
	if err := checkSnapshots(etcd); err != nil {
		return because(rkev1.ConfigInvalidReason, "%v", err)
	}
	if etcd.DisableSnapshots {
		s["etcd-disable-snapshots"] = true
	}
	if etcd.SnapshotRetention > 0 {
		s["etcd-snapshot-retention"] = json.Number(strconv.FormatInt(etcd.SnapshotRetention, 10))
	}
	if etcd.SnapshotScheduleCron != "" {
		s["etcd-snapshot-schedule-cron"] = etcd.SnapshotScheduleCron
	}
	if etcd.S3 == nil {
		return nil
	}
	return l.uploads(s, *etcd.S3)
}

// checkSnapshots checks the values of spec.etcd as admission does.
func checkSnapshots(etcd *rkev1.ETCD) error {
	if etcd == nil {
		return nil
	}
	if etcd.SnapshotScheduleCron != "" {
		if err := checkSchedule([]string{etcd.SnapshotScheduleCron}); err != nil {
			return fmt.Errorf("spec.etcd.snapshotScheduleCron %w", err)
		}
	}
	if etcd.S3 != nil && etcd.S3.Endpoint != "" {
		if err := checkEndpoint([]string{etcd.S3.Endpoint}); err != nil {
			return fmt.Errorf("spec.etcd.s3.endpoint %w", err)
		}
	}
	return nil
}

// uploads sets the destination of snapshots; the credential fills in the fields that spec.etcd.s3
// leaves empty.
func (l *look) uploads(s settings, s3 rkev1.ETCDSnapshotS3) error {
	credential, err := l.snapshotCredential(s3.CloudCredentialName)
	if err != nil {
		return err
	}
	said := func(key string) string { return valueOf(credential, key) }
	bucket := cmp.Or(s3.Bucket, said("defaultBucket"))
	if bucket == "" {
		return because(rkev1.ConfigInvalidReason, "spec.etcd.s3.bucket and defaultBucket of its credential are both empty: set one of them")
	}
	endpoint := s3.Endpoint
	if endpoint == "" && said("defaultEndpoint") != "" {
		endpoint = said("defaultEndpoint")
		if err := checkEndpoint([]string{endpoint}); err != nil {
			return because(rkev1.SnapshotCredentialInvalidReason, "spec.etcd.s3.cloudCredentialName: defaultEndpoint in Secret %.100q %v", s3.CloudCredentialName, err)
		}
	}
	s["etcd-s3"] = true
	for _, setting := range []struct{ name, value string }{
		{"etcd-s3-bucket", bucket},
		{"etcd-s3-region", cmp.Or(s3.Region, said("defaultRegion"))},
		{"etcd-s3-folder", cmp.Or(s3.Folder, said("defaultFolder"))},
		{"etcd-s3-endpoint", endpointHost(endpoint)},
		{"etcd-s3-endpoint-ca", cmp.Or(s3.EndpointCA, said("defaultEndpointCA"))},
		{"etcd-s3-access-key", said("accessKey")},
		{"etcd-s3-secret-key", said("secretKey")},
	} {
		if setting.value != "" {
			s[setting.name] = setting.value
		}
	}
	if s3.SkipSSLVerify || said("defaultSkipSSLVerify") == "true" {
		s["etcd-s3-skip-ssl-verify"] = true
	}
	if s3.Retention > 0 {
		s["etcd-s3-retention"] = json.Number(strconv.FormatInt(s3.Retention, 10))
	}
	return nil
}

// snapshotCredential returns the content of a credential's Secret, or nothing without a name.
func (l *look) snapshotCredential(name string) (map[string][]byte, error) {
	object, found := l.Objects[ObjectKey{SecretKind, name}]
	switch {
	case name == "":
		return nil, nil
	case !found && strings.Contains(name, ":"):
		return nil, because(rkev1.SnapshotCredentialMissingReason, "spec.etcd.s3.cloudCredentialName: Secret %.100q does not exist or is not shared: create it, and list "+
			"this namespace, %s, in its annotation %s", name, l.Namespace, rkev1.AllowedNamespacesAnnotation)
	case !found:
		return nil, because(rkev1.SnapshotCredentialMissingReason, "spec.etcd.s3.cloudCredentialName: Secret %.100q does not exist in the control plane's namespace", name).of(SecretKind, name)
	case valueOf(object.Data, "accessKey") == "" || valueOf(object.Data, "secretKey") == "":
		return nil, because(rkev1.SnapshotCredentialInvalidReason, "spec.etcd.s3.cloudCredentialName: Secret %.100q must have the keys accessKey and secretKey", name)
	}
	return object.Data, nil
}

// valueOf returns the value of a key in a credential. Rancher prefixes the key with the kind of the
// credential and a dash.
func valueOf(credential map[string][]byte, key string) string {
	if value := credential[key]; len(value) > 0 {
		return string(value)
	}
	for _, name := range slices.Sorted(maps.Keys(credential)) {
		if strings.HasSuffix(name, "-"+key) {
			return string(credential[name])
		}
	}
	return ""
}

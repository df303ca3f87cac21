package planner

import (
	"cmp"
	"encoding/json"
	"strconv"

	rkev1 "github.com/drover-project/drover/api/rke/v1"
)

// snapshots passes spec.etcd to the distribution, which takes the snapshots itself.
func (l *look) snapshots(s settings) error {
	etcd := l.Spec.ETCD
	if etcd == nil || !l.Roles.Etcd {
		return nil
	}
	if etcd.DisableSnapshots {
		s["etcd-disable-snapshots"] = true
	}
	if etcd.SnapshotRetention > 0 {
		s["etcd-snapshot-retention"] = number(etcd.SnapshotRetention)
	}
	if etcd.SnapshotScheduleCron != "" {
		s["etcd-snapshot-schedule-cron"] = etcd.SnapshotScheduleCron
	}
	if etcd.S3 == nil {
		return nil
	}
	return l.uploads(s, *etcd.S3)
}

// uploads sets where snapshots go; what spec.etcd.s3 leaves open the credential may say.
func (l *look) uploads(s settings, s3 rkev1.ETCDSnapshotS3) error {
	var credential map[string][]byte
	if name := s3.CloudCredentialName; name != "" {
		object, found := l.Objects[ObjectKey{SecretKind, name}]
		if !found {
			return because(rkev1.SnapshotCredentialMissingReason, "spec.etcd.s3.cloudCredentialName: there is no Secret %.100q in the control plane's namespace", name)
		}
		if credential = object.Data; len(credential["accessKey"]) == 0 || len(credential["secretKey"]) == 0 {
			return because(rkev1.SnapshotCredentialInvalidReason, "spec.etcd.s3.cloudCredentialName: Secret %.100q has not both of accessKey and secretKey", name)
		}
	}
	said := func(key string) string { return string(credential[key]) }
	bucket := cmp.Or(s3.Bucket, said("defaultBucket"))
	if bucket == "" {
		return because(rkev1.ConfigInvalidReason, "spec.etcd.s3.bucket is empty, and so is defaultBucket of its credential")
	}
	s["etcd-s3"] = true
	for _, setting := range []struct{ name, value string }{
		{"etcd-s3-bucket", bucket},
		{"etcd-s3-region", cmp.Or(s3.Region, said("defaultRegion"))},
		{"etcd-s3-folder", cmp.Or(s3.Folder, said("defaultFolder"))},
		{"etcd-s3-endpoint", cmp.Or(s3.Endpoint, said("defaultEndpoint"))},
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
		s["etcd-s3-retention"] = number(s3.Retention)
	}
	return nil
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

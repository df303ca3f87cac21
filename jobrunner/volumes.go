package jobrunner

import (
	corev1 "k8s.io/api/core/v1"
)

// Volumes of the pods.
const (
	requestVolume = "request"
	caVolume      = "ca"
	tokenVolume   = "token"
	tmpVolume     = "tmp"
	homeVolume    = "home"
	fetchedVolume = "fetched"
	flagsVolume   = "flags"
	// driverPrefix is the prefix of the writable directories in the container that runs an unknown
	// driver.
	driverPrefix = "driver-"

	// tokenDir is where client libraries look for a service account.
	tokenDir = "/var/run/secrets/kubernetes.io/serviceaccount"
	// tokenSeconds is how long a token is good; kubelet renews it in time.
	tokenSeconds = 3600
	// readOnlyMode allows the pod's group to read.
	readOnlyMode = 0o440
)

func mount(volume, path string, readOnly bool) corev1.VolumeMount {
	return corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: readOnly}
}

func (t Task) volumes() []corev1.Volume {
	items := []corev1.KeyToPath{{Key: RequestKey, Path: RequestKey}}
	if t.Request.HasBootstrap {
		items = append(items, corev1.KeyToPath{Key: BootstrapKey, Path: BootstrapKey})
	}
	// The service account as client libraries expect it, but only in the containers that mount it.
	token := corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		DefaultMode: new(int32(readOnlyMode)),
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(tokenSeconds))}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
				{Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"}}}}},
		},
	}}
	volumes := []corev1.Volume{t.secret(requestVolume, items...), {Name: tokenVolume, VolumeSource: token}, t.scratch(tmpVolume), t.scratch(homeVolume)}
	if len(t.Settings.CABundle) > 0 {
		// A separate directory: all certificates of a directory in SSL_CERT_DIR are trusted, and
		// bootstrap data may contain some.
		volumes = append(volumes, t.secret(caVolume, corev1.KeyToPath{Key: CABundleKey, Path: CABundleKey}))
	}
	return volumes
}

func (t Task) secret(volume string, items ...corev1.KeyToPath) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: t.Name(), Items: items, DefaultMode: new(int32(readOnlyMode))}}}
}

func (t Task) scratch(volume string) corev1.Volume {
	return corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(t.Settings.ScratchSize)}}}
}

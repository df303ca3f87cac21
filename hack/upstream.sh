#!/usr/bin/env bash
# Builds the unmodified managers of Cluster API and of kubeadm's providers from the module of the given version, and puts them into
# bin/upstream: as images, and as a repository that `clusterctl init` reads. Nothing of it is kept in git.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
out=$PWD/bin/upstream
module=$(cd e2e/conformance && go list -m -f '{{.Dir}}' sigs.k8s.io/cluster-api)

# pack PROVIDER PACKAGE IMAGE COMPONENTS
pack() {
  local image=registry.k8s.io/cluster-api/$3 dir=$out/repository/$1/v$version
  mkdir -p "$dir"
  (cd e2e/conformance && go build -o "$out/$1" -ldflags "-s -w -X sigs.k8s.io/cluster-api/version.gitVersion=v$version" "sigs.k8s.io/cluster-api/$2")
  bin/image -tag "$image:v$version" -link "manager=$1" -out "$out/$1.tar" "$out/$1"
  rm "$out/$1"
  cp "$module/metadata.yaml" "$dir/"
  # A release of Cluster API sets the image in the same way; nothing is pulled here.
  bin/localkube kubectl kustomize "$module/$2/config/default" |
    sed -e "s|image: gcr.io/k8s-staging-cluster-api/$3:.*|image: $image:v$version|" -e 's|imagePullPolicy: Always|imagePullPolicy: Never|' >"$dir/$4"
}

rm -rf "$out"
pack cluster-api core cluster-api-controller core-components.yaml
pack bootstrap-kubeadm bootstrap/kubeadm kubeadm-bootstrap-controller bootstrap-components.yaml
pack control-plane-kubeadm controlplane/kubeadm kubeadm-control-plane-controller control-plane-components.yaml

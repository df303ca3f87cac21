#!/usr/bin/env bash
# Writes a release into the folder $1: images, the command line, the chart, manifests, checksums.
#   REGISTRY   host and prefix that the image is pushed to; without it the manifests name $IMAGE
#   ARCHES     architectures of the image
#   PLATFORMS  systems and architectures of the command line
#   RELEASE, IMAGE, LDFLAGS, RELEASE_FLAGS come from the Makefile.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$1
rm -rf "$dir"
mkdir -p "$dir"
host=$(go env GOARCH)

for arch in $ARCHES; do
  binaries="bin/manager bin/machine"
  if [ "$arch" != "$host" ]; then
    echo "building the manager for $arch"
    GOARCH=$arch go build -ldflags "$LDFLAGS" -o "bin/$arch/" ./cmd/manager ./cmd/machine
    binaries="bin/$arch/manager bin/$arch/machine"
  fi
  # shellcheck disable=SC2086 # two paths
  bin/image -format oci -arch "$arch" -tag "$IMAGE" -link mkisofs=machine -share bin/share -out "$dir/drover-image-linux-$arch.tar" $binaries
done

for platform in $PLATFORMS; do
  os=${platform%/*} arch=${platform#*/} suffix=
  [ "$os" = windows ] && suffix=.exe
  echo "building drover for $platform"
  GOOS=$os GOARCH=$arch go build -ldflags "$LDFLAGS" -o "$dir/drover-$os-$arch$suffix" ./cmd/drover
done

# The chart, with the image as its default.
chart=$(mktemp -d)
trap 'rm -rf "$chart"' EXIT
cp -r charts/drover "$chart/"
sed -i "s|^image: \"\"|image: \"$IMAGE\"|" "$chart/drover/values.yaml"
tar -C "$chart" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf - drover | gzip -n >"$dir/drover-${RELEASE#v}.tgz"

bin/manager manifests --machine-image "$IMAGE" >"$dir/drover.yaml"

# Settings that `clusterctl init` takes from the environment stay in the file as variables.
clusterctl=$dir/infrastructure-drover/$RELEASE
mkdir -p "$clusterctl"
# shellcheck disable=SC2016,SC2086 # clusterctl reads the variables; RELEASE_FLAGS are several flags
bin/manager manifests --with-crds --capi=external --machine-image "$IMAGE" --server-url '${DROVER_SERVER_URL:=}' \
  --agents-service-type '${DROVER_AGENTS_SERVICE_TYPE:=ClusterIP}' $RELEASE_FLAGS >"$clusterctl/infrastructure-components.yaml"
cp charts/metadata.yaml charts/clusterctl/*.yaml "$clusterctl/"

(cd "$dir" && find . -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS)
echo "wrote $dir:"
(cd "$dir" && find . -type f -printf '  %P\n' | sort)

#!/usr/bin/env bash
# Installs what building and testing need on a Debian machine, as root: Debian packages, and Go when there is none.
# What is already there is left alone, so a second run touches nothing and needs no network.
set -euo pipefail

packages=(
  build-essential ca-certificates git openssh-client
  openssh-server # tests start it on loopback for themselves
  containerd runc containernetworking-plugins iptables conntrack iproute2   # real containers
  debootstrap systemd-container                                             # real servers
  curl wget # the install script goes by either
)
go_version=1.26.8 # what the module asks for; only fetched where no Go >= 1.26 is found
go_home=/usr/local/lib/drover-go

say() { printf '  %s\n' "$*" >&2; }

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done

go_new_enough() {
  command -v go >/dev/null 2>&1 || return 1
  local version
  version=$(GOTOOLCHAIN=local go env GOVERSION 2>/dev/null) || return 1
  # From 1.21 on, go itself fetches the toolchain that go.mod names.
  dpkg --compare-versions "${version#go}" ge 1.21
}

need_go=
if ! go_new_enough && [ ! -x "$go_home/bin/go" ]; then
  need_go=yes
  command -v go >/dev/null 2>&1 || missing+=(golang-go)
fi

if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" != 0 ]; then
    say "these Debian packages are missing: ${missing[*]}"
    say "run again as root, or install them yourself"
    exit 1
  fi
  say "installing Debian packages: ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
  # Drover starts its own containerd with its own configuration; the system's is not needed.
  if command -v systemctl >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
    systemctl disable --now containerd >/dev/null 2>&1 || true
    # Nor does anybody want a way in that was not there before.
    [[ " ${missing[*]} " != *" openssh-server "* ]] || systemctl disable --now ssh >/dev/null 2>&1 || true
  fi
fi

if [ -n "$need_go" ]; then
  say "fetching Go $go_version through the Go module proxy"
  # Any old go can download the toolchain module; it only lacks the executable bits.
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  (cd "$scratch" && go mod init scratch >/dev/null 2>&1 &&
    GOFLAGS=-modcacherw GONOSUMDB='' go mod download -json \
      "golang.org/toolchain@v0.0.1-go$go_version.linux-$(dpkg --print-architecture)" >"$scratch/module.json")
  dir=$(sed -n 's/^\t"Dir": "\(.*\)",\{0,1\}$/\1/p' "$scratch/module.json")
  [ -n "$dir" ] || { say "the Go toolchain could not be downloaded; install Go $go_version yourself"; exit 1; }
  mkdir -p "$go_home"
  cp -r "$dir/." "$go_home/"
  chmod -R u+w "$go_home"
  chmod +x "$go_home"/bin/* "$go_home"/pkg/tool/*/*
fi

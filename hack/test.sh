#!/usr/bin/env bash
# Runs the tests: all of them, or those named: verify, unit, load, fuzz, install, e2e, soak, bench.
# All they print is kept in bin/test.log, and what failed is told once more at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
log=bin/test.log
failed=0

section() { printf '\n== %s\n' "$*"; }

# timed runs a stage and tells how it ended and how long it took.
timed() {
  local begin=$SECONDS all=$failed end=passed
  failed=0
  "$1"
  ((failed)) && end=failed
  failed=$((all | failed))
  printf '%s %s after %ds\n' "$1" "$end" $((SECONDS - begin)) | tee -a bin/times
}

verify() {
  section "generated files, modules and linters"
  make --no-print-directory verify || failed=1
}

# gotest leaves out vet, which is one of the linters, and what debuggers need, which takes longer to link than many a test to run.
gotest() { go test -vet=off -ldflags=-s "$@"; }

# Packages that wait for long go first: at the end they would wait alone.
unit_packages() {
  go list ./jobrunner/operation ./e2e/move ./capi ./cmd/manager ./controllers/machine ./controllers/nodedriver
  go list ./... | grep -vE '/e2e(/bench|/faults)?$'
}

# unit runs the tests of the other modules beside the first packages of ours: localkube's wait a minute for their cluster.
unit() {
  { (cd localkube && gotest -timeout 10m ./...) && (cd e2e/helm && gotest -timeout 10m ./...) && GOOS=windows go build -o bin/drover-agent.exe ./cmd/agent; } >bin/others.log 2>&1 &
  section "unit tests and tests against a real API server"
  # Half of their time they wait, for a Job or a clock: three at once is what two cores carry beside their API servers.
  gotest -p 3 -timeout 15m $(unit_packages) || failed=1
  wait $! || failed=1
  section "localkube's own tests, the chart, rendered by Helm, and an agent for Windows"
  cat bin/others.log
}

# load has what fills the machine, each alone: how many requests a machine costs depends on how busy the machine is.
load() {
  section "what a machine costs, and the first runs of the fault matrix"
  gotest -p 1 -timeout 30m ./e2e/bench ./e2e/faults || failed=1
  DROVER_LOAD=1 gotest -count=1 -timeout 10m -run TestAttacks_together ./cmd/manager || failed=1
}

# fuzz takes a third of the folders, another one from commit to commit: to build them all takes two minutes. What was ever found is a seed, and those
# are part of the unit tests.
fuzz() {
  local part=$((16#$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0) % 3))
  section "fuzz targets, ${FUZZTIME:=3s} each, part $part of 0 to 2"
  FUZZPART=$part/3 FUZZTIME=$FUZZTIME ./hack/fuzz.sh || failed=1
}

# install has a Kubernetes of its own, and so runs before the testbed of the stories.
install() {
  section "a release, pushed to a registry and installed with Helm and with kubectl"
  DROVER_E2E=1 gotest -count=1 -timeout 15m -v ./e2e/install || failed=1
}

e2e() {
  section "stories on real containers and real servers, then Cluster API's validators on the same testbed"
  DROVER_E2E=1 gotest -count=1 -timeout 90m -parallel 4 -v ${STORY:+-run "(Stories|Kinds|Outages|WithKubeadm)/$STORY"} ./e2e || failed=1
}

# soak has the long forms of the stories, more runs of the fault matrix, and all fuzz targets for longer.
soak() {
  section "fuzz targets, ${FUZZTIME:=30s} each"
  FUZZTIME=$FUZZTIME ./hack/fuzz.sh || failed=1
  section "500 runs of the fault matrix"
  make --no-print-directory faults SEEDS=500 || failed=1
  section "the long forms of the stories"
  DROVER_SOAK=1 e2e
}

# huge_pages lets the kernel give memory in pages of 2 MiB until the tests have ended. In a virtual machine a page fault is dear: an API server of a test
# takes 3.7 s of CPU time until it is ready, and 5.3 s with pages of 4 KiB.
huge_pages() {
  local setting=/sys/kernel/mm/transparent_hugepage/enabled before
  [ -w $setting ] || return 0
  before=$(sed -E 's/.*\[(.*)\].*/\1/' $setting)
  trap "echo $before >$setting" EXIT
  echo always >$setting
}

bench() {
  gotest -p 1 -run '^$' -bench . -benchtime 1x -benchmem -timeout 200m $(unit_packages) ./e2e/bench || failed=1
}

suite() {
  case $what in
  all)
    # To make the servers' root file system takes minutes, most of them for disks and downloads: it is there when the stories begin.
    bin/localcloud rootfs build --rootfs-dir .drover/cache/rootfs >bin/rootfs.log 2>&1 &
    for stage in verify unit load fuzz install e2e; do timed $stage; done
    ;;
  *) timed "$what" ;;
  esac
  return $failed
}

# failures picks out of the log what failed, each with the first lines of its reason; a story's stand before it, and of verify it is the end.
failures() {
  grep -q '^verify failed' bin/times && sed '/^verify failed after/q' "$log" | tail -n 40
  grep -aE -B 12 '^ *FAIL: testdata/' "$log" | cut -c 1-300 | head -n 60
  grep -aE -A 5 '^# |^ *--- FAIL: |^FAIL[[:blank:]]|^panic: |^fatal error: ' "$log" |
    grep -avE '^--$|^ok|^=== |^ *--- PASS|^FAIL$' | head -n 60
}

case $what in
all | verify | unit | load | fuzz | install | e2e | soak | bench) ;;
*)
  echo "usage: hack/test.sh [all|verify|unit|load|fuzz|install|e2e|soak|bench]" >&2
  exit 2
  ;;
esac
mkdir -p bin
: >bin/times
[ "$what" = bench ] || huge_pages # what was measured before was measured without them
suite 2>&1 | tee "$log"
failed=${PIPESTATUS[0]}
section "where the time went"
cat bin/times
if [ "$failed" = 0 ]; then
  section "all passed"
else
  section "failed"
  failures
  section "some failed; everything they printed: $log"
fi
exit "$failed"

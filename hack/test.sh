#!/usr/bin/env bash
# Runs the tests: all of them, or those named: unit, fuzz, e2e, bench. Ends with go test's own summary.
set -uo pipefail
cd "$(dirname "$0")/.."
what=${1:-all}
failed=0

section() { printf '\n== %s\n' "$*"; }
run() {
  section "$*"
  "$@" || failed=1
}

unit_packages() { go list ./... | grep -vE '/e2e$'; }

case $what in
all | unit)
  run go vet ./...
  section "unit tests and tests against a real API server"
  # Two packages at once is what two cores carry beside their API servers.
  go test -p 2 -timeout 15m $(unit_packages) || failed=1
  section "localkube's own tests"
  (cd localkube && go test -timeout 10m ./...) || failed=1
  section "the chart, rendered by Helm"
  (cd e2e/helm && go test -timeout 10m ./...) || failed=1
  ;;&
all | fuzz)
  section "fuzz targets, ${FUZZTIME:=10s} each"
  FUZZTIME=$FUZZTIME ./hack/fuzz.sh || failed=1
  ;;&
all | e2e)
  section "stories on real containers and real servers, then Cluster API's validators on the same testbed"
  DROVER_E2E=1 go test -count=1 -timeout 60m -v ${STORY:+-run "Stories/$STORY"} ./e2e || failed=1
  ;;&
bench)
  go test -p 1 -run '^$' -bench . -benchtime 1x -benchmem -timeout 150m $(unit_packages) || failed=1
  ;;
all | unit | fuzz | e2e) ;;
*)
  echo "usage: hack/test.sh [all|unit|fuzz|e2e|bench]" >&2
  exit 2
  ;;
esac
[ $failed = 0 ] && section "all passed" || section "some failed: see above"
exit $failed

#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (30s), FUZZJOBS (2) at a time, or those whose "folder name" matches the regexp given:
#   FUZZTIME=5m hack/fuzz.sh '^crdgen Fuzz'
# FUZZPART=1/3 takes only the folders of the second of three parts.
# Only our own packages are instrumented, not Kubernetes under them as `go test -fuzz` would: minutes of compiling become seconds,
# and inputs count as new that reach more of our own code. Corpora and crashers are kept where `go test -fuzz` keeps them.
set -uo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
[[ " ${GOFLAGS:-} " == *" -trimpath "* ]] || export GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"
export FUZZTIME=${FUZZTIME:-30s}
FUZZCACHE=$(go env GOCACHE)/fuzz
BINARIES=$PWD/bin/fuzz
export FUZZCACHE BINARIES

# targets lists them, one "folder name" in a line.
targets() {
  grep -rHoE --include='*_test.go' --exclude-dir='.?*' '^func Fuzz[A-Za-z0-9_]+' . |
    sed -E 's|^(\./)?(.*)/[^/]+:func |\2 |' | sort -u | part "${FUZZPART:-0/1}" | grep -E -- "$1"
}

part() { # which/of how many
  awk -v which="${1%/*}" -v parts="${1#*/}" '!($1 in number) { number[$1] = count++ } number[$1] % parts == which'
}

binary() { printf '%s/%s.test' "$BINARIES" "${1//\//-}"; }

build() { # folder; in it, for some are of another module
  (cd "$1" && go test -c -ldflags '-s -w' -gcflags 'github.com/drover-project/drover/...=-d=libfuzzer' -o "$(binary "$1")" .)
}

# figures are the last numbers that a run told.
figures() { # log
  awk '/, execs: [0-9]/ {
      for (i = 1; i < NF; i++) {
        if ($i == "execs:") count = $(i + 1)
        if ($i == "interesting:") fresh = $(i + 1)
        if ($i == "(total:") total = $(i + 1) + 0
      }
    }
    END { printf "%9d execs, %3d new of %4d interesting", count, fresh, total }' "$1"
}

run() { # folder, name, log
  local path
  path=$(go list .) && "$(binary "$1")" -test.run '^$' -test.fuzz "^$2\$" -test.fuzztime "$FUZZTIME" -test.fuzzminimizetime 1s \
    -test.parallel 1 -test.fuzzcachedir "$FUZZCACHE/$path" >"$3" 2>&1
}

# A process that gets no CPU for ten seconds looks to Go like one that hangs, so what is said to hang has to hang twice.
again() { # folder, name, log
  local input
  grep -qE 'hung or terminated unexpectedly|communicating with fuzzing process' "$3" || return 1
  input=$(sed -n 's|.*input written to ||p' "$3")
  run "$@" || return 1
  [ -z "$input" ] || rm -f "$input"
}

# Before 1.27 Go now and then calls the end of the time a failure (go.dev/issue/75804): it names no input then.
late() { # log
  grep -qE '^ *context deadline exceeded$' "$1" && ! grep -q 'input written to' "$1"
}

fuzz() { # folder, name
  local log ended=ok
  log=$(mktemp)
  cd "$1" || return 1
  run "$@" "$log" || late "$log" || again "$@" "$log" || ended=FAIL
  printf '%-4s %-30s %-18s %s\n' $ended "$1" "$2" "$(figures "$log")"
  # Go's own words end with the crasher's file and how to repeat it.
  [ $ended = ok ] || sed -E "/^fuzz: elapsed/d; s|^( *)go test (-run.*)|\1(cd $1 \&\& go test \2)|; s|^|     |" "$log"
  rm -f "$log"
  [ $ended = ok ]
}

export -f fuzz run late again figures binary
list=$(targets "${1:-}") || { echo "no fuzz target matches ${1:-}" >&2; exit 2; }
mkdir -p "$BINARIES"
started=$SECONDS
for folder in $(cut -d' ' -f1 <<<"$list" | sort -u); do
  build "$folder" || { echo "FAIL $folder: the tests do not build"; exit 1; }
done
printf 'built in %ds; fuzzing %d targets for %s each\n' $((SECONDS - started)) "$(wc -l <<<"$list")" "$FUZZTIME"
xargs -P "${FUZZJOBS:-2}" -L 1 bash -c 'fuzz "$0" "$1"' <<<"$list"
[ $? = 0 ] && echo "every target ran clean in $((SECONDS - started))s" || { echo "some failed: see above"; exit 1; }

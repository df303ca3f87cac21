#!/usr/bin/env bash
# Runs every fuzz target for FUZZTIME (default 30s), one after the other.
set -uo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0
failed=0
while IFS=: read -r file target; do
  package=./$(dirname "$file")
  printf '== %s %s\n' "$package" "$target"
  # In its own folder, for some packages are in a module of their own.
  (cd "$package" && go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" .) || failed=1
done < <(grep -rnoE --include='*_test.go' 'func (Fuzz[A-Za-z0-9_]+)' . | sed -E 's/^\.\/([^:]+):[0-9]+:func (Fuzz.*)$/\1:\2/' | sort -u)
exit $failed

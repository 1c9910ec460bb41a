#!/usr/bin/env bash
# Runs tests through gotestsum and repeats each failed test once. A test that fails twice fails the run; one that passes the second time
# is flaky, and is listed in bin/reruns/<name>.txt. If more than five tests fail, none is repeated.
# Usage: gotest.sh <gotestsum> <name> <packages> <arguments of go test>
set -euo pipefail

gotestsum=$1 name=$2 packages=$3
shift 3
reports=$(dirname "${BASH_SOURCE[0]}")/../bin/reruns
report=$reports/$name.txt
mkdir -p "$reports"
: >"$report"
output=$(mktemp)
trap 'rm -f "$output"' EXIT
status=0
"$gotestsum" --format standard-quiet --rerun-fails=1 --rerun-fails-max-failures=5 --rerun-fails-report "$report" \
  --packages "$packages" -- "$@" 2>&1 | tee "$output" || status=$?
# A package can fail although none of its tests does, for example in TestMain. gotestsum repeats such a package without any test, which
# proves nothing, and then succeeds. Its report names the package with an empty test, or not at all. A package that has only benchmarks
# runs no tests either, but does not fail before.
repeated=$(awk '$1 == "FAIL" && NF > 1 { failed[$2] = 1 } $1 == "ok" && failed[$2] && /\[no tests to run\]/ { print $2 }' "$output")
if grep -E '\.: [0-9]+ runs' "$report" || [[ -n $repeated ]]; then
  echo "$repeated"
  echo "$0: these packages failed outside of their tests, which cannot be repeated" >&2
  exit 1
fi
exit "$status"

#!/usr/bin/env bash
# Vets and tests every module: tools/test.sh RACE MODULE... The root module, ".", and the
# others are tested side by side, since many of their tests wait for servers and browsers.
set -euo pipefail

race=$1
shift
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

check() { # module
  local failed=0
  cd "$1"
  echo "--- go vet $1"
  go vet ./... || failed=1
  echo "--- go test $1"
  go test -vet=off ${race:+"$race"} -shuffle=on -timeout 10m ./... || failed=1
  return "$failed"
}

nested() { # module...
  local failed=0
  for m in "$@"; do
    (check "$m") >"$logs/nested" 2>&1 || failed=1
    cat "$logs/nested" # whole: it does not mix with what the root module prints
  done
  return "$failed"
}

failed=0
nested "${@:2}" &
if [ -n "$race" ]; then
  echo "--- go test ./state: all random programs, of which the race detector sees a quarter"
  go test -shuffle=on ./state || failed=1
fi
(check "$1") || failed=1
wait $! || failed=1
exit "$failed"

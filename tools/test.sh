#!/usr/bin/env bash
# Tests every module: tools/test.sh RACE PLAIN MODULE... RACE is the flag for the race detector;
# the modules listed in PLAIN are tested without it. If the variable CAMPAIGNS is set and empty,
# campaigns run only a sample of their cases.
#
# Many tests wait for servers, processes, browsers and timers, so more tests run at once than there
# are processors: those of the root module, ".", in two parts, and those of two other modules. They
# are not more, because a test that gets a small part of a processor's time takes servers and
# browsers for dead. Nothing is vetted here: `make lint` and `make vet` do that.
set -euo pipefail

race=$1 plain_modules=" $2 "
shift 2

# Packages of the root module that start no goroutines. The race detector would find nothing in
# them, and tests with it take five times as long and need builds of their own.
plain=(
  ./config ./examples/seeds/... ./internal/callsite ./internal/errtree ./internal/nearest ./internal/runcopy
  ./policy/window ./record/redact ./snapshot/diff ./snapshot/internal/blocks ./streamer/internal/wire
  ./streamer/vocabulary
)
# By default, a program with the race detector sleeps for a second before it ends.
export GORACE="atexit_sleep_ms=0 ${GORACE-}"

# The compiler and the linker take a sixth less time if they collect garbage less often, and
# campaigns without the race detector a third less. Other tests do not get faster, and run with the
# default.
export GOGC=400

run() { # arguments of go test
  go test -exec "env GOGC=${gogc-100}" -vet=off -shuffle=on -timeout 40m "$@"
}
processors=$(getconf _NPROCESSORS_ONLN)

logged() { # title command...: prints the output at the end, so that it does not mix with others
  local log status=0
  log=$(mktemp)
  "${@:2}" >"$log" 2>&1 || status=$?
  echo "--- $1"
  cat "$log"
  rm "$log"
  return "$status"
}

nested() { # module
  local detector=$race parallel=$processors
  [[ $plain_modules == *" $1 "* ]] && detector=
  [ "$1" = ./tests/browser ] && parallel=$((2 * processors)) # its tests wait for browsers
  (cd "$1" && logged "go test $1" run -parallel "$parallel" ${detector:+"$detector"} ./...)
}

root() {
  local failed=0 all without
  if [ -z "$race" ]; then
    run -p $((processors + 1)) ./...
    return
  fi
  all=$(go list ./...)
  without=$(go list "${plain[@]}")
  gogc=$GOGC logged "go test: packages without concurrency, and campaigns with all cases (testkit.Seeds)" \
    run -p 1 ${CAMPAIGNS-./snapshot/filestore ./state} "${plain[@]}" &
  echo "--- go test -race: the other packages, and campaigns with a sample of their cases"
  # Those that take the longest come first; the others fill the gaps.
  # shellcheck disable=SC2046 # a package each
  run -p "$processors" "$race" ./snapshot/filestore ./state ./streamer ./runner ./snapshot $(grep -vxF "$without" <<<"$all") || failed=1
  wait $! || failed=1
  return "$failed"
}

starts=$(cd "$1" && grep -nE '(^|[^"[:alnum:]_])go (func|[[:alnum:]_.]+)\(|\.Go\(|t\.Parallel\(' \
  $(go list -f '{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}} {{end}}{{range .TestGoFiles}}{{$d}}/{{.}} {{end}}{{range .XTestGoFiles}}{{$d}}/{{.}} {{end}}' "${plain[@]}") || true)
if [ -n "$starts" ]; then
  printf 'test: these lines start goroutines, in packages that tools/test.sh lists as starting none:\n%s\n' "$starts"
  exit 1
fi

# Compile first what all modules import. Otherwise, go commands that run at the same time would
# each compile it.
(cd "$1" && go list -export ${race:+"$race"} ./... >/dev/null && go list -export ./... >/dev/null)

export race plain_modules processors
export -f logged nested run
# Those that take the longest come first.
longest=(./tests/browser ./adapters/jetstream ./adapters/postgres)
printf '%s\n' "${longest[@]}" "${@:2}" | awk '!seen[$0]++' | grep -xF "$(printf '%s\n' "${@:2}")" | xargs -r -P 2 -I{} bash -euo pipefail -c 'nested {}' &
failed=0
(cd "$1" && root) || failed=1
wait $! || failed=1
exit "$failed"

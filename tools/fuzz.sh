#!/usr/bin/env bash
# Runs every Fuzz function of the module in the current directory for a while,
# and fails if one of them fails: tools/fuzz.sh [FUZZTIME]
set -euo pipefail

fuzztime=${1:-10s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# Found in the source: listing them by go test would link every test of the module.
targets=$(grep -r --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's|/[^/]*_test\.go:func | |' |
  while read -r dir name; do
    # A nested module runs its own; here they could not be built.
    d=$dir
    while [ "$d" != . ] && [ ! -f "$d/go.mod" ]; do d=$(dirname "$d"); done
    [ "$d" = . ] && echo "$dir $name"
  done | sort)
if [ -z "$targets" ]; then
  echo "fuzz: no Fuzz functions"
  exit 0
fi

fuzz() { # package, function
  go test -vet=off -run='^$' -fuzz="^$2\$" -fuzztime="$fuzztime" "$1" 2>&1 | tee "$log"
}

# Before Go 1.27 the fuzzing engine may fail at the end of its time with nothing
# but "context deadline exceeded" (go.dev/issue/75804). A real finding says more.
is_deadline_race() {
  grep -q '^ *context deadline exceeded$' "$log" &&
    ! grep -q -e 'Failing input written' -e 'panic:' -e '_test\.go:' "$log"
}

failed=()
while read -r pkg name; do
  echo "--- fuzz $pkg $name ($fuzztime)"
  fuzz "$pkg" "$name" && continue
  if is_deadline_race; then
    echo "--- fuzz $pkg $name: the engine missed its deadline, and found nothing"
    continue
  fi
  failed+=("$pkg $name")
done <<<"$targets"

if [ ${#failed[@]} -gt 0 ]; then
  printf 'fuzz: FAILED %s\n' "${failed[@]}"
  exit 1
fi
echo "fuzz: $(wc -l <<<"$targets") functions, none failed"

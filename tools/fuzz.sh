#!/usr/bin/env bash
# Runs the Fuzz functions of all modules for a while each, and fails if one of them fails:
# tools/fuzz.sh [FUZZTIME [PART/PARTS]]
#
# With PART/PARTS, such as 2/4, only every fourth package is fuzzed, beginning with the second one.
# Each package is in exactly one part.
set -euo pipefail

fuzztime=${1:-10s}
part=${2:-1/1}
if ! [[ $part =~ ^([1-9][0-9]*)/([1-9][0-9]*)$ ]] || ((BASH_REMATCH[1] > BASH_REMATCH[2])); then
  echo "fuzz: the part is $part; want one such as 2/4" >&2
  exit 2
fi
first=${BASH_REMATCH[1]} step=${BASH_REMATCH[2]}
export GOGC=400 # as in tools/test.sh
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
log=$scratch/log

# Found in the source: listing them by go test would link every test of the module.
targets=$(grep -r --include='*_test.go' --exclude-dir=node_modules -o '^func Fuzz[A-Za-z0-9_]*' . |
  sed -E 's|/[^/]*_test\.go:func | |' | sort)
if [ -z "$targets" ]; then
  echo "fuzz: no Fuzz functions"
  exit 0
fi
packages=$(cut -d ' ' -f 1 <<<"$targets" | uniq | sed -n "$first~${step}p")

# A package is linked once for all its functions. The corpora are where go test keeps them.
fuzz() { # package, function
  (cd "$1" && "$scratch/fuzz.test" -test.run='^$' -test.fuzz="^$2\$" -test.fuzztime="$fuzztime" \
    -test.fuzzcachedir="$corpora/$(go list .)") 2>&1 | tee "$log"
}
corpora=$(go env GOCACHE)/fuzz

# Before Go 1.27 the fuzzing engine may fail at the end of its time with nothing
# but "context deadline exceeded" (go.dev/issue/75804). A real finding says more.
is_deadline_race() {
  grep -q '^ *context deadline exceeded$' "$log" &&
    ! grep -q -e 'Failing input written' -e 'panic:' -e '_test\.go:' "$log"
}

failed=() count=0
for pkg in $packages; do
  names=$(sed -n "s|^$pkg ||p" <<<"$targets")
  # Compiled in its own directory, since it may belong to a nested module.
  if ! (cd "$pkg" && go test -vet=off -c -fuzz=. -o "$scratch/fuzz.test" .); then
    failed+=("$pkg")
    continue
  fi
  for name in $names; do
    count=$((count + 1))
    echo "--- fuzz $pkg $name ($fuzztime)"
    fuzz "$pkg" "$name" && continue
    if is_deadline_race; then
      echo "--- fuzz $pkg $name: the engine missed its deadline, and found nothing"
      continue
    fi
    failed+=("$pkg $name")
  done
done

if [ ${#failed[@]} -gt 0 ]; then
  printf 'fuzz: FAILED %s\n' "${failed[@]}"
  exit 1
fi
echo "fuzz: $count of $(wc -l <<<"$targets") functions, none failed"

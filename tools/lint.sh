#!/usr/bin/env bash
# Checks the format of every file, go.mod of every module, and every module with a linter:
# tools/lint.sh RACE PLAIN LINTER MODULE... RACE and PLAIN are those of tools/test.sh, so that the
# linter finds the packages in the build cache.
set -euo pipefail

race=$1 plain_modules=" $2 " linter=$3
shift 3
failed=0
echo "--- file sizes"
tools/sizes.sh || failed=1
echo "--- gofmt"
unformatted=$(gofmt -l .) || failed=1
if [ -n "$unformatted" ]; then
  printf 'not formatted, run make fmt:\n%s\n' "$unformatted"
  failed=1
fi
for module; do
  echo "--- go mod tidy -diff $module"
  (cd "$module" && go mod tidy -diff) || failed=1
done
export GOGC=400 # as in tools/test.sh
for module; do
  echo "--- $module: ${linter%% -*}"
  detector=$race
  [[ $plain_modules == *" $module "* ]] && detector=
  # shellcheck disable=SC2086 # a command with arguments
  (cd "$module" && GOFLAGS="$(go env GOFLAGS) $detector" $linter) || failed=1
done
exit "$failed"

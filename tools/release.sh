#!/usr/bin/env bash
# Makes a release: tools/release.sh VERSION, such as v0.1.0. What it does and refuses is
# said by `go doc ./release` in this folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec go run ./release "$@"

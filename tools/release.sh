#!/usr/bin/env bash
# Makes a release: tools/release.sh VERSION, such as v0.1.0. `go doc ./release` in this folder says
# what it does and refuses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
exec go run ./release "$@"

#!/usr/bin/env bash
# Refuses files that do not belong in a repository of source code: those above 500 KB, and programs
# that somebody built. It looks at what git tracks, or at every file where there is no git.
set -euo pipefail
export LC_ALL=C # characters are bytes
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit=500000 # bytes

list() { # the files, each ended by a NUL
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    git ls-files -z --cached --others --exclude-standard
  else
    find . \( -path ./.git -o -path ./.bin -o -path ./.cover -o -name node_modules \) -prune -o -type f -print0
  fi
}

failed=0
while IFS= read -r -d '' file; do
  echo "$file has $(wc -c <"$file") bytes; the limit is $limit" >&2
  failed=1
done < <(list | xargs -0 -r sh -c 'find "$@" -maxdepth 0 -type f -size +"$0"c -print0 2>/dev/null || true' "$limit")

# This starts no process for each file, since there are thousands of them.
while IFS= read -r -d '' file; do
  [ -f "$file" ] && [ ! -L "$file" ] || continue
  IFS= read -r -d '' -n 4 first <"$file" || true # up to a NUL
  # The first bytes of programs: ELF, Mach-O and Windows.
  case $first in
  $'\x7fELF' | $'\xfe\xed\xfa\xce' | $'\xfe\xed\xfa\xcf' | $'\xce\xfa\xed\xfe' | $'\xcf\xfa\xed\xfe' | $'\xca\xfe\xba\xbe' | MZ*)
    echo "$file is a program; build it instead of keeping it" >&2
    failed=1
    ;;
  esac
done < <(list)
exit "$failed"

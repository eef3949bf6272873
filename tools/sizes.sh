#!/usr/bin/env bash
# Refuses files that do not belong in a repository of source code: those above 500 KB, and programs
# that somebody built. It looks at what git tracks, or at every file where there is no git.
set -euo pipefail
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
  [ -f "$file" ] && [ ! -L "$file" ] || continue
  size=$(wc -c <"$file")
  if [ "$size" -gt "$limit" ]; then
    echo "$file has $size bytes; the limit is $limit" >&2
    failed=1
  fi
  # The first bytes of programs: ELF, Mach-O, and of Windows.
  case $(head -c 4 "$file" | od -An -tx1 | tr -d ' \n') in
  7f454c46 | feedface | feedfacf | cefaedfe | cffaedfe | cafebabe | 4d5a*)
    echo "$file is a program; build it instead of keeping it" >&2
    failed=1
    ;;
  esac
done < <(list)
exit "$failed"

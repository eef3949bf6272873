#!/usr/bin/env bash
# Records the quickstart as text, in a window of tmux, and puts it into the
# README of the quickstart between the two marks: what its terminal shows in the middle of the
# run, and what is there at the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v tmux >/dev/null; then
  echo "record: tmux is not installed" >&2
  exit 1
fi
work=$(mktemp -d)
window() { tmux -S "$work/tmux" -f /dev/null "$@"; }
trap 'window kill-server 2>/dev/null || true; rm -rf "$work"' EXIT

go build -o "$work/quickstart" ./examples/quickstart
env -u OPENAI_API_KEY -u CI TERM=xterm-256color \
  tmux -S "$work/tmux" -f /dev/null new-session -d -x 150 -y 60 "$work/quickstart; echo the end; exec cat"

await() { # pattern file: waits until the window shows the pattern, and writes its text to the file
  local deadline=$((SECONDS + 30))
  until window capture-pane -p | sed -e 's/ *$//' >"$2" && grep -q "$1" "$2"; do
    if [ "$SECONDS" -gt "$deadline" ]; then
      echo "record: timed out waiting for $1" >&2
      exit 1
    fi
    sleep 0.05
  done
}
await 'get_weather.*(attempt 2/5) in 0\.[4-7]s' "$work/middle"
await '^the end' "$work/end"

{
  echo '<!-- recording begins: tools/record.sh -->'
  echo 'While it runs, a terminal shows this. The last three lines are redrawn as they change:'
  echo
  echo '```text'
  sed -e '/^$/d' "$work/middle" | tail -n 7
  echo '```'
  echo
  echo 'The whole output:'
  echo
  echo '```text'
  sed -e '/^the end/,$d' "$work/end"
  echo '```'
  echo '<!-- recording ends -->'
} >"$work/recording"

awk -v recording="$work/recording" '
  /<!-- recording begins/ { while ((getline line < recording) > 0) print line; skip = 1 }
  !skip { print }
  /<!-- recording ends/ { skip = 0 }
' examples/quickstart/README.md >"$work/README.md"
cat "$work/README.md" >examples/quickstart/README.md

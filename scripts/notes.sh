#!/bin/sh
# Prints what CHANGELOG.md says of a version, for the page of its release: scripts/notes.sh v0.1.0.
# A pre-release such as v0.1.0-rc.1 has the section of the version that it comes before.
set -eu
cd "$(dirname "$0")/.."
version=${1#v}
notes=$(awk -v version="${version%%-*}" '/^## / { on = $2 == version; next } on' CHANGELOG.md)
[ -n "$notes" ] || { echo "CHANGELOG.md has no section '## ${version%%-*}'" >&2; exit 1; }
printf '%s\n' "$notes"

#!/bin/sh
# Writes the lock files anew: every package with its hashes, for Python 3.11 and later.
set -eu
cd "$(dirname "$0")/.."
for set in requirements requirements-demo requirements-dev; do
  constraint=""
  [ "$set" = requirements ] || constraint="-c requirements.lock"
  # shellcheck disable=SC2086
  uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate $constraint -o "$set.lock" "$set.txt"
done

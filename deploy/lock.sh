#!/bin/sh
# Writes the lock files anew: every package with its hashes, for Python 3.11 and later; what nodes need, for 3.10 and later.
set -eu
cd "$(dirname "$0")/.."
for set in requirements requirements-node requirements-client requirements-packages requirements-demo requirements-dev requirements-suites requirements-torch requirements-pycuda requirements-cuda-python requirements-triton; do
  python=3.11 constraint="-c requirements.lock -c requirements-demo.lock"
  case $set in requirements | requirements-torch | requirements-cuda-python | requirements-triton) constraint="" ;; requirements-pycuda) constraint="-c requirements-suites.lock -c requirements-dev.lock" ;; requirements-node) constraint="" python=3.10 ;; requirements-client) constraint="--fork-strategy fewest" python=3.10 ;; requirements-packages) constraint="" ;; requirements-suites) ;; *) constraint="-c requirements.lock" ;; esac
  # shellcheck disable=SC2086
  uv pip compile -q --universal --python-version "$python" --generate-hashes --no-header --no-annotate --emit-find-links $constraint -o "$set.lock" "$set.txt"
done

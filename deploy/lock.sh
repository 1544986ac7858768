#!/bin/sh
# Writes uv.lock and requirements.txt after a change of the groups in pyproject.toml. It keeps versions
# that still fit, the newer one if there are two; `deploy/lock.sh --upgrade` and other options go to uv
# lock. The checkout must be set up, and pypi.org and download.pytorch.org reachable.
set -eu
ROOT=$(cd "$(dirname "$(readlink -f "$0")")/.." && pwd -P)
. "$ROOT/deploy/setup.sh"
"$ROOT/.venv/bin/uv" lock --project "$ROOT" --python "$PYTHON" --default-index https://pypi.org/simple "$@"
{
  echo "# The group appliance of pyproject.toml at the versions of uv.lock. Written by deploy/lock.sh."
  echo "# Install with:  pip install --require-hashes -r requirements.txt"
  export_group appliance
} >"$ROOT/requirements.txt.new"
mv "$ROOT/requirements.txt.new" "$ROOT/requirements.txt"

# Functions that prepare a checkout: system packages, virtual environment, data plane, console.
#
# Sourced by run, test, bench and the gate, which set ROOT; it sets PYTHON. `setup GROUP...` takes every
# step and installs these groups of pyproject.toml beside the appliance's. With FOR_TESTS=1 it also
# installs the packages that only tests need. A step whose inputs are unchanged is skipped, so a set-up
# with nothing to do takes less than a second. An interrupted step runs again the next time. A second
# set-up of the same checkout waits for the first.

LOGS="$ROOT/build/log"
PYTHON="$ROOT/.venv/bin/python"
unset PYTHONDONTWRITEBYTECODE  # each process would compile all modules: seconds instead of tenths
PYTHON_VERSIONS="python3 python3.14 python3.13 python3.12 python3.11"

say() { printf '%s\n' "$*" >&2; }

fail() {
  say "$@"
  exit 1
}

# fail_with_log MESSAGE LOG: the message, the first errors in the log and its name
fail_with_log() {
  say "$1"
  errors=$(grep -iE 'error|FAILED' "$2" | head -5)
  say "${errors:-$(tail -5 "$2")}"
  fail "The whole log is in $2; run the command again when the cause is removed."
}

# Prints the first Python of at least version 3.11.
find_python() {
  for candidate in $PYTHON_VERSIONS; do
    command -v "$candidate" >/dev/null 2>&1 || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
    command -v "$candidate"
    return 0
  done
  return 1
}

# Prints the names of the Debian packages that are missing, each followed by a space.
missing_packages() {
  command -v g++ >/dev/null 2>&1 || printf 'g++ '
  [ -f /usr/include/openssl/ssl.h ] || printf 'libssl-dev '
  [ -e /usr/lib/x86_64-linux-gnu/libzstd.so.1 ] || ldconfig -p 2>/dev/null | grep -q libzstd.so.1 || printf 'libzstd1 '
  [ -z "${FOR_TESTS:-}" ] || missing_test_packages
  venv_is_usable && return 0
  command -v python3 >/dev/null 2>&1 || { printf 'python3 python3-venv ' && return 0; }
  python=$(find_python) && ! "$python" -c 'import ensurepip, venv' 2>/dev/null && printf 'python3-venv '
  return 0
}

# A browser; an SSH client for Ansible; dpkg-shlibdeps for the package of a node; GoogleTest; clang
# and llvm for the fuzzers; PostgreSQL; slapd; Python.h, with which Triton compiles its launcher;
# debootstrap for root file systems, as root only.
missing_test_packages() {
  if grep -qx 'ID=debian' /etc/os-release 2>/dev/null; then browser=chromium-headless-shell; else browser=chromium; fi
  command -v $browser >/dev/null 2>&1 || printf '%s ' $browser
  command -v ssh >/dev/null 2>&1 || printf 'openssh-client '
  command -v dpkg-shlibdeps >/dev/null 2>&1 || printf 'dpkg-dev '
  [ -f /usr/include/gtest/gtest.h ] || printf 'libgtest-dev '
  ls /usr/include/python3*/Python.h >/dev/null 2>&1 || printf 'python3-dev '
  command -v clang++ >/dev/null 2>&1 || printf 'clang '
  ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || printf 'libclang-rt-dev '
  command -v llvm-cov >/dev/null 2>&1 || printf 'llvm '
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || printf 'postgresql '
  [ -x /usr/sbin/slapd ] || printf 'slapd '
  [ "$(id -u)" = 0 ] || return 0
  command -v debootstrap >/dev/null 2>&1 || [ -x /usr/sbin/debootstrap ] || printf 'debootstrap '
}

install_packages() {
  wanted=$(missing_packages)
  [ -n "$wanted" ] || return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    fail "System packages are missing. Install them as root with:  apt-get install -y $wanted"
  fi
  say "set-up: installing system packages: $wanted"
  # shellcheck disable=SC2086
  { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates $wanted; } \
    >"$LOGS/apt.log" 2>&1 || fail_with_log "apt-get could not install: $wanted" "$LOGS/apt.log"
}

# False for an environment that is incomplete, was moved or copied, or whose Python is gone: pip's
# programs hold the absolute path at which it was made. pyvenv.cfg records that path.
venv_is_usable() {
  venv=$(cd "$ROOT/.venv" 2>/dev/null && pwd -P) || return 1
  grep -q "^command = .* $venv\$" "$venv/pyvenv.cfg" 2>/dev/null || return 1
  "$venv/bin/python" -c 'import pip' 2>/dev/null
}

make_venv() {
  venv_is_usable && return 0
  python=$(find_python) || fail "Python 3.11 or later is required; this machine has $(python3 --version 2>&1). Install one as root with:  apt-get install -y python3.11 python3.11-venv"
  say "set-up: creating the virtual environment"
  rm -rf "$ROOT/.venv"
  "$python" -m venv "$ROOT/.venv" >"$LOGS/venv.log" 2>&1 || fail_with_log "The virtual environment could not be created." "$LOGS/venv.log"
}

# requirements_of GROUP: the file with the versions and hashes of a group. That of the appliance is
# committed: it has uv, which exports the others from uv.lock.
requirements_of() {
  if [ "$1" = appliance ]; then echo "$ROOT/requirements.txt"; else echo "$ROOT/build/groups/$1.txt"; fi
}

# export_group GROUP: prints the versions and hashes of a group in uv.lock, without a network
export_group() {
  "$ROOT/.venv/bin/uv" export -q --project "$ROOT" --python "$PYTHON" --frozen --offline --no-cache \
    --no-header --no-annotate --only-group "$1"
}

# The files of requirements_of, if uv.lock changed since they were written. uv would install from the
# lock by itself, but does not read the configuration of pip, which may name another index.
export_groups() {
  exported="$ROOT/build/groups"
  cmp -s "$ROOT/uv.lock" "$exported/uv.lock" && return 0
  mkdir -p "$exported"
  for group in $(sed -n '/^\[dependency-groups\]/,/^\[/{/^appliance /d;s/^\([a-z-]*\) = \[$/\1/p}' "$ROOT/pyproject.toml"); do
    export_group "$group" >"$(requirements_of "$group")" 2>"$LOGS/uv.log" || fail_with_log "uv could not export the group $group." "$LOGS/uv.log"
  done
  cp "$ROOT/uv.lock" "$exported/uv.lock"
}

# install_group GROUP: its packages, if they changed since their last installation. Python compiles the
# modules that it imports; pip would compile all of them.
install_group() {
  installed="$ROOT/.venv/installed-$1"
  cmp -s "$(requirements_of "$1")" "$installed" && return 0
  say "set-up: installing the Python packages of the group $1"
  install_packages_of "$(requirements_of "$1")" "$1"
  cp "$(requirements_of "$1")" "$installed"
}

# install_packages_of FILE NAME: the packages of a file of requirements
install_packages_of() {
  "$PYTHON" -m pip install -q --disable-pip-version-check --no-compile --require-hashes -r "$1" >"$LOGS/pip-$2.log" 2>&1 \
    || fail_with_log "pip could not install the group $2." "$LOGS/pip-$2.log"
}

# The packages that build the data plane. In a new environment its build starts with them, and the
# others are installed beside it; installed ones must not be replaced while it runs.
install_build_packages() {
  [ ! -e "$ROOT/.venv/installed-appliance" ] || { install_group appliance && return 0; }
  say "set-up: installing the Python packages that the data plane needs"
  awk '/^[a-z]/ { wanted = /^(cmake|ninja|nvidia-cuda-runtime|nvidia-nvml-dev)==/ } wanted' \
    "$ROOT/requirements.txt" >"$LOGS/build.txt"
  install_packages_of "$LOGS/build.txt" build
}

# fingerprint FIND-ARGUMENTS: a checksum of the names and contents of the files that find(1) prints, from ROOT
fingerprint() {
  (cd "$ROOT" && find "$@" -type f -print0 2>/dev/null | LC_ALL=C sort -z | xargs -0 sha1sum | sha1sum)
}

# unchanged STAMP INPUTS: whether the last successful run of a step had these inputs
unchanged() { [ -f "$1" ] && [ "$(cat "$1")" = "$2" ]; }

# record STAMP INPUTS: a step succeeded
record() {
  mkdir -p "$(dirname "$1")"
  printf '%s\n' "$2" >"$1"
}

# CMake stores absolute paths, so a build folder is usable only where it was configured.
build_is_configured() {
  cache="$1/CMakeCache.txt"
  [ -f "$1/build.ninja" ] \
    && grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT/remoting" "$cache" \
    && grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$1" "$cache" \
    && [ -f "$(sed -n 's/^CUDA_INCLUDE:PATH=//p' "$cache")/cuda.h" ]
}

configure_remoting() {
  folder=$1
  shift
  include=$("$PYTHON" -c 'import pathlib, nvidia; print(next(p for b in nvidia.__path__ for p in pathlib.Path(b).glob("*/include") if (p / "cuda.h").exists()))') || return 1
  rm -rf "$folder"
  "$ROOT/.venv/bin/cmake" -S "$ROOT/remoting" -B "$folder" -G Ninja -DCMAKE_MAKE_PROGRAM="$ROOT/.venv/bin/ninja" \
    -DPython3_EXECUTABLE="$PYTHON" -DCUDA_INCLUDE="$include" "$@"
}

# [TARGETS="..."] build_remoting FOLDER [CMAKE-OPTION...]: the data plane, all of it or the named targets
build_remoting() {
  folder=$1
  shift
  inputs="${TARGETS:-all} $* $(fingerprint remoting tests/null_driver tests/failpoints deploy/demo '(' -path 'remoting/cli' -o -name __pycache__ -o -path 'remoting/bench/*.py' -o -path 'remoting/bench/gpu' ')' -prune -o)"
  build_is_configured "$folder" && unchanged "$folder/inputs" "$inputs" && return 0
  say "set-up: building $(basename "$folder") (minutes the first time)"
  rm -f "$folder/inputs"
  # shellcheck disable=SC2086
  { build_is_configured "$folder" || configure_remoting "$folder" "$@"; } >"$LOGS/build.log" 2>&1 \
    && "$ROOT/.venv/bin/ninja" -C "$folder" ${TARGETS:-all} >>"$LOGS/build.log" 2>&1 \
    || fail_with_log "The data plane could not be built." "$LOGS/build.log"
  record "$folder/inputs" "$inputs"
}

# Programs that only tests start.
build_test_programs() {
  inputs=$(cat "$ROOT/build/remoting/inputs")
  unchanged "$ROOT/build/stamps/test-programs" "$inputs" && return 0
  say "set-up: building the programs of the tests"
  "$ROOT/.venv/bin/ninja" -C "$ROOT/build/remoting" unit_tests softgpu-probe failpoint_programs >"$LOGS/test-programs.log" 2>&1 \
    || fail_with_log "The programs of the tests could not be built." "$LOGS/test-programs.log"
  record "$ROOT/build/stamps/test-programs" "$inputs"
}

# The files that a machine needs to become a node over SSH or Ansible.
build_bundle() {
  inputs="$(cat "$ROOT/build/remoting/inputs") $(fingerprint nodes deploy/bundle.py deploy/groups.py build/groups/node.txt -name __pycache__ -prune -o)"
  unchanged "$ROOT/build/stamps/bundle" "$inputs" && [ -f "$ROOT/build/bundle/programs/digest" ] && return 0
  say "set-up: building the node bundle"
  rm -f "$ROOT/build/stamps/bundle"
  (cd "$ROOT" && "$PYTHON" -m deploy.bundle) >"$LOGS/bundle.log" 2>&1 || fail_with_log "The node bundle could not be built." "$LOGS/bundle.log"
  record "$ROOT/build/stamps/bundle" "$inputs"
}

# Node.js and npm come from PyPI.
install_npm_packages() {
  console="$ROOT/frontend"
  installed="$console/node_modules/.installed"
  cmp -s "$console/package-lock.json" "$installed" && return 0
  say "set-up: installing npm packages"
  (cd "$console" && PATH="$ROOT/.venv/bin:$PATH" npm ci --no-audit --no-fund && cp package-lock.json "$installed") >"$LOGS/npm.log" 2>&1 \
    || fail_with_log "npm ci failed." "$LOGS/npm.log"
}

build_console() {
  install_npm_packages
  inputs=$(fingerprint frontend docs/openapi.yaml busbar_client/fields.json '(' -name node_modules -o -name dist -o -path frontend/src/api/schema.d.ts -o -path frontend/src/api/fields.json ')' -prune -o)
  unchanged "$ROOT/build/stamps/console" "$inputs" && [ -f "$console/dist/index.html" ] && return 0
  say "set-up: building the console"
  rm -f "$ROOT/build/stamps/console"
  (cd "$console" && PATH="$ROOT/.venv/bin:$PATH" npm run build && "$PYTHON" -m whitenoise.compress -q dist) >"$LOGS/console.log" 2>&1 \
    || fail_with_log "The console could not be built." "$LOGS/console.log"
  record "$ROOT/build/stamps/console" "$inputs"
}

# write_command NAME MODULE [ARGUMENT]: a command in build/bin, which passes the argument in front of
# its own ones. It finds the checkout from its own path, adds nothing to the environment of programs
# that it starts, and, with -I, imports nothing from the current folder.
write_command() {
  mkdir -p "$ROOT/build/bin"
  cat >"$ROOT/build/bin/$1.new" <<TEXT
#!/bin/sh
ROOT=\$(cd "\$(dirname "\$(readlink -f "\$0")")/../.." && pwd -P)
exec "\$ROOT/.venv/bin/python" -I -c '
import sys
sys.path.insert(0, sys.argv.pop(1))
from $2 import main
main()' "\$ROOT" ${3:+$3 }"\$@"
TEXT
  chmod +x "$ROOT/build/bin/$1.new"
  mv "$ROOT/build/bin/$1.new" "$ROOT/build/bin/$1"
}

# The commands that an installed client has, see deploy/client_command.py.
write_commands() {
  write_command busbar remoting.cli.main
  write_command busbar-python remoting.cli.interpreter
  write_command busbar-smi remoting.cli.main smi
}

# The wheel of the Python client.
build_client() {
  inputs=$(fingerprint busbar_client deploy/client_wheel.py deploy/client_contents.py docs/guides/python-client.md -name __pycache__ -prune -o)
  unchanged "$ROOT/build/stamps/client" "$inputs" && ls "$ROOT"/build/client/*.whl >/dev/null 2>&1 && return 0
  rm -f "$ROOT/build/stamps/client" "$ROOT"/build/client/*.whl
  (cd "$ROOT" && "$PYTHON" -m deploy.client_wheel) >"$LOGS/client.log" 2>&1 || fail_with_log "The Python client could not be built." "$LOGS/client.log"
  record "$ROOT/build/stamps/client" "$inputs"
}

# The packages that the client's packages contain; tests build those without a network.
fetch_client_wheels() {
  [ "$(cat "$ROOT/build/client-wheels/fetched" 2>/dev/null)" = "$(sha256sum <"$ROOT/build/groups/client.txt" | cut -d' ' -f1)" ] && return 0
  (cd "$ROOT" && "$PYTHON" -c 'from deploy.client_contents import fetched_wheels; fetched_wheels()') >"$LOGS/client-wheels.log" 2>&1 \
    || fail_with_log "The packages of the client could not be fetched." "$LOGS/client-wheels.log"
}

# The documentation, which the appliance serves at /docs/.
build_site() {
  inputs=$(fingerprint docs mkdocs.yml ARCHITECTURE.md CHANGELOG.md SECURITY.md remoting/PROTOCOL.md \
    remoting/cli appliance/api appliance/environment.py deploy/reference.py deploy/error_pages.py \
    -name __pycache__ -prune -o)
  unchanged "$ROOT/build/stamps/site" "$inputs" && [ -f "$ROOT/build/site/index.html" ] && return 0
  say "set-up: building the documentation"
  rm -f "$ROOT/build/stamps/site"
  (cd "$ROOT" && NO_MKDOCS_2_WARNING=1 "$PYTHON" -m mkdocs build -q --clean) >"$LOGS/site.log" 2>&1 \
    || fail_with_log "The documentation could not be built." "$LOGS/site.log"
  record "$ROOT/build/stamps/site" "$inputs"
}

fail_without_access() {
  owner=$(stat -c %U "$ROOT" 2>/dev/null) || owner="another user"
  fail "$(id -un) cannot write to the checkout $ROOT, which belongs to $owner. Clone it into a folder of your own, or run as root:  chown -R $(id -un) '$ROOT'"
}

# lock_checkout: waits for a set-up of the same checkout; unlock_checkout lets the next one start
lock_checkout() {
  { mkdir -p "$LOGS" && (: >>"$LOGS/setup.lock"); } 2>/dev/null || fail_without_access
  exec 9>"$LOGS/setup.lock"
  flock -n 9 && return 0
  say "set-up: another command is setting up this checkout; waiting for it"
  flock 9
}

unlock_checkout() {
  flock -u 9
  exec 9>&-
}

# The identity provider of the tests.
install_test_provider() {
  provider="$ROOT/tests/identity_provider"
  installed="$provider/node_modules/.installed"
  cmp -s "$provider/package-lock.json" "$installed" && return 0
  (cd "$provider" && PATH="$ROOT/.venv/bin:$PATH" npm ci --no-audit --no-fund && cp package-lock.json "$installed") >"$LOGS/npm-provider.log" 2>&1 \
    || fail_with_log "npm ci of the identity provider failed." "$LOGS/npm-provider.log"
}

prepare_python() {
  install_packages 9>&-  # services that a package starts must not inherit the lock
  make_venv
}

# install_groups GROUP...: the appliance's group and these
install_groups() {
  install_group appliance
  export_groups
  for wanted in "$@"; do install_group "$wanted"; done
}

# setup_python GROUP...: packages, virtual environment and npm packages, without building anything
setup_python() {
  lock_checkout
  prepare_python
  install_groups "$@"
  install_npm_packages
  unlock_checkout
}

# What needs nothing of the data plane.
build_beside_the_data_plane() {
  install_groups "$@"
  build_console
  build_site
  build_client
  [ -z "${FOR_TESTS:-}" ] || { install_test_provider && fetch_client_wheels; }
}

# setup GROUP...: everything
setup() {
  lock_checkout
  prepare_python
  install_build_packages
  build_beside_the_data_plane "$@" &
  beside=$!
  build_remoting "$ROOT/build/remoting"
  [ -z "${FOR_TESTS:-}" ] || build_test_programs
  wait "$beside" || exit 1
  build_bundle
  write_commands
  unlock_checkout
}

# Sourced by run, test and bench: system packages, the virtual environment, the build. Idempotent; no root when a compiler is there.
# Sets PYTHON. Wants ROOT (the repository). With FOR_TESTS=1 also what only the tests need. Two at once in one checkout: the second waits.

say() { printf '%s\n' "$*" >&2; }

missing_packages() {
  command -v g++ >/dev/null 2>&1 || printf 'g++ '
  [ -f /usr/include/openssl/ssl.h ] || printf 'libssl-dev '
  find_python >/dev/null || printf 'python3 '
  python=$(find_python) && "$python" -c 'import ensurepip, venv' 2>/dev/null || printf 'python3-venv '
  [ -z "${FOR_TESTS:-}" ] || missing_test_packages
  ldconfig -p 2>/dev/null | grep -q libzstd.so.1 || [ -e /usr/lib/x86_64-linux-gnu/libzstd.so.1 ] || printf 'libzstd1 '
}

# A browser; an SSH client for Ansible; PostgreSQL; clang for the fuzzers; Python.h, which Triton compiles its launcher against; for root, which alone can make root file systems of its own, what makes them.
missing_test_packages() {
  command -v chromium >/dev/null 2>&1 || printf 'chromium '
  command -v ssh >/dev/null 2>&1 || printf 'openssh-client '
  python=$(find_python) && "$python" -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(sysconfig.get_path("include") + "/Python.h"))' || printf 'python3-dev '
  command -v clang++ >/dev/null 2>&1 || printf 'clang '
  ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a >/dev/null 2>&1 || printf 'libclang-rt-dev '
  command -v llvm-cov >/dev/null 2>&1 || printf 'llvm '
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || printf 'postgresql '
  [ "$(id -u)" = 0 ] || return 0
  command -v debootstrap >/dev/null 2>&1 || [ -x /usr/sbin/debootstrap ] || printf 'debootstrap '
}

find_python() {
  for candidate in python3 python3.13 python3.12 python3.11; do
    command -v "$candidate" >/dev/null 2>&1 && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { command -v "$candidate"; return 0; }
  done
  return 1
}

install_packages() {
  wanted=$(missing_packages)
  [ -n "$wanted" ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    say "installing $wanted"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ca-certificates $wanted; } >"$LOGS/apt.log" 2>&1 || { say "apt-get failed; see $LOGS/apt.log"; exit 1; }
  else
    say "Some system packages are missing. As root:  apt-get install -y $wanted"
    exit 1
  fi
}

# One virtual environment; each lock file is installed again only when it changed.
install_lock() {
  mark="$ROOT/.venv/installed-$1"
  cmp -s "$ROOT/$1.lock" "$mark" && return 0
  "$PYTHON" -m pip install -q --disable-pip-version-check --require-hashes -r "$ROOT/$1.lock" >"$LOGS/pip-$1.log" 2>&1 || { say "pip failed; see $LOGS/pip-$1.log"; tail -5 "$LOGS/pip-$1.log" >&2; exit 1; }
  cp "$ROOT/$1.lock" "$mark"
}

# [TARGETS="..."] build_remoting FOLDER [cmake options]: everything, or those targets
build_remoting() {
  folder=$1; shift
  include=$("$PYTHON" -c 'import pathlib, nvidia; print(next(p for b in nvidia.__path__ for p in pathlib.Path(b).glob("*/include") if (p / "cuda.h").exists()))')
  { [ -f "$folder/build.ninja" ] || "$ROOT/.venv/bin/cmake" -S "$ROOT/remoting" -B "$folder" -G Ninja -DCMAKE_MAKE_PROGRAM="$ROOT/.venv/bin/ninja" -DPython3_EXECUTABLE="$PYTHON" -DCUDA_INCLUDE="$include" "$@"; } >"$LOGS/build.log" 2>&1 \
    && "$ROOT/.venv/bin/ninja" -C "$folder" ${TARGETS:-all} >>"$LOGS/build.log" 2>&1 || { say "the build failed; see $LOGS/build.log"; grep -E 'error|FAILED' "$LOGS/build.log" | head -5 >&2; exit 1; }
}

# What a machine needs to become a node over SSH or Ansible.
build_bundle() { cd "$ROOT" && "$PYTHON" -m deploy.bundle >"$LOGS/bundle.log" 2>&1 || { say "the bundle for nodes could not be made; see $LOGS/bundle.log"; tail -3 "$LOGS/bundle.log" >&2; exit 1; }; }

# The console: node and npm come from PyPI; built again when a source or the API's description is newer.
build_console() {
  console="$ROOT/frontend"
  if ! cmp -s "$console/package-lock.json" "$console/node_modules/.installed"; then
    (cd "$console" && PATH="$ROOT/.venv/bin:$PATH" npm ci --no-audit --no-fund && cp package-lock.json node_modules/.installed) >"$LOGS/npm.log" 2>&1 || { say "npm ci failed; see $LOGS/npm.log"; tail -5 "$LOGS/npm.log" >&2; exit 1; }
  fi
  [ -f "$console/dist/index.html" ] && [ -z "$(find "$console/src" "$console/index.html" "$console/vite.config.ts" "$console/package-lock.json" "$ROOT/docs/openapi.yaml" -newer "$console/dist/index.html" ! -name schema.d.ts | head -1)" ] && return 0
  (cd "$console" && PATH="$ROOT/.venv/bin:$PATH" npm run build && "$PYTHON" -m whitenoise.compress -q dist) >"$LOGS/console.log" 2>&1 || { say "the console could not be built; see $LOGS/console.log"; grep -E 'error|TS[0-9]' "$LOGS/console.log" | head -5 >&2; exit 1; }
}

write_command() {
  mkdir -p "$ROOT/build/bin"
  printf '#!/bin/sh\nPYTHONPATH="%s${PYTHONPATH:+:$PYTHONPATH}" exec "%s" -m remoting.cli.main "$@"\n' "$ROOT" "$PYTHON" >"$ROOT/build/bin/busbar"
  chmod +x "$ROOT/build/bin/busbar"
}

setup() {
  LOGS="$ROOT/build/log"
  mkdir -p "$LOGS"
  exec 9>"$LOGS/setup.lock"
  flock -n 9 || { say "another command sets this checkout up; waiting for it"; flock 9; }
  install_packages 9>&-  # a service that a package starts must not keep the lock
  [ -x "$ROOT/.venv/bin/python" ] || "$(find_python)" -m venv "$ROOT/.venv"
  PYTHON="$ROOT/.venv/bin/python"
  for lock in "$@"; do install_lock "$lock"; done
  build_console &
  console=$!
  build_remoting "$ROOT/build/remoting"
  build_bundle
  wait "$console" || exit 1
  write_command
  flock -u 9
  exec 9>&-
}

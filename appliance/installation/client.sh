#!/bin/sh
# Installs the Busbar client from the appliance @URL@.
# Running it again updates the client; it changes nothing else on this machine.
set -eu

URL='@URL@'
CA_SHA256='@CA_SHA256@'
CA_PEM='@CA_PEM@'
DEBIAN='@DEBIAN@'
DEBIAN_SHA256='@DEBIAN_SHA256@'
DEBIAN_KIB='@DEBIAN_KIB@'
ARCHIVE='@ARCHIVE@'
ARCHIVE_SHA256='@ARCHIVE_SHA256@'
ARCHIVE_KIB='@ARCHIVE_KIB@'
INSTALLED_KIB='@INSTALLED_KIB@'
TRIES=8
OTHER_SYSTEM='Use a container or machine with Debian 12, Ubuntu 22.04 or newer.'
OTHER_FOLDER='Choose another folder: sh client.sh --prefix FOLDER'

usage() {
  cat <<TEXT
Usage: sh client.sh [--prefix FOLDER]

Installs the Busbar client of the appliance $URL:
  as root on a Debian system     the package $DEBIAN, with apt-get or dpkg
  as root on other systems       below /usr/local
  as another user                below ~/.local
  with --prefix FOLDER           below FOLDER
The last three need Python 3.10 or later. Each one needs curl or wget.
TEXT
}

fail() {
  printf 'client.sh: %s\n' "$*" >&2
  exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

require_machine() {
  [ "$(uname -s)" = Linux ] || fail "The client needs Linux; this is $(uname -s)."
  [ "$(uname -m)" = x86_64 ] || fail "The client needs x86-64; this machine is $(uname -m)."
  have curl || have wget || fail "curl and wget are missing. Install one of them."
}

require_python() {
  have python3 || fail "python3 is missing. Install Python 3.10 or later."
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
    || fail "Python 3.10 or later is needed; python3 is $(python3 --version 2>&1)."
  libc=$(python3 -c 'import os; print(os.confstr("CS_GNU_LIBC_VERSION"))' 2>/dev/null) || libc=
  case $libc in
    'glibc 2.'[0-9] | 'glibc 2.1'[0-9] | 'glibc 2.2'[0-7]) fail "glibc 2.28 or later is needed; this is $libc. $OTHER_SYSTEM" ;;
    'glibc '*) ;;
    *) fail "The client needs glibc 2.28 or later; this system has another C library, such as musl. $OTHER_SYSTEM" ;;
  esac
  python3 -c 'import _ctypes, _ssl, fcntl, tarfile, zlib' 2>/dev/null \
    || fail "python3 lacks a module of its standard library: _ctypes, _ssl, fcntl, tarfile or zlib. Install all of Python, on Debian: apt-get install python3"
}

# existing FOLDER: FOLDER, or the first one above it that exists
existing() {
  place=$1
  while [ ! -d "$place" ]; do place=$(dirname "$place"); done
  printf '%s' "$place"
}

# require_folder FOLDER: it can be written, and its commands can run
require_folder() {
  place=$(existing "$1")
  [ -w "$place" ] || fail "$1 cannot be written. $OTHER_FOLDER"
  python3 -c 'import os, sys; sys.exit(bool(os.statvfs(sys.argv[1]).f_flag & os.ST_NOEXEC))' "$place" \
    || fail "$1 is on a file system that is mounted noexec: no command can run there. $OTHER_FOLDER"
}

# require_space FOLDER KIB
require_space() {
  have df || return 0
  place=$(existing "$1")
  free=$(df -Pk "$place" | { read -r _ && read -r _ _ _ free _ && printf '%s' "$free"; }) || return 0
  [ "$free" -ge "$2" ] 2>/dev/null || fail "$place has $free KiB left; $2 KiB are needed. Free space first."
}

# fetch_once FILE TARGET: the exit status of curl or wget; their message is in $work/message
fetch_once() {
  if have curl; then
    curl -fsS --cacert "$work/ca.pem" --connect-timeout 20 --max-time 900 -o "$2" "$URL/install/$1" 2>"$work/message"
  else
    wget -nv --tries=1 --timeout=60 --ca-certificate="$work/ca.pem" -O "$2" "$URL/install/$1" 2>"$work/message"
  fi
}

# refuse STATUS: ends for errors that another try does not mend
refuse() {
  if have curl; then case $1 in
    60) status=certificate ;;
    35) [ "$try" -ge 3 ] || return 0; status=certificate ;; # also a CA of the same name
    23) status=space ;;
    *) return 0 ;;
  esac else case $1 in
    5) status=certificate ;;
    3) status=space ;;
    *) return 0 ;;
  esac fi
  [ "$status" = space ] && fail "The package cannot be written to $work: $(cat "$work/message")"
  fail "$URL does not prove that it is this appliance (CA $CA_SHA256). Nothing was installed. $(cat "$work/message")"
}

# fetch FILE TARGET SHA256
fetch() {
  try=1
  until fetch_once "$1" "$2"; do
    refuse "$?"
    [ "$try" -lt "$TRIES" ] || fail "$URL/install/$1 cannot be fetched. Check the network to it, and run this script again. $(cat "$work/message")"
    [ "$try" -gt 1 ] || printf 'client.sh: %s/install/%s cannot be fetched. Trying again.\n' "$URL" "$1" >&2
    sleep "$try"
    try=$((try + 1))
  done
  found=$(sha256_of "$2")
  [ "$found" = "$3" ] && return 0
  fail "$1 has another SHA-256 ($found) than this script names ($3). Nothing was installed. Fetch this script again: the appliance may have a newer client."
}

sha256_of() {
  if have sha256sum; then
    sum=$(sha256sum "$1")
    printf '%s' "${sum%% *}"
  else
    python3 -c 'import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest())' "$1"
  fi
}

install_package() {
  require_space /usr "$INSTALLED_KIB"
  require_space "$work" "$DEBIAN_KIB"
  fetch "$DEBIAN" "$work/$DEBIAN" "$DEBIAN_SHA256"
  chmod 755 "$work"  # apt-get reads the package as a user of its own
  if have apt-get; then
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --reinstall --allow-downgrades \
      -o DPkg::Lock::Timeout=600 "$work/$DEBIAN" \
      || fail "apt-get could not install $DEBIAN. If python3 (3.10 or later) is not available, run: apt-get update"
  else
    dpkg -i "$work/$DEBIAN" || fail "dpkg could not install $DEBIAN. It needs python3 (3.10 or later)."
  fi
  command=/usr/bin/busbar
}

install_archive() {
  require_python
  require_folder "$prefix"
  require_space "$prefix" "$INSTALLED_KIB"
  require_space "$work" "$ARCHIVE_KIB"
  fetch "$ARCHIVE" "$work/$ARCHIVE" "$ARCHIVE_SHA256"
  short=$(printf '%.16s' "$ARCHIVE_SHA256")
  python3 -I - "$work/$ARCHIVE" "$prefix" "$short" <<'PYTHON'
@UNPACK_PY@
PYTHON
  command=$prefix/bin/busbar
}

report() {
  version=$("$command" --version) || fail "$command was installed, but does not start."
  printf '\n%s is installed: %s\n' "$version" "$command"
  case :$PATH: in
    *:"${command%/*}":*) ;;
    *) printf 'Add its folder to your PATH:  export PATH="%s:$PATH"\n' "${command%/*}" ;;
  esac
  printf 'Sign in:  busbar login %s --ca-sha256 %s\n' "$URL" "$CA_SHA256"
}

main() {
  prefix=
  case ${1:-} in
    '') ;;
    -h | --help) usage && exit 0 ;;
    --prefix) prefix=${2:-} && [ -n "$prefix" ] || fail "--prefix needs a folder." ;;
    *) usage >&2 && exit 2 ;;
  esac
  umask 022
  require_machine
  work=$(mktemp -d "${TMPDIR:-/tmp}/busbar-client.XXXXXX") || fail "No temporary folder can be made; set TMPDIR."
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' HUP INT TERM
  printf '%s\n' "$CA_PEM" >"$work/ca.pem" || fail "The temporary folder $work cannot be written."
  if [ -z "$prefix" ] && [ "$(id -u)" = 0 ] && have dpkg && [ "$(dpkg --print-architecture)" = amd64 ]; then
    install_package
  else
    [ -n "$prefix" ] || { [ "$(id -u)" = 0 ] && prefix=/usr/local; } || prefix=${HOME:+$HOME/.local}
    [ -n "$prefix" ] || fail "HOME is not set. $OTHER_FOLDER"
    install_archive
  fi
  report
}

main "$@" # the last line: of a file that was cut, nothing runs

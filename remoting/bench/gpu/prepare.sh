# Sourced by bench on a machine with a GPU and without network. Installs Python packages from the
# node bundle and builds the data plane with the tools of the machine. Sets PYTHON.

prepare() {
  PYTHON=${PYTHON:-python3}
  site="$ROOT/build/gpu-site"
  export PYTHONPATH="$site${PYTHONPATH:+:$PYTHONPATH}"
  if ! "$PYTHON" -c 'import cryptography' 2>/dev/null; then
    wheels="$ROOT/build/bundle/wheels/$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    [ -d "$wheels" ] || {
      say "The Python package cryptography is missing." \
        "Copy build/bundle/wheels from a machine that has run ./run."
      exit 1
    }
    "$PYTHON" -m pip install -q --no-index --no-deps --no-compile --target "$site" "$wheels"/*.whl || exit 1
  fi
  "$ROOT/build/remoting/busbar-session" --help >/dev/null 2>&1
  [ $? -lt 126 ] && [ -e "$ROOT/build/remoting/client/libcuda.so.1" ] && return
  command -v cmake >/dev/null && [ -f /usr/include/openssl/ssl.h ] || {
    say "build/remoting is missing, and cmake or the OpenSSL headers to build it." \
      "Copy build/remoting from a machine that has run ./run."
    exit 1
  }
  cuda=${CUDA_HOME:-/usr/local/cuda}
  cmake -S "$ROOT/remoting" -B "$ROOT/build/remoting" -DPython3_EXECUTABLE="$(command -v "$PYTHON")" -DCUDA_INCLUDE="$cuda/include" >&2 && cmake --build "$ROOT/build/remoting" -j >&2 || exit 1
}

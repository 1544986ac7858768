"""Scripts that run on a machine during enrolment over SSH. They use the standard library only."""

from __future__ import annotations

LINE_PREFIX = b"BUSBAR "
"""Begins each message of the scripts and of `nodes.installation` on stdout; JSON follows."""
SUDO = "sudo -k -S -p '' --"

# Finds a supported Python and prints its path, its version and the user id as a message.
FIND_PYTHON = """
supported='import sys, tarfile, zipfile, ssl, ctypes
sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))'
report='import json, os, sys
version = "%d.%d" % sys.version_info[:2]
print("BUSBAR " + json.dumps({"python": sys.executable, "version": version, "uid": os.getuid()}))'
for p in python3 python3.13 python3.12 python3.11 python3.10; do
  command -v $p >/dev/null 2>&1 && $p -c "$supported" 2>/dev/null && { $p -c "$report"; exit 0; }
done
echo 'BUSBAR {"python": ""}'"""

# Runs as root. Extracts a tar from stdin into a private folder, runs nodes.installation from it
# and deletes the folder. Exits with 75 on a signal, after 60 s without data or at the end of stdin.
BOOTSTRAP = """
import json, os, shutil, signal, sys, tarfile, tempfile

def interrupt(number, frame):
    sys.exit(75)

for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGALRM):
    signal.signal(number, interrupt)

class Tar:
    def __init__(self, size):
        self.left = size

    def read(self, size):
        signal.alarm(60)
        data = sys.stdin.buffer.read(min(size, self.left))
        self.left -= len(data)
        return data

print('BUSBAR {"ready": true}', flush=True)
signal.alarm(60)
line = b""
while not line.startswith(b"BUSBAR-BEGIN "):
    line = sys.stdin.buffer.readline()
    if not line:
        sys.exit(75)
folder = tempfile.mkdtemp(prefix="busbar-")
try:
    tar = Tar(int(line.split()[1]))
    with tarfile.open(fileobj=tar, mode="r|") as archive:
        for member in archive:
            archive.extract(member, folder)
    while tar.left and tar.read(65536):
        pass
    if tar.left:
        sys.exit(75)
    signal.alarm(0)
    sys.path.insert(0, folder)
    from nodes import installation
    code = installation.main([a.replace("@BUNDLE", folder) for a in sys.argv[1:]])
except OSError as e:
    error = "%s: %s" % (type(e).__name__, e)
    print("BUSBAR " + json.dumps({"error": error}), flush=True)
    code = 1
finally:
    shutil.rmtree(folder, ignore_errors=True)
sys.exit(code)
"""

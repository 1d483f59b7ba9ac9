#!/usr/bin/env bash
# Build the wheel, and try it in each of some Pythons: the locked packages with their hashes, the demo, then tests.
#
#   deploy/pythons.sh python3.12 python3.13     Pythons on the path (default: those of 3.11 to 3.14 that are there)
#   DEBIAN=/srv/forky deploy/pythons.sh         the Python of a Debian in a folder; debootstrap makes it, as root
#
# TESTS are the tests to run (default: text, index and search); WORK is a folder for what is installed. SUITE is the
# release of Debian (default: forky, which has Python 3.14), and MIRROR where it is fetched from. FILES are files of
# this machine that it needs besides, such as certificates. The compiler is for packages without a wheel for that Python.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mkdir -p "${WORK:-.cache/pythons}" && cd "${WORK:-.cache/pythons}" && pwd)
read -ra tests <<<"${TESTS:-tests/text tests/index tests/search}"

step() { echo "== $*"; }

# Try the wheel with a Python whose environment is to be in a folder; the rest is put before each command.
try() {
    local python=$1 folder=$2
    shift 2
    "$@" "$python" -m venv "$folder"
    "$@" "$folder/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
    "$@" "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps "$wheel"
    "$@" "$folder/bin/phrasemate" demo --dir "$folder/demo" | tail -n 2 | head -n 1
    "$@" "$folder/bin/pip" install --quiet --disable-pip-version-check "$wheel[dev]"
    "$@" env HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 "$folder/bin/python" -m pytest -q -p no:cacheprovider --numprocesses "${JOBS:-auto}" \
        -m "not data and not browser and not slow" "${tests[@]}"
    echo "$("$@" "$folder/bin/python" --version): the lock, the wheel, the demo and ${tests[*]}"
}

step "the wheel"
rm -rf "$work/dist" && .venv/bin/python -m build --wheel --outdir "$work/dist" . >"$work/build.log"
wheel=$(ls "$work"/dist/*.whl)
if [ -n "${DEBIAN:-}" ]; then
    step "Debian ${SUITE:=forky} in $DEBIAN"
    [ -d "$DEBIAN/etc" ] || : "${MIRROR:?the address of a mirror of Debian}"
    [ -d "$DEBIAN/etc" ] || debootstrap --variant=minbase --include=python3-venv,python3-dev,gcc,libc6-dev,ca-certificates "$SUITE" "$DEBIAN" \
        "$MIRROR" sid >"$work/debootstrap.log"  # sid: the steps of all releases, of new ones, too
    # shellcheck disable=SC2086
    cp --parents --dereference /etc/resolv.conf ${FILES:-} "$DEBIAN/"
    mount --types proc proc "$DEBIAN/proc" && trap 'umount "$DEBIAN/proc"' EXIT
    rm -rf "$DEBIAN/src" && mkdir "$DEBIAN/src" && git ls-files -z | xargs -0 cp --parents -t "$DEBIAN/src"
    cp "$wheel" "$DEBIAN/src/" && wheel=$(basename "$wheel")
    rm -rf "$DEBIAN/opt/phrasemate" && try python3 /opt/phrasemate chroot "$DEBIAN" env --chdir=/src TMPDIR=/tmp
    exit
fi
[ $# -gt 0 ] || set -- python3.11 python3.12 python3.13 python3.14
for python in "$@"; do
    "$python" --version >/dev/null 2>&1 || { echo "-- $python is not installed: passed over"; continue; }
    step "$python"
    rm -rf "${work:?}/$python" && try "$python" "$work/$python" env
done

#!/bin/sh
# Makes .venv from requirements/dev.txt and installs this checkout into it, editable.
# $1 is the stamp written last, holding the checkout's path. $PYTHON is the interpreter to build on.
set -eu

cd "$(dirname "$0")/.."
cd "$(pwd -P)"
stamp=$1
python=${PYTHON:-python3}

fail() {
    echo "$@" >&2
    exit 1
}

command -v "$python" >/dev/null || fail "No $python here. Mizzen needs Python 3.11 or newer (Debian: apt-get install python3 python3-venv)."
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1); Mizzen needs 3.11 or newer. Name another one with 'make setup PYTHON=python3.12'."

# Built in another folder, half built, or on an interpreter that was removed: build it anew.
built_in=$(cat "$stamp" 2>/dev/null || pwd)
if [ "$built_in" != "$(pwd)" ] || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    echo "Setting up .venv with $("$python" -V 2>&1), about a minute ..."
    rm -rf .venv
    "$python" -m venv .venv || {
        rm -rf .venv
        fail "$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv"
    }
else
    echo "Bringing .venv up to date ..."
fi

# -qq: errors only. Warnings here are about where packages are looked for, which is the machine's affair.
.venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
.venv/bin/python -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps -e .

# Written even where PYTHONDONTWRITEBYTECODE is set. A library may ship files that are no Python 3 on purpose (-qq: no word).
.venv/bin/python -m compileall -qq .venv/lib || true

pwd >"$stamp"

#!/bin/sh
# Makes .venvs/<name> from each tests/conformance/requirements/<name>.txt, unless it is there as the file says.
# Clients of others, each by itself: they need not agree with us, or with each other. $PYTHON is what to build on.
set -eu

cd "$(dirname "$0")/.."
cd "$(pwd -P)"
python=${PYTHON:-python3}

for wanted in tests/conformance/requirements/*.txt; do
    name=$(basename "$wanted" .txt)
    venv=.venvs/$name
    stamp=$venv/.ready
    # Holds the path too: programs in a venv name their interpreter by it.
    now=$(pwd && cat "$wanted")
    [ "$(cat "$stamp" 2>/dev/null)" != "$now" ] || continue
    echo "Setting up $venv ..."
    rm -rf "$venv"
    "$python" -m venv "$venv" || {
        rm -rf "$venv"
        echo "$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
    # -qq: errors only. Warnings here are about where packages are looked for, which is the machine's affair.
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r "$wanted" || {
        rm -rf "$venv"
        echo "Cannot install $wanted. Without a package registry the tests of other clients cannot run; all else can." >&2
        exit 1
    }
    printf '%s\n' "$now" >"$stamp"
done

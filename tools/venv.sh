#!/bin/sh
# Makes the virtual environment $1 from the hashed requirements in $2, unless it is there as that file says.
# Programs of others, each by itself: they need not agree with us, or with each other. $PYTHON is what to build on.
set -eu

cd "$(dirname "$0")/.."
cd "$(pwd -P)"
python=${PYTHON:-python3}
uv=.venv/bin/uv
venv=$1
wanted=$2
stamp=$venv/.ready
# Holds the path too: programs in a venv name their interpreter by it.
now=$(pwd && cat "$wanted")
[ "$(cat "$stamp" 2>/dev/null)" != "$now" ] || exit 0
echo "Setting up $venv ..."
rm -rf "$venv"

# Ten times faster than pip, but it does not read pip's configuration of this machine.
build_with_uv() {
    [ -x "$uv" ] &&
        UV_PYTHON_DOWNLOADS=never "$uv" venv --quiet --no-project --python "$python" "$venv" &&
        "$uv" pip install --quiet --python "$venv/bin/python" --require-hashes -r "$wanted"
}

build_with_pip() {
    rm -rf "$venv"
    "$python" -m venv "$venv" || {
        rm -rf "$venv"
        echo "$python cannot make virtual environments. On Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
    # -qq: errors only. Warnings here are about where packages are looked for, which is the machine's affair.
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --require-hashes -r "$wanted" || {
        rm -rf "$venv"
        echo "Cannot install $wanted, which needs a package registry." >&2
        exit 1
    }
}

build_with_uv 2>/dev/null || build_with_pip
printf '%s\n' "$now" >"$stamp"

#!/bin/sh
# Makes .venvs/ml, where the heavy frameworks are: requirements/ml.txt, $TORCH, and this checkout, editable.
# PyTorch is not in the lock: which build of it a machine takes, with CUDA or without, is the machine's affair.
# $PYTHON is what to build on.
set -eu

cd "$(dirname "$0")/.."
cd "$(pwd -P)"
torch=${TORCH:-torch==2.13.0}
venv=.venvs/ml
stamp=$venv/.complete

tools/venv.sh "$venv" requirements/ml.txt
now="$torch $(cat pyproject.toml)"
[ "$(cat "$stamp" 2>/dev/null)" != "$now" ] || exit 0
echo "Installing $torch and this checkout into $venv ..."
"$venv/bin/python" -m pip --version >/dev/null 2>&1 || "$venv/bin/python" -m ensurepip >/dev/null
"$venv/bin/python" -m pip install -qq --disable-pip-version-check "$torch" || {
    echo "Cannot install $torch, which needs a package registry; TORCH=... names another one." >&2
    exit 1
}
"$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-build-isolation --no-deps -e .
"$venv/bin/python" -m compileall -qq "$venv/lib" || true
printf '%s\n' "$now" >"$stamp"

#!/bin/sh
# Makes .venvs/<name> from each tests/conformance/requirements/<name>.txt, unless it is there as the file says; and
# .venvs/typescript from the package-lock.json there, and .venvs/prometheus from Debian's package; and installs Chromium
# where it may. Words are names: only these.
# $PYTHON is what to build on.
set -eu

cd "$(dirname "$0")/.."
cd "$(pwd -P)"
only=" $* "

wants() {
    [ "$only" = "  " ] || case $only in *" $1 "*) ;; *) return 1 ;; esac
}

for wanted in tests/conformance/requirements/*.txt; do
    name=$(basename "$wanted" .txt)
    wants "$name" || continue
    tools/venv.sh ".venvs/$name" "$wanted" || {
        echo "The tests of other clients cannot run without it; all else can." >&2
        exit 1
    }
done

# Taken apart, not installed: a service that scrapes would be started with it, and nobody need be root.
if wants prometheus && ! [ -x .venvs/prometheus/usr/bin/promtool ]; then
    echo "Setting up .venvs/prometheus ..."
    rm -rf .venvs/prometheus
    mkdir -p .venvs/prometheus
    fetch() { (cd .venvs/prometheus && apt-get download prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb); }
    refresh() { [ "$(id -u)" = 0 ] && apt-get update; }
    { command -v apt-get && { fetch || { refresh && fetch; }; }; } >/dev/null 2>&1 || {
        rm -rf .venvs/prometheus
        echo "Cannot fetch prometheus. Its tests need promtool and prometheus: on Debian and Ubuntu from the package of" >&2
        echo "that name, elsewhere put both into .venvs/prometheus/usr/bin. All else can run without." >&2
        exit 1
    }
fi

if wants chromium && ! { command -v chromium && command -v chromedriver; } >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "Installing chromium and chromium-driver ..."
        { apt-get update && apt-get install -y --no-install-recommends chromium chromium-driver fonts-dejavu-core; } >/dev/null 2>&1 || true
    fi
    { command -v chromium && command -v chromedriver; } >/dev/null || {
        echo "No chromium here, which the tests of pages need; they are skipped. On Debian and Ubuntu:" >&2
        echo "apt-get install chromium chromium-driver" >&2
    }
fi

wants typescript || exit 0
locked=tests/conformance/requirements/typescript
modules=.venvs/typescript
now=$(cat "$locked/package-lock.json")
[ "$(cat "$modules/.ready" 2>/dev/null)" != "$now" ] || exit 0
if ! command -v npm >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "Installing nodejs and npm ..."
    { apt-get update && apt-get install -y --no-install-recommends nodejs npm; } >/dev/null 2>&1 || true
fi
command -v npm >/dev/null || {
    echo "No npm here, which clients in TypeScript need. On Debian and Ubuntu: apt-get install nodejs npm" >&2
    exit 1
}
echo "Setting up $modules ..."
rm -rf "$modules"
mkdir -p "$modules"
cp "$locked/package.json" "$locked/package-lock.json" "$locked/.npmrc" "$modules"
(cd "$modules" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null) || {
    rm -rf "$modules"
    echo "Cannot install $locked. Without a package registry the tests of other clients cannot run; all else can." >&2
    exit 1
}
printf '%s\n' "$now" >"$modules/.ready"

#!/usr/bin/env bash
# build_packages.sh ROOT OUT: the three packages of the source tree ROOT into the folder OUT, from build/release. That is
# what users get; ./check has built it before, otherwise it is built here.
set -euo pipefail
root=$1 out=$2
cd "$root"
cmake --preset release >/dev/null
cmake --build --preset release
rm -rf "$out"
mkdir -p "$out"
cpack --preset deb -B "$out" >"$out/cpack.log" 2>&1 || { cat "$out/cpack.log"; exit 1; }
rm -rf "$out/_CPack_Packages"
ls -l "$out"/*.deb

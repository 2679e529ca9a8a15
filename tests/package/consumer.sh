#!/usr/bin/env bash
# consumer.sh ROOT DEBS SCRATCH: programs outside the tree use the packages: docs/examples by find_package(npu) and by
# pkg-config, then run over a daemon from the packages.
set -uo pipefail
root=$1 debs=$2 scratch=$3
source "$root/tests/package/common.sh"
rm -rf "$scratch"
mkdir -p "$scratch/root"
unpack "$debs" "$scratch/root"
prefix=$scratch/root/usr
cp -r "$prefix/share/doc/libnpu-dev/examples" "$scratch/examples"
libdir=$(dirname "$(find "$prefix/lib" -name libnpu.so)")

configure() { cmake -G Ninja -S "$scratch/examples" -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" "$@"; }
check 'find_package(npu) finds the packages' configure
check 'the examples build' cmake --build "$scratch/build"

mkdir -p "$scratch/other"
cat >"$scratch/other/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(other LANGUAGES C)
find_package(npu ${WANTED} QUIET)
if(npu_FOUND)
  message(FATAL_ERROR "version ${npu_VERSION} passes for ${WANTED}")
endif()
CMAKE
for wanted in 9.0 0.99; do
  check "find_package(npu $wanted) finds nothing" \
    cmake -S "$scratch/other" -B "$scratch/other/build$wanted" -DWANTED=$wanted -DCMAKE_PREFIX_PATH="$prefix"
done

flags() { PKG_CONFIG_SYSROOT_DIR=$scratch/root PKG_CONFIG_LIBDIR=$libdir/pkgconfig pkg-config "$@" npu; }
with_pkg_config() { gcc -std=c11 -Wall -Werror "$scratch/examples/sum.c" -o "$scratch/sum" $(flags --cflags) $(flags --libs); }
check 'pkg-config npu builds a C program' with_pkg_config

export HOME=$scratch NPUD_SOCKET=$scratch/run/npud.sock LD_LIBRARY_PATH=$libdir
mkdir -p "$scratch/run"
"$prefix/bin/npud" --runtime-dir "$scratch/run" --state-dir "$scratch/state" 2>"$scratch/npud.log" &
daemon=$!
trap 'kill $daemon 2>/dev/null; wait $daemon 2>/dev/null' EXIT
check 'the packaged daemon answers' until_true 30 "$prefix/bin/npu" info

# ranks N PROGRAM: what they print, sorted
ranks() {
  local r pids=() code=0
  for ((r = 0; r < $1; r++)); do
    RANK=$r LOCAL_RANK=$r WORLD_SIZE=$1 timeout 60 "$2" >"$scratch/out.$r" 2>&1 &
    pids+=($!)
  done
  for r in "${pids[@]}"; do wait "$r" || code=1; done
  sort "$scratch"/out.*
  return $code
}
line='y = 3.000 x + 1.000'
fits() { rm -f "$scratch"/out.*; same output "$(printf "$line, %d samples here\n" $(yes $((1024 / $1)) | head -n "$1"))" "$(ranks "$1" "$scratch/build/fit_line")"; }
sums() { rm -f "$scratch"/out.*; same output "$(printf 'rank %d of 4: 6\n' 0 1 2 3)" "$(ranks 4 "$1")"; }
check 'the C++ example fits its line on four ranks' fits 4
check 'and alone' same output "$line, 1024 samples here" "$("$scratch/build/fit_line")"
check 'the C example sums' sums "$scratch/build/sum"
check 'and built by pkg-config' sums "$scratch/sum"
exit $failed

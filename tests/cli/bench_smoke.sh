#!/usr/bin/env bash
# Every operation and several types through `npu bench` at odd sizes and off-line buffers: no wrong element, exit 0.
# usage: bench_smoke.sh NPU
set -euo pipefail
npu=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset NPUD_SOCKET XDG_RUNTIME_DIR
export HOME=$dir

run() {
  local out
  out=$("$npu" bench "$@" -b 4 -e 256K -f 16 -n 2 -w 1 --odd --unalign --daemon private --state-dir "$dir/state" -o json)
  if [[ -z $out ]] || grep -v '"wrong":0}' <<<"$out"; then
    echo "npu bench $*: wrong values or no output" >&2
    exit 1
  fi
}

for op in broadcast reduce all-gather reduce-scatter scatter gather all-to-all; do run $op --ranks 5; done
for dtype in fp16 bf16 int32 int8 fp64; do
  for algo in ring direct; do run all-reduce --ranks 7 -d $dtype --algo $algo; done
done
for redop in prod max min mean; do run all-reduce --ranks 3 --redop $redop; done
if "$npu" bench all-rejuce 2>/dev/null; then exit 1; else [[ $? == 64 ]]; fi
echo "bench_smoke: ok"

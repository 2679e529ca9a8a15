#!/usr/bin/env bash
# `npu bench step` alone and in ranks: one record with every field, its profile, and the exit code of what is refused.
# usage: bench_step_smoke.sh NPU PYTHON
set -euo pipefail
npu=$1 python=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset NPUD_SOCKET XDG_RUNTIME_DIR
export HOME=$dir
small=(--arch resnet8 --image-size 12 --classes 10 --batch 4 -n 3 -w 1)

check() {  # RECORD RANKS PROFILE
  "$python" - "$@" <<'EOF'
import json
import sys

record, ranks, profile = json.loads(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "profile"
fields = {"schema", "arch", "batch", "threads", "precision", "ranks", "image_size", "img_s", "gflops", "peak_bytes",
          "activation_bytes", "p50_ms", "p99_ms", "cpu_ms"} | ({"profile"} if profile else set())
assert set(record) == fields, record
assert record["schema"] == 1 and record["ranks"] == ranks and record["batch"] == 4, record
assert all(record[f] > 0 for f in ("img_s", "gflops", "peak_bytes", "activation_bytes", "p50_ms")), record
assert record["p99_ms"] >= record["p50_ms"] and record["peak_bytes"] > record["activation_bytes"], record
assert abs(record["img_s"] * record["p50_ms"] - 4e3 * ranks) < 1, record
if profile:
    rows = record["profile"]
    assert abs(sum(row["share"] for row in rows) - 1) < 1e-6, rows
    kernels = {row["kernel"] for row in rows}
    assert kernels >= {"conv fwd", "conv bwd data", "conv bwd weights", "moments", "normalise", "bn_backward", "join",
                       "reduce", "fc", "loss", "sgd", "other"}, kernels
    stem = [row for row in rows if row["layer"] == "conv1" and row["kernel"] == "conv bwd data"]
    assert not stem, "nobody asks for the gradient of the images"
    blocks = {row["layer"] for row in rows if row["kernel"] == "conv fwd"}
    assert blocks == {"conv1"} | {f"layer{s}.0.conv{c}" for s in (1, 2, 3) for c in (1, 2)}, blocks
EOF
}

refused() {  # WORD ARGUMENTS
  local word=$1 said code=0
  shift
  said=$("$npu" bench step "$@" 2>&1 >"$dir/out") || code=$?
  if [[ $code != 64 || -s $dir/out || $said != *"$word"* || $(wc -l <<<"$said") != 1 ]]; then
    echo "npu bench step $*: exit $code, expected 64 and one sentence with '$word': $said" >&2
    exit 1
  fi
}

check "$("$npu" bench step "${small[@]}" -o json)" 1 plain
check "$("$npu" bench step "${small[@]}" --profile -o json)" 1 profile
check "$("$npu" bench step "${small[@]}" --ranks 2 --daemon private --state-dir "$dir/state" -o json)" 2 plain
"$npu" bench step "${small[@]}" --profile | grep -q 'layer1.0.conv1 .*conv fwd'
for precision in fp16 bf16; do "$npu" bench step "${small[@]}" --precision $precision >/dev/null; done
refused resnet99 --arch resnet99
refused fp8 --precision fp8
refused batch --batch 0
refused ranks --ranks 9
refused channels --channels 2
refused profile "${small[@]}" --profile --ranks 2
refused --frobnicate --frobnicate
echo "bench_step_smoke: ok"

#!/usr/bin/env bash
# `npu bench checkpoint` times what it was asked for, on one rank and on several, and leaves no store behind.
# usage: bench_checkpoint_smoke.sh NPU PYTHON
set -euo pipefail
npu=$1
python=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset NPUD_SOCKET XDG_RUNTIME_DIR
export HOME=$dir

for ranks in 1 2; do
  out=$("$npu" bench checkpoint --arch resnet8 --image-size 16 --classes 10 --ranks $ranks -n 2 --every 2 --dir "$dir/store" -o json)
  "$python" - "$out" $ranks <<'PY'
import json, sys
row = json.loads(sys.argv[1])
assert row["schema"] == 1 and row["ranks"] == int(sys.argv[2]) and row["checkpoints"] == 2, row
assert row["bytes"] > 500_000 and row["durable_ms"] > 0 and 0 <= row["stall_ms"] <= row["stall_max_ms"], row
PY
  [[ -z $(ls "$dir/store") ]] || { echo "a store was left in $dir/store" >&2; exit 1; }
done
"$npu" bench checkpoint --arch resnet8 --image-size 16 --classes 10 -n 1 --every 2 --dir "$dir/store" | grep -q durable
if "$npu" bench checkpoint --arch resnet9 --dir "$dir/store" 2>"$dir/err"; then exit 1; fi
grep -q "resnet9" "$dir/err"
echo "bench_checkpoint_smoke: ok"

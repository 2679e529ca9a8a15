#!/usr/bin/env bash
# libnpu.so shows npu_* and nothing else. Usage: exports.sh NM LIBRARY
set -euo pipefail
names=$("$1" -D --defined-only "$2" | awk '{print $3}')
others=$(grep -v '^npu_' <<<"$names" || true)
if [[ -n $others ]]; then
  echo "also visible: $others"
  exit 1
fi
grep -qx npu_all_reduce <<<"$names"

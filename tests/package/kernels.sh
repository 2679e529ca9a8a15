#!/usr/bin/env bash
# kernels.sh ROOT DEBS SCRATCH: what is packaged runs on machines with AVX2 only, and without it. The choice is made when a
# program starts, so it is capped by environment here; and no code of the faster versions may leak into what always runs.
set -uo pipefail
root=$1 debs=$2 scratch=$3
source "$root/tests/package/common.sh"
rm -rf "$scratch"
mkdir -p "$scratch"
unpack "$debs" "$scratch"
npu=$scratch/usr/bin/npu
cat >"$scratch/job.yaml" <<'YAML'
name: capped
devices: 0-1
model: {arch: resnet8, num_classes: 10}
data: {format: synthetic, train_samples: 64, val_samples: 32, image_size: 32, channels: 3}
train: {epochs: 1, batch_size: 16}
precision: {amp: true, dtype: bf16}
checkpoint: {every_epochs: 0}
YAML
export HOME=$scratch XDG_RUNTIME_DIR=$scratch XDG_STATE_HOME=$scratch/state NPUD_SOCKET=$scratch/none.sock

# capped LEVEL COMMAND...
capped() {
  local level=$1 isa
  shift
  case $level in plain) isa=SSE41 ;; avx2) isa=AVX2 ;; esac
  env -u NPUD_SOCKET NPU_KERNELS="$level" ONEDNN_MAX_CPU_ISA=$isa "$@"
}

for level in plain avx2; do
  check "$level: collectives are exact" capped $level "$npu" bench all-reduce --daemon private --ranks 2 -b 1K -e 64K -f 64 -n 2 -d fp16
  check "$level: a job trains" capped $level "$npu" launch "$scratch/job.yaml" --daemon private
  check "$level: the library's example of a step" capped $level "$npu" bench step --arch resnet8 --image-size 32 --classes 10 --batch 4 -n 1 -w 1
done

# Templates that a file for AVX-512 instantiates too could be the copies that the linker keeps.
shared_code() {
  local leaks
  leaks=$(nm -C --defined-only "$1" | awk '$2 ~ /[WVu]/' | grep -vE 'kernels_avx|DW\.ref\.' || true)
  [[ -z $leaks ]] || { echo "also for other files: $leaks"; return 1; }
}
while read -r object; do
  check "$(basename "$object"): nothing in it is shared with other files" shared_code "$object"
  checked=1
done < <(find "$root/build/release" -name 'kernels_avx*.o')
check 'objects for newer processors were found' same found 1 "${checked-0}"
exit $failed

#!/bin/sh
# units_test.sh UNITS NPUD NPU SCRATCH: the unit files of the build, looked at by systemd itself. NPUD and NPU stand in for the
# installed programs. Exit 77: systemd-analyze is not here.
set -eu
units=$1 npud=$2 npu=$3 scratch=$4
command -v systemd-analyze >/dev/null || { echo "systemd-analyze is not here (package systemd): skipped"; exit 77; }
rm -rf "$scratch"
mkdir -p "$scratch/run"
export XDG_RUNTIME_DIR="$scratch/run" SYSTEMD_COLORS=0

for unit in npud.service npud.socket npud-metrics.service npu-run@.service npu-rank@.service; do
  sed -e "s#^ExecStart=[^ ]*/npud #ExecStart=$npud #" -e "s#^ExecStart=[^ ]*/npu #ExecStart=$npu #" "$units/$unit" >"$scratch/$unit"
done

# What verify says is wrong, even where it goes on: an unknown key is only a warning to it.
verify() {
  said=$(systemd-analyze verify --man=no "$@" 2>&1) || { echo "$said"; echo "verify $* failed"; exit 1; }
  [ -z "$said" ] || { echo "$said"; echo "verify $* is not silent"; exit 1; }
}
verify "$scratch/npud.service" "$scratch/npud.socket"
verify "$scratch/npud-metrics.service" "$scratch/npud.socket"
verify --user "$scratch/npu-run@job.service"
verify --user "$scratch/npu-rank@0.service"

# It does find what is wrong.
sed 's/^PrivateTmp=/PrivatTmp=/' "$scratch/npud.service" >"$scratch/wrong.service"
systemd-analyze verify --man=no "$scratch/wrong.service" 2>&1 | grep -q PrivatTmp || { echo "verify sees no mistake"; exit 1; }

# Exposure at most 1.0 of 10; the option counts tenths.
security() { systemd-analyze security --no-pager --offline=true --threshold="$1" "$2"; }
security 10 "$scratch/npud.service" | tail -n 1
security 13 "$scratch/npud-metrics.service" | tail -n 1  # it does speak TCP
grep -v '^ProtectSystem=\|^CapabilityBoundingSet=\|^NoNewPrivileges=' "$scratch/npud.service" >"$scratch/bare.service"
if security 10 "$scratch/bare.service" >/dev/null 2>&1; then echo "the gate lets everything through"; exit 1; fi

# Peers must keep their uids, and checkpoints their owner: these two would better the number and break the daemon.
for key in PrivateUsers DynamicUser; do
  if grep -q "^$key=\(yes\|true\|1\)" "$scratch/npud.service"; then echo "$key= breaks authorisation"; exit 1; fi
done
echo "units: good"

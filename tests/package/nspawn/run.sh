#!/usr/bin/env bash
# run.sh ROOT DEBS: boots a real systemd in a container over a throw-away copy of this host, installs the packages there
# and runs inside.sh as a unit. The host is the lower layer of an overlay and is not written to; nothing of the container
# outlives the script. Root and systemd-container are needed; skipped without them.
set -uo pipefail
root=$1 debs=$2
source "$root/tests/package/common.sh"
limit=170
inside=/npu-test

((EUID == 0)) || skip 'nspawn needs root'
command -v systemd-nspawn >/dev/null || skip 'no systemd-nspawn (apt-get install systemd-container)'
[[ -x /lib/systemd/systemd ]] || skip 'no systemd on this host'
[[ -x /usr/bin/dbus-daemon ]] || skip 'no dbus-daemon (apt-get install dbus)'

work=$(mktemp -d /tmp/npu-nspawn.XXXXXX)
tree=$work/root
cleanup() {
  umount "$tree" 2>/dev/null
  umount "$work" 2>/dev/null
  rmdir "$work"
}
trap cleanup EXIT
mount -t tmpfs -o size=2g,mode=0755 npu-test "$work" || skip 'mount is not permitted here'
mkdir "$work"/{upper,scratch,root}
mount -t overlay -o lowerdir=/,upperdir="$work/upper",workdir="$work/scratch" npu-test "$tree" ||
  skip 'overlay mounts are not permitted here'

# What an image of a container has against services, and what another machine must not share.
rm -f "$tree/usr/sbin/policy-rc.d" "$tree/etc/machine-id" "$tree/var/lib/dbus/machine-id"
tr -d - </proc/sys/kernel/random/uuid >"$tree/etc/machine-id"
echo npu-test >"$tree/etc/hostname"
rm -rf "$tree/var/log/journal" "$tree/run/npud" "$tree/var/lib/npud" "$tree/etc/npu"

mkdir "$tree$inside"
cp "$debs"/*.deb "$root/tests/package/common.sh" "$root/tests/package/nspawn/inside.sh" "$root/docs/operations.md" \
  "$root/tests/package/walkthrough.sh" "$tree$inside"
"$root/tests/package/next_version.sh" "$debs" "$tree$inside/next" || exit 1

cat >"$tree/etc/systemd/system/npu-test.service" <<EOF2
[Unit]
Description=Checks of the npu packages
Wants=dbus.service systemd-logind.service
After=basic.target dbus.service systemd-logind.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash $inside/inside.sh $inside
StandardOutput=file:$inside/said
StandardError=inherit
TimeoutStartSec=$((limit - 10))
EOF2
cat >"$tree/etc/systemd/system/npu-test.target" <<EOF2
[Unit]
Requires=basic.target
Wants=npu-test.service
AllowIsolate=yes
EOF2

timeout -k 5 $limit systemd-nspawn --quiet -D "$tree" --boot --register=no --keep-unit --private-network \
  --console=pipe -- --unit=npu-test.target </dev/null >"$work/console" 2>&1
code=$?

said=$tree$inside/said
[[ -s $said ]] || { tail -40 "$work/console"; echo "the container ended with exit code $code before a check ran"; exit 1; }
cat "$said"
# Nothing that inside.sh names may be left out silently.
want=$(grep -cE '^ *(check|step) ' "$root/tests/package/nspawn/inside.sh")
got=$(grep -cE '^(ok|FAILED) ' "$said")
check 'every check reported' same checks "$want" "$got"
check 'and the last one was reached' has '^end$' "$said"
! grep -q '^FAILED' "$said" || failed=1
exit $failed

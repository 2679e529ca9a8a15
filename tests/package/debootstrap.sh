#!/usr/bin/env bash
# debootstrap.sh ROOT DEBS: a fresh Debian with nothing of this host, booted; the walk-through of docs/operations.md in it
# word by word, so that apt resolves the dependencies of the packages. Needs root and a mirror; takes minutes and 600 MB
# of /tmp. By hand: tests/package/debootstrap.sh . build/dev/packages
set -uo pipefail
root=$(readlink -f "$1") debs=$2
source "$root/tests/package/common.sh"
source "$root/tests/package/walkthrough.sh"
((EUID == 0)) || skip 'debootstrap needs root'
for tool in debootstrap systemd-nspawn; do
  command -v $tool >/dev/null || skip "no $tool (apt-get install debootstrap systemd-container)"
done
mirror=${NPU_MIRROR-http://deb.debian.org/debian}
tree=$(mktemp -d /tmp/npu-debootstrap.XXXXXX)
trap 'rm -rf --one-file-system "$tree"' EXIT
chmod 755 "$tree"  # it becomes a root directory, for the daemon's user too

debootstrap --variant=minbase --include=systemd-sysv,dbus,adduser,apt-utils bookworm "$tree" "$mirror" >"$tree.log" 2>&1 ||
  { tail -5 "$tree.log"; skip "no Debian from $mirror (NPU_MIRROR names another)"; }
rm -f "$tree.log"
mkdir "$tree/npu-test"
cp "$debs"/*.deb "$tree/npu-test"
cp -L /etc/resolv.conf "$tree/etc/resolv.conf"
# The host's way to the mirror: its names, its proxies.
cp /etc/hosts "$tree/etc/hosts"
apt-config dump | grep -E '^Acquire::(Check-|https?)' >"$tree/etc/apt/apt.conf.d/90host"
{
  echo '#!/bin/bash'
  echo 'cd /npu-test; export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8; set -x'
  echo 'useradd -m -s /bin/bash alice && apt-get update || { echo "no package lists"; exit 1; }'
  walkthrough "$root/docs/operations.md" Install | while read -r line; do
    printf '{ %s\n} || { echo "ended with exit code $?"; exit 1; }\n' "$line"
  done
  echo 'echo end'
} >"$tree/npu-test/inside.sh"
cat >"$tree/etc/systemd/system/npu-test.service" <<UNIT
[Unit]
Wants=dbus.service
After=basic.target dbus.service
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash /npu-test/inside.sh
StandardOutput=file:/npu-test/said
StandardError=inherit
TimeoutStartSec=900
UNIT
printf '[Unit]\nRequires=basic.target\nWants=npu-test.service\n' >"$tree/etc/systemd/system/npu-test.target"
# With the host's network: apt asks the mirror.
timeout -k 5 950 systemd-nspawn --quiet -D "$tree" --boot --register=no --keep-unit --console=pipe --resolv-conf=off \
  -- --unit=npu-test.target </dev/null >"$tree/npu-test/console" 2>&1
cat "$tree/npu-test/said" 2>/dev/null || tail -40 "$tree/npu-test/console"
check 'the walk-through reached its end' has '^end$' "$tree/npu-test/said"
exit $failed

#!/bin/sh
# users_test.sh SYSUSERS TMPFILES SCRATCH: users and directories made by systemd's own programs in an empty tree. Exit 77: they are
# not here, or this is not root.
set -eu
sysusers=$(realpath "$1") tmpfiles=$(realpath "$2") root=$3
command -v systemd-sysusers >/dev/null && command -v systemd-tmpfiles >/dev/null ||
  { echo "systemd-sysusers or systemd-tmpfiles is not here (package systemd): skipped"; exit 77; }
[ "$(id -u)" = 0 ] || { echo "needs root, to give directories away: skipped"; exit 77; }
rm -rf "$root"
mkdir -p "$root/etc"
systemd-sysusers --root="$root" "$sysusers"
npud=$(sed -n 's/^npud:x:\([0-9]*\):\([0-9]*\):.*:\/usr\/sbin\/nologin$/\1:\2/p' "$root/etc/passwd")
npu=$(sed -n 's/^npu:x:\([0-9]*\):.*/\1/p' "$root/etc/group")
[ -n "$npud" ] && [ -n "$npu" ] || { echo "user npud or group npu is missing"; cat "$root/etc/passwd" "$root/etc/group"; exit 1; }
[ "${npud#*:}" = "$npu" ] || { echo "npud's group is not npu: $npud, $npu"; exit 1; }
grep -q '^npu-admin:' "$root/etc/group" || { echo "group npu-admin is missing"; exit 1; }
systemd-tmpfiles --root="$root" --create "$tmpfiles"
for want in "run/npud 755" "var/lib/npud 750"; do
  set -- $want
  got=$(stat -c '%a %u:%g' "$root/$1")
  [ "$got" = "$2 $npud" ] || { echo "/$1 is $got, expected $2 $npud"; exit 1; }
done
echo "users and directories: good"

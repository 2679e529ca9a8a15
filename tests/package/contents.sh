#!/usr/bin/env bash
# contents.sh ROOT DEBS SCRATCH: what the packages say of themselves and hold.
set -uo pipefail
root=$1 debs=$2 scratch=$3
source "$root/tests/package/common.sh"
version=$(sed -n 's/^project(npu VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")-0npu1
arch=$(dpkg --print-architecture)
rm -rf "$scratch"
mkdir -p "$scratch"

field() { dpkg-deb -f "$debs/${1}_${version}_$arch.deb" "$2"; }
depends_on() { field "$1" Depends | grep -q "$2" || { echo "Depends of $1: $(field "$1" Depends)"; return 1; }; }
holds() { grep -q " \./$2\( ->.*\)\?$" "$scratch/list.$1" || { echo "no $2 in $1"; return 1; }; }

check 'three packages' same packages "libnpu-dev npu npud" \
  "$(for deb in "$debs"/*.deb; do dpkg-deb -f "$deb" Package; done | sort | paste -sd' ')"
for name in npud npu libnpu-dev; do
  check "$name: version of the project" same version "$version" "$(field $name Version)"
done
check 'npud depends on libraries by shlibdeps' depends_on npud 'libc6 (>= '
check 'npud depends on sysusers' depends_on npud 'systemd | systemd-standalone-sysusers'
check 'npu depends on libraries by shlibdeps' depends_on npu 'libdnnl'
check 'npu recommends the daemon of its version' same Recommends "npud (= $version)" "$(field npu Recommends)"
check 'libnpu-dev depends on the library of its version' same Depends "npu (= $version)" "$(field libnpu-dev Depends)"
check 'the description says what purge does' grep -q 'Purging' <(field npud Description)

for name in npud npu libnpu-dev; do dpkg-deb -c "$debs/${name}_${version}_$arch.deb" >"$scratch/list.$name"; done
for file in usr/bin/npud lib/systemd/system/npud.service lib/systemd/system/npud.socket usr/lib/sysusers.d/npu.conf \
  usr/lib/tmpfiles.d/npu.conf etc/npu/npud.yaml usr/share/man/man8/npud.8.gz usr/share/doc/npud/copyright \
  usr/share/doc/npud/changelog.Debian.gz usr/share/doc/npud/operations.md; do
  check "npud holds /$file" holds npud "$file"
done
for file in usr/bin/npu usr/lib/systemd/user/npu-run@.service usr/lib/systemd/user/npu-rank@.service \
  usr/share/man/man1/npu.1.gz usr/share/man/man5/npu-job.5.gz usr/share/bash-completion/completions/npu \
  'usr/lib/[^ ]*libnpu.so.0' usr/share/doc/npu/examples/resnet20-fashion-mnist.yaml; do
  check "npu holds /$file" holds npu "$file"
done
for file in usr/include/npu/npu.h usr/include/npu/distribute.hpp 'usr/lib/[^ ]*libnpu.so' \
  'usr/lib/[^ ]*cmake/npu/npuConfig.cmake' 'usr/lib/[^ ]*pkgconfig/npu.pc' \
  usr/share/doc/libnpu-dev/examples/fit_line.cpp; do
  check "libnpu-dev holds /$file" holds libnpu-dev "$file"
done

unpack "$debs" "$scratch"
dpkg-deb -e "$debs/npud_${version}_$arch.deb" "$scratch/control"
check 'npud.yaml is a conffile' same conffiles /etc/npu/npud.yaml "$(cat "$scratch/control/conffiles")"
check 'the library has its trigger and its shlibs' grep -q 'libnpu 0 npu' \
  <(dpkg-deb -I "$debs/npu_${version}_$arch.deb" shlibs)
for script in postinst prerm postrm; do
  check "$script is a shell script without mistakes" sh -n "$scratch/control/$script"
done
for program in "$scratch/usr/bin/npu" "$scratch/usr/bin/npud"; do
  check "$(basename "$program") has no failpoints" "$root/cmake/no_failpoints.sh" "$root" "$program"
done
check 'the daemon reads the file that comes with it' grep -q '^devices: 8' "$scratch/etc/npu/npud.yaml"
check 'the unit starts the installed program' has '^ExecStart=/usr/bin/npud --config /etc/npu/npud.yaml' \
  "$scratch/lib/systemd/system/npud.service"
exit $failed

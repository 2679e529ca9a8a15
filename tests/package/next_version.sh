#!/usr/bin/env bash
# next_version.sh DEBS OUT: npud and npu again under the next Debian revision, for an upgrade. Only the number differs.
set -euo pipefail
shopt -s extglob
debs=$1 out=$2
mkdir -p "$out"
for name in npud npu; do
  deb=$(echo "$debs/$name"_*.deb)
  next=$(dpkg-deb -f "$deb" Version)
  next=${next%%+([0-9])}$((${next##*[!0-9]} + 1))
  dpkg-deb -R "$deb" "$out/$name"
  sed -i "s/^Version: .*/Version: $next/; s/(= [^)]*npu[0-9]*)/(= $next)/" "$out/$name/DEBIAN/control"
  dpkg-deb -Zgzip -z1 --root-owner-group -b "$out/$name" "$out/${name}_${next}_$(dpkg --print-architecture).deb" >/dev/null
  rm -rf "${out:?}/$name"
done

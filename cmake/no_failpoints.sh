#!/bin/sh
# no_failpoints.sh ROOT FILE: fails if FILE, a program or an object, holds the name of any failpoint of the sources
# below ROOT. Binaries that users get must not have them.
set -eu
root=$1 file=$2
[ -r "$file" ] || { echo "no_failpoints: '$file' cannot be read; build it first" >&2; exit 2; }
names=$(grep -rhoE 'NPU_FAILPOINT(_ERRNO|_ASKED)?\("[a-z0-9_.]+"' "$root"/shm "$root"/daemon "$root"/client "$root"/tests/unit/base |
  sed 's/.*("\(.*\)"/\1/' | sort -u)
[ -n "$names" ] || { echo "no_failpoints: no failpoint in the sources below '$root'; adapt $0" >&2; exit 1; }
# Whole names: "train.start" is not in a program because the key train.start_epoch is.
pattern=$(echo "$names" | sed 's/[.]/[.]/g' | paste -sd'|')
found=$(LC_ALL=C grep -aoP "(?<![a-z0-9_.])($pattern)(?![a-z0-9_.])" "$file" | sort -u) || [ $? -eq 1 ]
[ -z "$found" ] || { echo "no_failpoints: '$file' was built with failpoints:" $found >&2; exit 1; }

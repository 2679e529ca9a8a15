#!/usr/bin/env bash
# lintian.sh ROOT DEBS: lintian has nothing to say, neither errors nor warnings.
set -uo pipefail
source "$1/tests/package/common.sh"
command -v lintian >/dev/null || skip 'no lintian (apt-get install lintian)'
# A test may run as root, which lintian remarks upon.
allow=$( ((EUID == 0)) && echo --allow-root)
said=$(lintian $allow --fail-on error,warning --tag-display-limit 0 "$2"/*.deb 2>&1)
code=$?
said=$(grep -v 'running with root privileges' <<<"$said")
check 'lintian is silent' same output '' "$said"
check 'lintian succeeds' same 'exit code' 0 $code
exit $failed

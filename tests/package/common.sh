# Sourced by the scripts here: checks with names, each reported, and an exit code that says whether all held.

failed=0

# check NAME COMMAND...: runs it; what it printed is shown only if it failed.
check() {
  local name=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "ok      $name"
  else
    echo "FAILED  $name: $*"
    sed 's/^/        /' <<<"$said"
    failed=1
  fi
}

# skip WHY: for ctest, which shows it.
skip() {
  echo "skipped: $*"
  exit 77
}

# until_true SECONDS COMMAND...: asks again until the command succeeds or the time is over.
until_true() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < deadline)) || { echo "not within the time: $*"; "$@"; return 1; }
    sleep 0.1
  done
}

# same WHAT WANTED GOT
same() {
  [[ $2 == "$3" ]] || { echo "$1: expected '$2', got '$3'"; return 1; }
}

# has PATTERN FILE: an extended regular expression in a line of it
has() {
  grep -qE -- "$1" "$2" || { echo "'$2' has no line with '$1'; it ends with:"; tail -5 "$2"; return 1; }
}

# unpack FOLDER ROOT: the packages of a folder as if they were installed below ROOT
unpack() {
  local deb
  for deb in "$1"/*.deb; do dpkg-deb -x "$deb" "$2"; done
}

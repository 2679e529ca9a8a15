# Sourced by ./quickstart and ./check: installs what a section of packages.txt names and is not there yet.

# packages_of FILE SECTION...: the names, one a line.
packages_of() {
  local file=$1
  shift
  local section=
  while read -r line; do
    line=${line%%#*}
    line=${line//[[:space:]]/}
    case $line in
      '') ;;
      \[*\]) section=${line:1:-1} ;;
      *) [[ " $* " == *" $section "* ]] && echo "$line" ;;
    esac
  done <"$file"
  return 0
}

# is_installed PACKAGE
is_installed() {
  [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# ensure_packages FILE SECTION...: silent when all are there.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "packages: this is no Debian; install what $1 names by other means" >&2
    return 0
  fi
  local missing=() name
  while read -r name; do
    is_installed "$name" || missing+=("$name")
  done < <(packages_of "$@")
  ((${#missing[@]})) || return 0

  local become=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      echo "packages: missing ${missing[*]}; run as root: apt-get install ${missing[*]}" >&2
      return 69
    fi
    become=(sudo)
    echo "packages: sudo is needed to install packages" >&2
  fi
  echo "packages: installing ${missing[*]} (listed in $1)" >&2
  # A package list that is older than the mirror is the usual reason for a failure: update, then once more.
  local install=("${become[@]}" env DEBIAN_FRONTEND=noninteractive
    apt-get install -y -q --no-install-recommends "${missing[@]}")
  "${install[@]}" >&2 || { "${become[@]}" apt-get update -q >&2 && "${install[@]}" >&2; }
}

# build_preset PRESET [cmake --build options]: configures once, builds what changed.
build_preset() {
  local preset=$1
  shift
  [[ -f build/$preset/build.ninja ]] || cmake --preset "$preset" || return
  cmake --build --preset "$preset" "$@"
}

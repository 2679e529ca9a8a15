# Sourced: walkthrough DOCUMENT TITLE prints the commands of the first sh block below "## TITLE", to be run as they are.
walkthrough() {
  awk -v title="## $2" '
    $0 == title { here = 1 }
    here && /^```sh$/ { block = 1; next }
    block && /^```$/ { exit }
    block { print }
  ' "$1"
}

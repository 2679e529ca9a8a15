#!/usr/bin/env bash
# manual.sh ROOT MANUAL NPU NPUD SCRATCH: the manual pages are whole, say what the programs say, and have no mistakes.
set -uo pipefail
root=$1 manual=$2 npu=$3 npud=$4 scratch=$5
source "$root/tests/package/common.sh"
command -v man >/dev/null || skip 'no man (apt-get install man-db)'
rm -rf "$scratch"
mkdir -p "$scratch"

text_of() { MANWIDTH=4000 man -E UTF-8 -l "$manual/$1.gz" 2>/dev/null | col -bx; }
formats() { same warnings '' "$(man --warnings -E UTF-8 -l -Tutf8 "$manual/$1.gz" 2>&1 >/dev/null)"; }
for page in npu.1 npud.8 npu-job.5; do
  check "$page formats without a warning" formats "$page"
  text_of "$page" >"$scratch/$page"
  check "$page has no mark left" bash -c "! grep -nE '@[a-z-]+@' '$scratch/$page'"
  for section in NAME DESCRIPTION 'SEE ALSO'; do check "$page: $section" has "^$section\$" "$scratch/$page"; done
done

# Asked of the program itself, subcommand by subcommand, not of the tree that the pages are made from.
# documented PAGE PROGRAM [SUBCOMMAND...]
documented() {
  local page=$1 help missing= option
  shift
  help=$("$@" --help)
  while read -r option; do
    [[ $option == -h || $option == --help ]] || grep -qF -- "$option" "$scratch/$page" || missing+=" $option"
  done < <(grep -oE '^ {2}-[^ ]+' <<<"$help" | tr -d ' ' | tr ',' '\n' | sed 's/{.*//')
  [[ -z $missing ]] || { echo "missing:$missing"; return 1; }
}
# subcommands PROGRAM [SUBCOMMAND...]
subcommands() { "$@" --help | sed -n '/^Subcommands:/,$p' | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p'; }
commands=0
while read -r command; do
  check "npu.1: $command" has "^ *npu $command" "$scratch/npu.1"
  check "npu.1: options of $command" documented npu.1 "$npu" "$command"
  commands=$((commands + 1))
  while read -r sub; do
    check "npu.1: $command $sub" has "^ *npu $command $sub" "$scratch/npu.1"
    check "npu.1: options of $command $sub" documented npu.1 "$npu" "$command" "$sub"
  done < <(subcommands "$npu" "$command")
done < <(subcommands "$npu")
check 'there are subcommands' test $commands -ge 9
check 'hidden subcommands stay hidden' bash -c "! grep -q help-tree '$scratch/npu.1'"
check 'npud.8: options' documented npud.8 "$npud"
while read -r key; do check "npu-job.5: $key" has "^ *${key//./\\.} \\(" "$scratch/npu-job.5"; done \
  < <("$npu" config schema | grep '^[a-z]')
for code in 64 65 66 69 70 73 74 75 76 77 78 80; do check "npu.1: exit code $code" has "^ *$code\$" "$scratch/npu.1"; done

sed -n '/^# EXAMPLE/,/^# KEYS/p' "$root/docs/man/npu-job.5.scd" | sed -n '/^```/,/^```/p' | grep -v '```' >"$scratch/job.yaml"
check 'the example of npu-job.5 is a job' "$npu" config check "$scratch/job.yaml"

# refused CODE WORDS ARGUMENTS...: one sentence on stderr and the exit code
refused() {
  local code=0 wanted=$1 words=$2
  shift 2
  "$npu" help-tree "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
  same 'exit code' "$wanted" $code && same lines 1 "$(wc -l <"$scratch/err")" && has "$words" "$scratch/err"
}
echo '@nonsense@' >"$scratch/page"
echo 'no options' >"$scratch/help"
check 'a mark that nothing stands for' refused 65 "mark '@nonsense@'" "$scratch/page"
check 'a page that is not there' refused 66 'none.scd' "$scratch/none.scd"
check 'a help text without options' refused 65 'no option' "$scratch/page" --daemon-help "$scratch/help"
check 'neither page nor completion' refused 64 'TEMPLATE or --completion'
check 'page and completion' refused 64 'TEMPLATE or --completion' "$scratch/page" --completion
exit $failed

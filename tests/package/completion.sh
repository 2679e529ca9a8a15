#!/usr/bin/env bash
# completion.sh ROOT SCRIPT NPU SCRATCH: what bash offers after TAB. The script runs in a bash of its own, with nothing
# else loaded.
set -uo pipefail
root=$1 script=$2 npu=$3 scratch=$4
source "$root/tests/package/common.sh"
rm -rf "$scratch"
mkdir -p "$scratch/folder" "$scratch/a b"
touch "$scratch/job.yaml" "$scratch/other.yml" "$scratch/weights.safetensors" "$scratch/notes.txt"
cd "$scratch"

# offers LINE: the words that are offered at the end of LINE, sorted, in one line
offers() {
  bash --norc -c '
    source "$1"
    COMP_LINE=$2 COMP_POINT=${#2}
    # As readline cuts the line: "=" is a word of its own.
    read -ra COMP_WORDS <<<"${2//=/ = }"
    [[ $2 != *[[:space:]] ]] || COMP_WORDS+=("")
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    $(complete -p npu | sed "s/.* -F \([^ ]*\) .*/\1/") npu "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    printf "%s\n" "${COMPREPLY[@]}"
  ' bash "$script" "$1" | sort | paste -sd' '
}
offered() { same "after '$1'" "$2" "$(offers "$1")"; }
among() { [[ " $(offers "$1") " == *" $2 "* ]] || { echo "'$2' is not among '$(offers "$1")'"; return 1; }; }
not_among() { [[ " $(offers "$1") " != *" $2 "* ]] || { echo "'$2' is among '$(offers "$1")'"; return 1; }; }

check 'the script loads in silence' same output '' "$(bash --norc -c "source '$script'" 2>&1)"
for command in launch train eval info ps ckpt config bench plot; do
  check "npu <TAB>: $command" among 'npu ' $command
done
check 'hidden subcommands are not offered' not_among 'npu ' help-tree
check 'npu la<TAB>' offered 'npu la' 'launch'
check 'npu config <TAB>' offered 'npu config ' 'check print schema'
check 'npu ckpt ver<TAB>' offered 'npu ckpt ver' 'verify'
check 'npu bench all-r<TAB>: operations' offered 'npu bench all-r' 'all-reduce'
check 'npu bench st<TAB>: subcommands' offered 'npu bench st' 'step'
check 'npu launch --max<TAB>' offered 'npu launch --max' '--max-restarts'
check 'npu launch --d<TAB>: options' among 'npu launch --d' '--daemon'
check "main.py's flags" among 'npu launch --lear' '--learning-rate'
check 'no option of another subcommand' not_among 'npu info --' '--max-restarts'
check 'npu launch --daemon <TAB>: words' offered 'npu launch --daemon ' 'auto private require'
check 'npu ps -o <TAB>: words' offered 'npu ps -o ' 'chrome json text'
check 'npu launch --profile=<TAB>' offered 'npu launch --profile=' 'pytorch tf'
check 'npu launch --profile=t<TAB>' offered 'npu launch --profile=t' 'tf'
check 'npu bench step --arch resnet5<TAB>' offered 'npu bench step --arch resnet5' 'resnet50 resnet50-32 resnet56'
check 'npu launch . -a resnet15<TAB>' offered 'npu launch . -a resnet15' 'resnet152'
check 'npu bench step --precision <TAB>' offered 'npu bench step --precision ' 'bf16 fp16 fp32'
check 'npu bench all-reduce --algo <TAB>' offered 'npu bench all-reduce --algo ' 'auto direct ring'
check 'npu bench all-reduce -d bf<TAB>' offered 'npu bench all-reduce -d bf' 'bf16'
check 'npu launch --set train.ep<TAB>: keys' offered 'npu launch --set train.ep' 'train.epochs='
check 'npu launch --set model.arch=resnet1<TAB>' offered 'npu launch --set model.arch=resnet11' 'resnet110'
check 'npu launch --set precision.amp=<TAB>' offered 'npu launch --set precision.amp=' 'false true'
check 'npu launch --set train.epochs=<TAB>: any number' offered 'npu launch --set train.epochs=' ''
check 'npu launch <TAB>: jobs and folders' offered 'npu launch ' 'a b folder job.yaml other.yml'
check 'npu launch --set train.epochs=1 jo<TAB>' offered 'npu launch --set train.epochs=1 jo' 'job.yaml'
check 'npu config check o<TAB>' offered 'npu config check o' 'other.yml'
check 'npu launch --daemon require jo<TAB>' offered 'npu launch --daemon require jo' 'job.yaml'
check 'npu eval --weights w<TAB>: any file' offered 'npu eval --weights w' 'weights.safetensors'
check 'npu launch --grace <TAB>: nothing to offer' offered 'npu launch --grace ' ''
check 'npu nonsense <TAB>: as if it were not there' among 'npu nonsense ' launch

# Every long option that a subcommand's help names is offered.
while read -r command; do
  while read -r option; do check "npu $command $option" among "npu $command $option" "$option"; done \
    < <("$npu" "$command" --help | grep -oE '^ {2}(-[a-z],)?--[a-z0-9_-]+' | grep -oE '\-\-[a-z0-9_-]+')
done < <("$npu" --help | sed -n '/^Subcommands:/,$p' | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
exit $failed

#!/bin/sh
# From a config.json to the launch of Megatron-LM: what to train with, and what it costs not to run the plan itself.
#   usage: launch.sh [CONFIG.json [MACHINE.json [DEVICES]]]
set -eu
model=${1:-configs/models/llama_3_2_1b.json}
machine=${2:-configs/machines/a100-128x8.json}
devices=${3:-8}
given="--model $model --sequence 512 --batch 32 --precision bf16 --optimizer adam"
# shellcheck disable=SC2086
cleave search $given --machine "$machine" --devices "$devices" --time 5 --quiet -o launch.layout.json
# shellcheck disable=SC2086
cleave export --to megatron $given --machine "$machine" --layout launch.layout.json -o launch.args
printf '\ntorchrun --nproc-per-node %s %s\n' "$devices" "... $(tr '\n' ' ' <launch.args)"

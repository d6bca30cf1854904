# What the command prints: JSON that can be read, the keys that are promised, and the same bytes again.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

lenet=(--model "$models/lenet5.onnx" --batch 64)
has_keys() { # KEY...
    local key
    for key in "$@"; do
        grep -q "^  \"$key\": " "$work/out" || fail "no key $key in $(cat "$work/out")"
    done
    # Our own reader takes it: it says that this is no file of ours, not that it is malformed.
    cp "$work/out" "$work/object.json"
    expect_error 2 "neither a machine" show "$work/object.json"
    echo '{"_class_name": "UNet2DConditionModel"}' > "$work/unet.json"
    expect_error 2 "such models are taken as ONNX files" show "$work/unet.json"
}

# Same seed and proposals, same bytes; another seed may differ but is legal.
for i in 1 2; do
    expect_ok search "${lenet[@]}" --machine "$machine" --method mcmc --proposals 300 --seed 7 --json \
        -o "$work/plan$i.layout.json"
done
cmp "$work/plan1.layout.json" "$work/plan2.layout.json" || fail "two searches with one seed differ"
has_keys step_seconds method search_seconds proposals baselines lower_bound_seconds additive_seconds \
    additive_gap peak_bytes layout price_shares step_spread_seconds
for i in 1 2; do
    expect_ok search "${lenet[@]}" --machine "$machine" --method random --seed 11 -o "$work/random$i.layout.json"
done
cmp "$work/random1.layout.json" "$work/random2.layout.json" || fail "two draws with one seed differ"

# Without -o the result is printed and nothing is written; 100 samples leave 28 of 128 devices without one.
idle=(search --model "$models/alexnet.onnx" --batch 100 --machine "$tree/configs/machines/h100-512x8.json" --devices 128
    --method data-parallel --quiet)
(cd "$work" && mkdir empty && cd empty && "$cleave" "${idle[@]}") >"$work/out" || fail "no search without -o"
[ -z "$(ls -A "$work/empty")" ] || fail "a search without -o leaves $(ls -A "$work/empty")"
for said in '^28 of 128 devices have nothing to do: so "data-parallel" has it of a batch of 100.$' "^The layout was not kept: -o "; do
    grep -q "$said" "$work/out" || fail "no $said in $(cat "$work/out")"
done
expect_ok "${idle[@]}" --json
[ "$(json_value "$work/out" idle_devices)" = 28 ] || fail "not 28 devices without work: $(cat "$work/out")"
has_keys devices step_seconds
expect_ok search "${lenet[@]}" --machine "$machine" --method data-parallel
grep -q "nothing to do" "$work/out" && fail "devices without work: $(cat "$work/out")"

# The found step is never worse than a baseline, never below the bound.
expect_ok search "${lenet[@]}" --machine "$machine" --proposals 200 --json -o "$work/plan.layout.json"
step=$(json_value "$work/out" step_seconds)
bound=$(json_value "$work/out" lower_bound_seconds)
awk -v s="$step" -v b="$bound" 'BEGIN { exit !(b > 0 && b <= s) }' || fail "step $step, lower bound $bound"
for method in data-parallel single; do
    baseline=$(sed -n "s/^ *\"$method\": \([^,]*\),\{0,1\}$/\1/p" "$work/out")
    awk -v s="$step" -v b="$baseline" 'BEGIN { exit !(s <= b) }' || fail "found $step, $method $baseline"
done

# What search predicts is what simulate says.
expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$work/plan.layout.json" --json
has_keys step_seconds simulate_seconds tasks transfers bytes_sent bytes_between peak_bytes bottleneck \
    bubble_seconds price_shares step_spread_seconds
grep -q '"data_sheet": 1.0,' "$work/object.json" || fail "two-cores.json is no data sheet: $(cat "$work/object.json")"
grep -q '"step_spread_seconds": null' "$work/object.json" || fail "a spread of data sheets: $(cat "$work/object.json")"
expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$work/plan.layout.json" --json
[ "$(json_value "$work/out" step_seconds)" = "$step" ] ||
    fail "search says $step, simulate $(json_value "$work/out" step_seconds)"

# Either rule of time may be asked for; a task graph is by events.
for engine in scan events; do
    expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$work/plan.layout.json" --engine "$engine" --json
    [ "$(json_value "$work/out" step_seconds)" = "$(json_value "$work/out" "${engine}_step_seconds")" ] ||
        fail "--engine $engine says $(cat "$work/out")"
done
expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$work/plan.layout.json" --dump-tasks "$work/tasks.dag" --json
step=$(json_value "$work/out" step_seconds)
expect_ok simulate --tasks "$work/tasks.dag" --json
[ "$(json_value "$work/out" step_seconds)" = "$step" ] || fail "the tasks of a step of $step end after $(cat "$work/out")"
expect_error 2 '"fifo" is neither "scan" nor "events"' simulate "${lenet[@]}" --machine "$machine" --method single --engine fifo
expect_error 2 "goes without --engine scan" simulate "${lenet[@]}" --machine "$machine" --method single --engine scan \
    --dump-tasks "$work/tasks.dag"

# One window of devices stands for all, where there are windows and no file wants all.
big=("${lenet[@]}" --machine "$tree/configs/machines/k80-16x4.json" --devices 16 --json)
expect_ok simulate "${big[@]}" --method data-parallel --closed-form
[ "$(json_value "$work/out" folded_devices)" = 4 ] || fail "a node of four is not simulated for all four"
grep -v -e simulate_seconds -e folded_devices "$work/out" >"$work/folded.json"
expect_ok simulate "${big[@]}" --method data-parallel --closed-form --trace "$work/t.json"
grep -q folded_devices "$work/out" && fail "a trace has a node of four alone"
grep -v simulate_seconds "$work/out" >"$work/all.json"
cmp "$work/folded.json" "$work/all.json" || fail "folded simulation differs from full simulation"
expect_ok simulate "${big[@]}" --method data-parallel
grep -q folded_devices "$work/out" && fail "expanded collectives fold"

# One device sends nothing; two send as much as they get.
expect_ok simulate "${lenet[@]}" --machine "$machine" --method single --json
[ "$(json_value "$work/out" bytes_sent)" = 0 ] || fail "a single device sends"

# show knows every sort of file, and the operators.
expect_ok show operators
grep -q '^BatchNormalization  *7-24  *any  *epsilon momentum' "$work/out" || fail "show operators lists no BatchNormalization"
for file in "$models"/*.onnx "$tree"/configs/machines/*.json "$work/plan.layout.json"; do
    expect_ok show "$file"
    [ "$(wc -l <"$work/out")" -gt 3 ] || fail "show $file prints hardly anything"
done

# Layers that are alike are told once.
expect_ok show "$models/gpt2_small.onnx" --batch 1
grep -q '^/h\.\[0-11\]/c_attn/Gemm ' "$work/out" || fail "twelve layers are not one: $(cat "$work/out")"
expect_ok search --model "$models/bert_base.onnx" --batch 2 --machine "$machine" --method single -o "$work/bert.layout.json"
expect_ok show "$work/bert.layout.json"
[ "$(grep -c '\[0-11\]' "$work/out")" -gt 5 ] || fail "the layers of a layout are not told once: $(cat "$work/out")"
expect_ok explain --model "$models/bert_base.onnx" --batch 2 --machine "$machine" --layout "$work/bert.layout.json" --splits 1
[ "$(grep -c '\[0-11\]' "$work/out")" -gt 5 ] || fail "layers are not explained once: $(cat "$work/out")"

# The layouts that ship fit the models that ship: MODEL-BATCH-....layout.json.
for file in "$tree"/configs/layouts/*.layout.json; do
    name=$(basename "$file")
    batch=${name#*-}
    expect_ok simulate --model "$models/${name%%-*}.onnx" --batch "${batch%%-*}" --machine "$machine" \
        --layout "$file"
    expect_ok show "$file"
done

# What is sent is the same in a search, a simulation and between every two devices, where collectives are in closed form, too.
whole=(--model "$models/mlp.onnx" --batch 128 --machine "$tree/configs/machines/a100-128x8.json" --devices 128)
expect_ok search "${whole[@]}" --method zero-1 --quiet --json -o "$work/whole.layout.json"
searched=$(sed -n 's/^  "bytes_sent": \([0-9]*\),*$/\1/p' "$work/out")
expect_ok simulate "${whole[@]}" --layout "$work/whole.layout.json" --json
python3 - "$work/out" "$searched" <<'END' || fail "searched $searched: $(grep bytes_sent "$work/out")"
import json, sys
simulated, searched = json.load(open(sys.argv[1])), int(sys.argv[2])
between = sum(map(sum, simulated["bytes_between"]))
assert searched > 0 and abs(simulated["bytes_sent"] - searched) <= 128 and abs(between - searched) <= 128 * 128
END

expect_ok calibrate "${lenet[@]}" --devices 2 --time 1 --json --quiet -o "$work/calibrated.json"
[ "$(json_value "$work/out" works)" -gt "$(json_value "$work/out" works_measured)" ] || fail "works: $(cat "$work/out")"
has_keys devices flops_per_second bytes_per_second works_kept works_left link_latency_seconds link_bytes_per_second machine

# Progress and results do not mix: stdout of --json is the object alone.
expect_ok simulate "${lenet[@]}" --machine "$machine" --method data-parallel --json
[ "$(head -c 1 "$work/out")" = "{" ] && [ "$(tail -n 1 "$work/out")" = "}" ] || fail "stdout is not one object"
if "$cleave" show "$models/lenet5.onnx" >/dev/full 2>"$work/err"; then
    fail "a full disk goes unnoticed"
fi
finish

# `--precision bf16`: it learns what f32 learns, layouts say what they were made for, and bytes are as predicted.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$work/out" | tr -d ','; }
gpt=(--model "$models/byte_gpt.onnx" --batch 4)
halves=(--precision bf16)

# The curve of a loss stays within 2 % of that of f32, and is another one.
expect_ok run "${gpt[@]}" --steps 12 --lr 0.1 --json
exact=$(losses)
expect_ok run "${gpt[@]}" --steps 12 --lr 0.1 --json "${halves[@]}"
rounded=$(losses)
awk -v a="$exact" -v b="$rounded" 'BEGIN {
    n = split(a, x, " "); bad = n != 12 || split(b, y, " ") != n || a == b || x[n] >= x[1]
    for (i = 1; i <= n; i++) bad = bad || y[i] > 1.02 * x[i] || y[i] < 0.98 * x[i]
    exit bad
}' || fail "f32 has the losses $exact and bf16 $rounded"

# A machine without rates is refused.
expect_error 2 '"bf16"' search "${gpt[@]}" --machine "$machine" "${halves[@]}" -o "$work/output"
expect_error 2 '"bf16"' simulate "${gpt[@]}" --machine "$machine" --method data-parallel "${halves[@]}"
expect_error 2 'f64' simulate "${gpt[@]}" --machine "$machine" --method data-parallel --precision f64
expect_error 2 'reduce precision' run "${gpt[@]}" --reduce-precision bf16
# fp16 and fp8 have prices where a machine has rates, and are not run.
h100=(--machine "${machine%/*}/h100-512x8.json" --devices 8 --method data-parallel --json)
seconds() { sed -n 's/^ *"step_seconds": \([^,]*\),*$/\1/p' "$work/out" | head -1; }
for precision in bf16 fp16 fp8; do
    expect_ok simulate --model "$models/llama_3_2_1b.json" --batch 8 --sequence 1024 "${h100[@]}" --precision "$precision"
    declare "of_$precision=$(seconds)"
done
awk -v a="$of_bf16" -v b="$of_fp16" -v c="$of_fp8" 'BEGIN { exit !(a > 0 && a == b && c < 0.95 * a) }' ||
    fail "a step takes $of_bf16 in bf16, $of_fp16 in fp16, $of_fp8 in fp8"
expect_error 2 '"fp8" has a price, but no kernels' run "${gpt[@]}" --precision fp8
expect_error 2 '"fp8"' simulate "${gpt[@]}" --machine "${machine%/*}/a100-128x8.json" --devices 2 --method data-parallel --precision fp8
with_rates=$work/rates.json
sed 's/"flops": "100 GFLOP\/s"/&, "rates": {"bf16": "200 GFLOP\/s"}/' "$machine" >"$with_rates"

# A layout that was made for bf16 says so, and is run as f32 only when that is asked for.
layout=$work/halves.layout.json
expect_ok search "${gpt[@]}" --machine "$with_rates" --method random --seed 2 "${halves[@]}" -o "$layout"
grep -q '"training": {"precision": "bf16"}' "$layout" || fail "no precision in $(cat "$layout")"
expect_error 2 "$layout" run "${gpt[@]}" --layout "$layout" --steps 1
expect_error 2 "$layout" simulate "${gpt[@]}" --layout "$layout" --machine "$with_rates"
expect_ok run "${gpt[@]}" --layout "$layout" --steps 1 --precision f32

# What is sent is what was predicted, and one step over ranks has the loss of one device: to half a unit of bf16.
expect_ok simulate "${gpt[@]}" --layout "$layout" --machine "$with_rates" "${halves[@]}" --json
predicted=$(sed -n '/"bytes_between"/,/]/p' "$work/out" | tr -d ' \n')
expect_ok run "${gpt[@]}" --layout "$layout" --steps 1 "${halves[@]}" --json
measured=$(sed -n '/"bytes_between"/,/]/p' "$work/out" | tr -d ' \n')
[ -n "$predicted" ] && [ "$predicted" = "$measured" ] || fail "predicted $predicted, sent $measured"
awk -v a="$(losses)" -v b="${rounded%% *}" 'BEGIN { d = a - b; exit !(a > 0 && d < b / 512 && -d < b / 512) }' ||
    fail "the loss of two ranks is $(losses), of one $rounded"

# What is started to compare, or to calibrate, is of the same precision.
expect_ok compare "${gpt[@]}" --machine "$with_rates" --time 1 --steps 2 "${halves[@]}"
expect_ok calibrate --model "$models/lenet5.onnx" --batch 16 --devices 2 --time 1 "${halves[@]}" -o "$work/calibrated.json"
grep -q '"key": "product forward sum .* bf16' "$work/calibrated.json" || fail "no kernel of bf16 was measured"
expect_ok simulate --model "$models/lenet5.onnx" --batch 16 --machine "$work/calibrated.json" --method data-parallel "${halves[@]}"

# Weights are saved exact, and bf16 goes on from them.
expect_ok run "${gpt[@]}" --steps 1 "${halves[@]}" --save "$work/weights.safetensors"
grep -aq '"dtype": "F32"' "$work/weights.safetensors" || fail "no F32 in the weights"
expect_ok run "${gpt[@]}" --steps 1 "${halves[@]}" --weights "$work/weights.safetensors"

finish

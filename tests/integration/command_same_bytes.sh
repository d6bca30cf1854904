# Law 6: same binary, inputs, seed and layout, same bytes out: layouts of searches, and weights of runs on three
# ranks, where partial results have more than one order to be summed in.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

three=(--machine "$tree/configs/machines/p100-4x4.json" --devices 3)
model=(--model "$models/lenet5.onnx" --batch 12)

for method in auto mcmc; do
    for i in 1 2; do
        expect_ok search "${model[@]}" "${three[@]}" --method $method --proposals 200 --seed 9 \
            -o "$work/$method-$i.layout.json"
    done
    cmp "$work/$method-1.layout.json" "$work/$method-2.layout.json" || fail "two searches by $method differ"
done

# Random layouts split all axes, and leave sums to be combined by some of the ranks.
for seed in 1 2 3; do
    layout=$work/random-$seed.layout.json
    expect_ok search "${model[@]}" "${three[@]}" --method random --seed $seed -o "$layout"
    for i in 1 2; do
        expect_ok run "${model[@]}" --layout "$layout" --steps 3 --seed 4 --momentum 0.9 \
            --save "$work/weights-$seed-$i.safetensors"
    done
    cmp "$work/weights-$seed-1.safetensors" "$work/weights-$seed-2.safetensors" ||
        fail "two runs of random layout $seed differ"
    expect_ok run "${model[@]}" --layout "$layout" --steps 3 --seed 4 --momentum 0.9 --no-overlap \
        --save "$work/weights-$seed-apart.safetensors"
    cmp "$work/weights-$seed-1.safetensors" "$work/weights-$seed-apart.safetensors" ||
        fail "random layout $seed learns something else without overlap"
done

# These bytes are results: other layouts sum in other orders, so not all of the three are the same.
cmp -s "$work/weights-1-1.safetensors" "$work/weights-2-1.safetensors" &&
    cmp -s "$work/weights-1-1.safetensors" "$work/weights-3-1.safetensors" &&
    fail "three random layouts save the same bytes: nothing was split"
finish

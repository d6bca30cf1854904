# --device-threads: what is learned is that of one thread within rounding, two runs give the same bytes, and a machine
# file goes with the number of threads that it was calibrated with.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

model=(--model "$models/lenet5.onnx" --batch 64)
layout=$work/layout.json
calibrated=$work/machine.json

# ---- law 1 and law 6: random layouts of two ranks, two threads each

losses() { # FILE
    tr -d ' \n' <"$1" | sed 's/.*"loss":\[\([^]]*\)\].*/\1/' | tr ',' ' '
}

for seed in 1 2; do
    expect_ok search "${model[@]}" --machine "$machine" --devices 2 --method random --seed $seed -o "$layout"
    expect_ok run "${model[@]}" --steps 4 --seed 4 --momentum 0.9 --json
    one=$(losses "$work/out")
    for i in 1 2; do
        expect_ok run "${model[@]}" --layout "$layout" --steps 4 --seed 4 --momentum 0.9 --json --device-threads 2 \
            --save "$work/weights-$i.safetensors"
        two=$(losses "$work/out")
        awk -v one="$one" -v two="$two" 'BEGIN {
            n = split(one, a, " ")
            bad = n != 4 || split(two, b, " ") != n
            for (i = 1; i <= n; i++)
                bad = bad || !(a[i] - b[i] < 1e-4 && b[i] - a[i] < 1e-4)
            exit bad
        }' || fail "random layout $seed with two threads: losses $two, of one device and thread $one"
    done
    cmp "$work/weights-1.safetensors" "$work/weights-2.safetensors" || fail "two runs with two threads differ"
done
expect_ok run "${model[@]}" --layout "$layout" --steps 4 --seed 4 --momentum 0.9 --device-threads 2 --no-overlap \
    --save "$work/weights-apart.safetensors"
cmp "$work/weights-1.safetensors" "$work/weights-apart.safetensors" || fail "overlap changes bytes of two threads"

# ---- calibration says how many there were, and keeps no times of another number

expect_ok calibrate "${model[@]}" --devices 2 --device-threads 2 --time 1 -o "$calibrated"
grep -q '"threads": 2' "$calibrated" || fail "the machine file does not say that there were two threads"
grep -q '"2 cores"' "$calibrated" || fail "a device of two cores is not called so"
expect_ok run "${model[@]}" --layout "$layout" --steps 2 --machine "$calibrated" --device-threads 2
expect_error 2 'was calibrated with 2 threads a device, and --device-threads is 1' \
    run "${model[@]}" --layout "$layout" --steps 2 --machine "$calibrated"
expect_error 2 'was calibrated with 2 threads a device, and --device-threads is 3' \
    compare "${model[@]}" --machine "$calibrated" --device-threads 3 -o "$work/output"
expect_error 2 '--device-threads' run "${model[@]}" --device-threads 0
expect_ok compare "${model[@]}" --machine "$calibrated" --device-threads 2 --time 0.5 --steps 2

expect_ok calibrate "${model[@]}" --devices 2 --device-threads 2 --time 1 -o "$calibrated"
grep -q ' 0 kept' "$work/out" && fail "times of the same number of threads were not kept"
expect_ok calibrate "${model[@]}" --devices 2 --time 1 -o "$calibrated"
grep -q ' 0 kept' "$work/out" || fail "times of two threads were kept for one"
grep -q '"threads"' "$calibrated" && fail "threads of before are still in the file"
expect_error 2 'was calibrated with 1 thread a device, and --device-threads is 2' \
    run "${model[@]}" --layout "$layout" --steps 2 --machine "$calibrated" --device-threads 2
finish

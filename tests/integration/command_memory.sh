# Law 5: the memory that `simulate` predicts is never below what a rank of `run` really takes (VmHWM), and above
# it by no more than 3 % or 32 MiB, whichever is more.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

# Numbers of a list on the line of its key.
json_list() { # FILE KEY
    sed -n "s/^ *\"$2\": \[\(.*\)\],\{0,1\}$/\1/p" "$1" | tr -d ','
}

# The calibration stops long before it has timed all: memory may not depend on that.
models=(--model "$models/lenet5.onnx" --batch 256)
calibrated=$work/machine.json
expect_ok calibrate "${models[@]}" --devices 2 --time 1 -o "$calibrated"

expect_law() { # METHOD SEED OPTION...
    local method=$1 layout=$work/$1-$2.layout.json
    expect_ok search "${models[@]}" --machine "$calibrated" --method "$method" --seed "$2" --proposals 50 -o "$layout"
    shift 2
    expect_ok simulate "${models[@]}" --machine "$calibrated" --layout "$layout" --json "$@"
    local predicted resident
    predicted=$(json_list "$work/out" peak_bytes)
    expect_ok run "${models[@]}" --layout "$layout" --steps 2 --json "$@"
    resident=$(json_list "$work/out" rss_peak_bytes)
    awk -v predicted="$predicted" -v resident="$resident" 'BEGIN {
        n = split(predicted, p, " ")
        bad = n != 2 || split(resident, r, " ") != n
        for (d = 1; d <= n; d++) {
            room = 0.03 * r[d] > 33554432 ? 0.03 * r[d] : 33554432
            bad = bad || !(r[d] > 0 && p[d] >= r[d] && p[d] <= r[d] + room)
        }
        exit bad
    }' || fail "$layout $*: predicted $predicted, resident $resident"
}

expect_law data-parallel 0
expect_law data-parallel 0 --optimizer adam
expect_law mcmc 1
for seed in 1 2 3; do
    expect_law random "$seed" --momentum 0.9
done
finish

# Law 5: the memory that `simulate` predicts is never below what a rank of `run` really takes (VmHWM), and above
# it by no more than 3 % or 32 MiB, whichever is more; with micro-batches and stages, by no more than 5 % and 16 MiB.
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

run_only=() # options of `run` alone

# ROOM is of resident bytes r, in awk.
expect_layout() { # LAYOUT MACHINE RANKS ROOM OPTION...
    local layout=$1 with=$2 ranks=$3 room=$4
    shift 4
    expect_ok simulate "${models[@]}" --machine "$with" --layout "$layout" --json "$@"
    local predicted resident
    predicted=$(json_list "$work/out" peak_bytes)
    expect_ok run "${models[@]}" --layout "$layout" --steps 2 --json "${run_only[@]}" "$@"
    resident=$(json_list "$work/out" rss_peak_bytes)
    awk -v predicted="$predicted" -v resident="$resident" -v ranks="$ranks" 'BEGIN {
        n = split(predicted, p, " ")
        bad = n != ranks || split(resident, at, " ") != n
        for (d = 1; d <= n; d++) {
            r = at[d]
            bad = bad || !(r > 0 && p[d] >= r && p[d] <= r + '"$room"')
        }
        exit bad
    }' || fail "$layout $*: predicted $predicted, resident $resident"
}

expect_law() { # METHOD SEED OPTION...
    local method=$1 layout=$work/$1-$2.layout.json
    expect_ok search "${models[@]}" --machine "$calibrated" --method "$method" --seed "$2" --proposals 50 -o "$layout"
    shift 2
    expect_layout "$layout" "$calibrated" 2 '(0.03 * r > 33554432 ? 0.03 * r : 33554432)' "$@"
}

expect_law data-parallel 0
expect_law data-parallel 0 --optimizer adam
expect_law data-parallel 0 --optimizer adamw --clip-norm 1
expect_law mcmc 1
for seed in 1 2 3; do
    expect_law random "$seed" --momentum 0.9
done

# ---- threads, each with scratch of its own

expect_ok calibrate "${models[@]}" --devices 2 --device-threads 2 --time 1 -o "$calibrated"
run_only=(--device-threads 2)
expect_law data-parallel 0 --optimizer adam
expect_law random 5 --momentum 0.9
run_only=()

# ---- bf16

expect_ok calibrate "${models[@]}" --devices 2 --time 1 --precision bf16 -o "$calibrated"
models+=(--precision bf16)
expect_law data-parallel 0 --optimizer adam
expect_law random 4 --momentum 0.9
# A rank of a split table does not pay for a rounding of the whole, nor for one of its share.
sed 's/"n_layer": 12/"n_layer": 1/' "$tree/configs/models/gpt2.json" >"$work/table.json"
models=(--model "$work/table.json" --batch 2 --sequence 16 --precision bf16)
expect_ok calibrate "${models[@]}" --devices 2 --time 1 -o "$calibrated"
expect_law zero-3 0

# ---- schedules

# Twice the devices, which are joined alike: what a rank has beside its arena does not change.
models=(--model "$tree/configs/models/byte_gpt.onnx" --batch 64)
expect_ok calibrate "${models[@]}" --devices 2 --time 1 -o "$calibrated"
four=$work/four.json
sed -e 's/^    "devices": 2,/    "devices": 4,/' -e 's/"kinds": \["core", "core"\]/"kinds": ["core", "core", "core", "core"]/' \
    -e 's/"join": \[\[0, 1\]\]/"join": [[0, 1, 2, 3]]/' "$calibrated" >"$four"

# A data-parallel layout, cut into stages of about equal numbers of operators, stage s on group s mod GROUPS.
cut() { # LAYOUT DEVICES GROUPS STAGES MICRO_BATCHES KIND
    awk -v devices="$2" -v groups="$3" -v stages="$4" -v m="$5" -v kind="$6" '
    { line[NR] = $0 }
    /"split"/ { operator[n++] = NR }
    END {
        each = devices / groups
        for (i = 0; i < n; i++) {
            stage = int(i * stages / n)
            if (i > 0 && stage > int((i - 1) * stages / n)) {
                split(line[operator[i]], word, "\"")
                names = names (names != "" ? ", " : "") "\"" word[2] "\""
            }
            list = stage % groups * each
            for (d = 1; d < each; d++)
                list = list ", " stage % groups * each + d
            sub(/: [0-9]+}/, ": " each "}", line[operator[i]])
            sub(/"devices": \[[^]]*\]/, "\"devices\": [" list "]", line[operator[i]])
        }
        for (i = 1; i <= NR; i++) {
            if (line[i] ~ /"operators"/)
                printf "\"schedule\": {\"micro_batches\": %d, \"kind\": \"%s\", \"stages\": [%s]},\n", m, kind, names
            print line[i]
        }
    }' "$1"
}

expect_schedule() { # MACHINE DEVICES GROUPS STAGES MICRO_BATCHES KIND OPTION...
    local with=$1 devices=$2 layout=$work/$6-$2-$3-$4-$5.layout.json
    expect_ok search "${models[@]}" --machine "$with" --method data-parallel -o "$work/whole.layout.json"
    cut "$work/whole.layout.json" "${@:2:5}" >"$layout"
    shift 6
    expect_layout "$layout" "$with" "$devices" '0.05 * r + 16777216' "$@"
}

expect_schedule "$calibrated" 2 1 1 4 1f1b --momentum 0.9
expect_schedule "$calibrated" 2 1 1 16 gpipe
expect_schedule "$calibrated" 2 2 2 8 1f1b
expect_schedule "$calibrated" 2 2 2 8 gpipe --optimizer adam
expect_schedule "$calibrated" 2 2 4 8 interleaved
expect_schedule "$four" 4 2 2 8 zb-h1
expect_schedule "$four" 4 4 4 16 1f1b
expect_schedule "$four" 4 4 4 4 zb-h1 --momentum 0.9
expect_schedule "$four" 4 2 4 4 interleaved

# ---- sharded state

expect_zero() { # MACHINE RANKS STAGE MICRO_BATCHES STAGES [--recompute WHAT] OPTION...
    local with=$1 ranks=$2 layout=$work/zero-$3-$2-$4-$5${7:-}.layout.json recompute=()
    [ "${6:-}" != --recompute ] || recompute=("$6" "$7")
    expect_ok search "${models[@]}" --machine "$with" --method data-parallel --zero "$3" --micro-batches "$4" \
        --stages "$5" "${recompute[@]}" -o "$layout"
    shift $((5 + ${#recompute[@]}))
    expect_layout "$layout" "$with" "$ranks" '0.05 * r + 16777216' "$@"
}

for zero in 1 2 3; do
    expect_zero "$calibrated" 2 $zero 1 1 --momentum 0.9
    expect_zero "$calibrated" 2 $zero 4 1 --optimizer adam
    expect_zero "$four" 4 $zero 4 2
done
expect_zero "$calibrated" 2 0 4 2 --recompute full
expect_zero "$four" 4 1 4 2 --recompute full

# ---- early updates

# Four layers of 12 x 512^2 weights: 48 MiB of gradients, all of which are there where they are clipped. Else one is
# at a time, of 4 MiB at most, and then the activations of the last of 32 tokens' layers are there besides.
gpt=$work/wide.json
cat >"$gpt" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 32, "n_embd": 512, "n_layer": 4, "n_head": 8}
END
models=(--model "$gpt" --sequence 32 --batch 1)
expect_ok calibrate "${models[@]}" --devices 1 --time 1 -o "$calibrated"
expect_ok search "${models[@]}" --machine "$calibrated" --method data-parallel -o "$work/one.layout.json"
expect_layout "$work/one.layout.json" "$calibrated" 1 33554432
early=$(json_list "$work/out" rss_peak_bytes)
expect_layout "$work/one.layout.json" "$calibrated" 1 33554432 --clip-norm 1
late=$(json_list "$work/out" rss_peak_bytes)
awk -v early="$early" -v late="$late" 'BEGIN { exit !(early > 0 && late >= early + 36 * 1048576) }' ||
    fail "$early bytes are resident with early updates, $late where they wait for the norm"

# ---- attention without stored scores

# The scores of 12 heads alone take 48 MiB at 1,024 tokens; what a rank takes is said as exactly without them, and of
# what it would take with them at 4,096 it is at most an eighth.
gpt=$work/config.json
cat >"$gpt" <<'END'
{"model_type": "gpt2", "vocab_size": 32, "n_positions": 4096, "n_embd": 96, "n_layer": 1, "n_head": 12,
 "attn_pdrop": 0.1}
END
models=(--model "$gpt" --sequence 1024 --batch 2)
expect_ok calibrate "${models[@]}" --devices 2 --time 2 -o "$calibrated"
expect_law data-parallel 0
expect_law random 1
peak_at_4096() { # FORM
    expect_ok simulate --model "$gpt" --sequence 4096 --batch 1 --machine "$tree/configs/machines/two-cores.json" \
        --devices 1 --method data-parallel --attention "$1" --json
    json_list "$work/out" peak_bytes
}
stored=$(peak_at_4096 stored)
fused=$(peak_at_4096 fused)
awk -v stored="$stored" -v fused="$fused" 'BEGIN { exit !(fused > 0 && stored >= 8 * fused) }' ||
    fail "at 4,096 tokens scores take $stored bytes where they are stored, $fused where not"
finish

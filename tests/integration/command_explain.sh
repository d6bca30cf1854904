# Constraints of a search, and what explains it: show's counts, explain, diff.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

lenet=(--model "$models/lenet5.onnx" --batch 64)
k80=$tree/configs/machines/k80-16x4.json
four=("${lenet[@]}" --machine "$k80" --devices 4)
search=("${four[@]}" --proposals 100 --quiet)

# expect_differ WORDS...: exit 1 without a word on stderr, as of diff(1); output in $work/out.
expect_differ() {
    local exit=0
    "$cleave" "$@" >"$work/out" 2>"$work/err" || exit=$?
    [ "$exit" = 1 ] || fail "cleave $*: exit $exit instead of 1: $(cat "$work/err")"
    [ ! -s "$work/err" ] || fail "cleave $*: something on stderr: $(cat "$work/err")"
}

# --- --fix keeps what a file lists: one operator of a whole layout, with its devices in their order
expect_ok search "${search[@]}" --method data-parallel -o "$work/dp.layout.json"
only_operator() { # NAME SPLIT DEVICES [DEVICES-IN-ALL]
    sed -n '1,/"operators"/p' "$work/dp.layout.json" | sed "s/\"devices\": 4,/\"devices\": ${4:-4},/"
    printf '    "%s": {"split": {%s}, "devices": [%s]}\n  }\n}\n' "$1" "$2" "$3"
}
only_operator /f1/Gemm '"k": 3' '2, 0, 3' >"$work/fix.layout.json"
expect_ok search "${search[@]}" --fix "$work/fix.layout.json" -o "$work/plan.layout.json"
grep -qF '"/f1/Gemm": {"split": {"k": 3}, "devices": [2, 0, 3]}' "$work/plan.layout.json" ||
    fail "--fix does not keep its operator: $(cat "$work/plan.layout.json")"
expect_ok search "${search[@]}" --fix "$work/fix.layout.json" --method random -o "$work/plan.layout.json"
grep -qF '"/f1/Gemm": {"split": {"k": 3}, "devices": [2, 0, 3]}' "$work/plan.layout.json" ||
    fail "--fix does not keep its operator in a random layout"
# A file for more devices will do, as long as its operators are on those that there are.
only_operator /f1/Gemm '"k": 3' '2, 0, 3' 64 >"$work/fix.layout.json"
expect_ok search "${search[@]}" --fix "$work/fix.layout.json" -o "$work/plan.layout.json"

# --- --only: no degree of another axis.  LeNet's sample axis is n.
expect_ok search "${search[@]}" --only sample -o "$work/plan.layout.json"
grep -E '"split": \{[^}]*"[a-mo-z]+": ' "$work/plan.layout.json" && fail "--only sample splits another axis"
expect_ok search "${search[@]}" --only parameter,operator --json -o "$work/plan.layout.json"
grep -E '"split": \{[^}]*"n": ' "$work/plan.layout.json" && fail "--only parameter,operator splits n"
grep -q '"data-parallel": null' "$work/out" || fail "data parallelism applies to --only parameter"
# Nothing to split with a batch of 1: replicas and single devices remain.
expect_ok search --model "$models/lenet5.onnx" --batch 1 --machine "$k80" --devices 4 --proposals 50 --quiet \
    --only sample -o "$work/plan.layout.json"

# --- Conflicts are named
only_operator /f1/Gemm '"k": 2' '7, 1' 8 >"$work/fix.layout.json"
expect_error 2 'keeps operator "/f1/Gemm" on device 7, but there are 4 devices' search "${search[@]}" \
    --fix "$work/fix.layout.json" -o "$work/output"
only_operator /f1/Gemm '"k": 2' '0, 1' >"$work/fix.layout.json"
expect_error 3 'operator "/f1/Gemm", as --fix' search "${search[@]}" --fix "$work/fix.layout.json" \
    --memory-limit "60 KiB" -o "$work/output"
expect_error 3 "under --fix $work/fix.layout.json (1 operator) and --only sample" search "${search[@]}" \
    --fix "$work/fix.layout.json" --only sample --memory-limit "500 KiB" -o "$work/output"
expect_error 2 '2 stages are blocks of devices: they go with --only sample,operator' search "${search[@]}" --only sample \
    --stages 2 -o "$work/output"
expect_error 3 'method "data-parallel" does not apply' search "${search[@]}" --only parameter \
    --method data-parallel -o "$work/output"
expect_error 2 '"samples" is none of sample, operator' search "${search[@]}" --only samples -o "$work/output"
only_operator nobody '' '0' >"$work/nobody.layout.json"
expect_error 2 'has no operator "nobody"' search "${search[@]}" --fix "$work/nobody.layout.json" -o "$work/output"
expect_error 2 "missing.json" search "${search[@]}" --fix "$work/missing.json" -o "$work/output"
sed 's/"hash": "[^"]*"/"hash": "00"/' "$work/fix.layout.json" >"$work/other.layout.json"
expect_error 2 "was made for another model" search "${search[@]}" --fix "$work/other.layout.json" -o "$work/output"

# --- show counts splits: 1 device in 4 places, 2 (in a node) in 2, 4; by hand for n v of the loss:
# a pair by replicas, n or v is 3 ways at 2 blocks; four devices are two equal factors: 6 ways.
expect_ok show "$models/lenet5.onnx" --batch 64 --machine "$k80" --devices 4 --json
grep -q '"@loss": .*"splits": 16.0, "searched": 16.0' "$work/out" || fail "the splits of a loss are not 16: $(cat "$work/out")"
expect_ok show "$models/lenet5.onnx" --batch 64 --machine "$k80" --devices 4
grep -q '^10^11.4 layouts on 4 devices of k80-16x4' "$work/out" || fail "no size of the space: $(cat "$work/out")"
grep -q 'nothing is cut off' "$work/out" || fail "a small space is cut off"
expect_ok show "$models/alexnet.onnx" --batch 64 --machine "$k80"
grep -q 'of them are searched' "$work/out" || fail "a large space is not cut off"
expect_error 2 "goes with a model" show "$k80" --machine "$k80"
expect_error 2 "goes with a model" show operators --json
expect_error 2 "--devices goes with --machine" show "$models/lenet5.onnx" --devices 4

# --- explain
explain=("${lenet[@]}" --machine "$k80" --layout "$work/dp.layout.json")
expect_ok explain "${explain[@]}"
for words in 'critical path' 'busiest link' 'fullest device' '/c1/Conv' '@loss' 'other splits tried'; do
    grep -qF "$words" "$work/out" || fail "explain says nothing of $words"
done
expect_ok explain "${explain[@]}" --json --splits 0
cp "$work/out" "$work/all.json"
step=$(json_value "$work/out" step_seconds)
expect_ok simulate "${lenet[@]}" --machine "$k80" --layout "$work/dp.layout.json" --json
[ "$(json_value "$work/out" step_seconds)" = "$step" ] || fail "explain's step is not simulate's"
awk -F'[:,]' '/"share"/ { total += $2 } END { exit !(total > 0.9 && total < 1.0001) }' "$work/all.json" ||
    fail "shares do not add up to a step"
awk -F'[:,]' '/"share"/ { if (seen && $2 > last) exit 1; last = $2; seen = 1 }' "$work/all.json" ||
    fail "operators are not in the order of their shares"
expect_ok explain "${explain[@]}" --operator /f1/Gemm --json
grep -q '"name": "/f1/Gemm"' "$work/out" || fail "--operator does not tell of it"
[ "$(grep -c '"name": ' "$work/out")" = 1 ] || fail "--operator tells of others"
expect_ok explain "${explain[@]}" --operator /f1/Gemm
grep -q 'weight-gradient' "$work/out" || fail "--operator has no passes"
for i in 1 2; do
    expect_ok explain "${explain[@]}" --json
    cp "$work/out" "$work/again$i.json"
done
cmp "$work/again1.json" "$work/again2.json" || fail "two explanations differ"
expect_error 2 'has no operator "nobody"' explain "${explain[@]}" --operator nobody
expect_error 2 --layout explain "${four[@]:0:6}"
expect_error 2 missing.json explain "${lenet[@]}" --machine "$k80" --layout "$work/missing.json"

# --- diff
diff=("${lenet[@]}")
expect_ok diff "$work/dp.layout.json" "$work/dp.layout.json" "${diff[@]}"
grep -q 'layouts are the same' "$work/out" || fail "a layout differs from itself"
expect_ok diff "$work/dp.layout.json" "$work/dp.layout.json" "${diff[@]}" --machine "$k80" --json
[ "$(json_value "$work/out" differences)" = 0 ] || fail "a layout differs from itself"
sed -e 's|\("/f2/Gemm": \).*|\1{"split": {"k": 2}, "devices": [0, 1]},|' \
    -e 's|^  "operators"|  "parameters": {"f1.weight": {"update": "sharded"}},\n&|' \
    -e '/"collectives"/,$d' "$work/dp.layout.json" >"$work/b.layout.json"
printf '  "collectives": {"all-reduce": "ring"}\n}\n' >>"$work/b.layout.json"
if ! "$cleave" simulate "${four[@]}" --layout "$work/b.layout.json" >/dev/null 2>"$work/err"; then
    fail "the changed layout is none: $(cat "$work/err")"
fi
expect_differ diff "$work/dp.layout.json" "$work/b.layout.json" "${diff[@]}"
grep -Eq '^/f2/Gemm +n=4 +0-3 +k=2 +0-1' "$work/out" || fail "diff does not show the split: $(cat "$work/out")"
grep -Eq '^f1.weight +replicated +sharded' "$work/out" || fail "diff does not show the update: $(cat "$work/out")"
grep -q '^collectives of B: .*ring' "$work/out" || fail "diff does not show the collectives: $(cat "$work/out")"
[ "$(grep -c Gemm "$work/out")" = 1 ] || fail "diff shows what is the same: $(cat "$work/out")"
expect_differ diff "$work/dp.layout.json" "$work/b.layout.json" "${diff[@]}" --machine "$k80" --json
for key in differences operators updates; do
    grep -q "^  \"$key\": " "$work/out" || fail "diff --json has no $key"
done
[ "$(grep -c step_seconds_with_b "$work/out")" = 2 ] || fail "diff says not what the changes are worth: $(cat "$work/out")"
# Of different numbers of devices.
expect_ok search "${lenet[@]}" --machine "$k80" --devices 8 --method data-parallel --quiet -o "$work/eight.layout.json"
expect_differ diff "$work/dp.layout.json" "$work/eight.layout.json" "${diff[@]}"
grep -Eq '^/c1/Conv +n=4 +0-3 +n=8 +0-7' "$work/out" || fail "diff of 4 and 8 devices: $(cat "$work/out")"
expect_differ diff "$work/dp.layout.json" "$work/eight.layout.json" "${diff[@]}" --machine "$k80"
expect_error 2 B diff "$work/dp.layout.json" "${diff[@]}"
expect_error 2 "given twice" diff a b c "${diff[@]}"
expect_error 2 missing.json diff "$work/dp.layout.json" "$work/missing.json" "${diff[@]}"
expect_error 2 "was made for" diff "$work/dp.layout.json" "$work/dp.layout.json" --model "$models/lenet5.onnx" --batch 8

# --- a machine that says what collectives take: no link does what they do
a100="$tree/configs/machines/a100-128x8.json"
gpt=(--model "$models/byte_gpt.onnx" --batch 8)
expect_ok search "${gpt[@]}" --machine "$a100" --devices 4 --method data-parallel --quiet -o "$work/dp4.layout.json"
expect_ok explain "${gpt[@]}" --machine "$a100" --quiet --layout "$work/dp4.layout.json"
grep -q '^busiest link  *none, collectives apart$' "$work/out" || fail "links of collectives: $(head -6 "$work/out")"

# --- a page of a plan beside which no baseline fits
expect_ok report --model "$models/alexnet.onnx" --batch 32 --machine "$tree/configs/machines/two-cores.json" --quiet \
    --layout "$tree/configs/layouts/alexnet-32-two-cores.layout.json" --memory-limit 9MiB -o "$work/page.html"
finish

# `cleave sweep`: a point is what `search` finds there; workers and interruptions change no byte; what is there is whole.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

p100=$tree/configs/machines/p100-4x4.json
gpt=(--model "$models/byte_gpt.onnx" --batch 16 --machine "$p100" --optimizer adam)
vary=(--vary devices=4,8 --vary network.bandwidth=1..9x3Gbit/s)
asked=(--price-per-device-hour 2.5 --samples 1e9)

# expect_same FOLDER: the files of the first sweep
expect_same() {
    local file
    for file in sweep.csv sweep.json sweep.html; do
        cmp -s "$work/one/$file" "$1/$file" || fail "$file of $1 is another one"
    done
    diff -r "$work/one/plans" "$1/plans" >/dev/null || fail "the plans of $1 are others"
}

expect_ok sweep "${gpt[@]}" "${vary[@]}" "${asked[@]}" --workers 1 --quiet -o "$work/one"
cp "$work/out" "$work/one.txt"
[ "$(wc -l <"$work/one/sweep.csv")" = 7 ] || fail "not a row for each of 6 points: $(cat "$work/one/sweep.csv")"
grep -q '^devices at network.bandwidth=1 Gbit/s: ' "$work/one.txt" || fail "no knee is named: $(cat "$work/one.txt")"

# --- interrupted, it leaves whole points, and goes on from them; two workers come to the same as one
"$cleave" sweep "${gpt[@]}" "${vary[@]}" "${asked[@]}" --workers 2 --quiet -o "$work/cut" >"$work/out" 2>"$work/err" &
sweep=$!
while kill -0 "$sweep" 2>/dev/null && ! grep -q '"done": true' "$work/cut/sweep.json" 2>/dev/null; do
    sleep 0.02
done
kill -INT "$sweep" 2>/dev/null
exit=0
wait "$sweep" || exit=$?
[ "$exit" = 1 ] || fail "interrupted: exit $exit: $(cat "$work/err")"
grep -q '^cleave sweep: interrupted: [1-5] of 6 points are done' "$work/err" || fail "interrupted: $(cat "$work/err")"
[ ! -e "$work/cut/sweep.csv" ] && [ ! -e "$work/cut/sweep.html" ] && [ ! -e "$work/cut/unfinished" ] ||
    fail "interrupted, it left $(ls "$work/cut")"
[ "$(grep -c '"done": true' "$work/cut/sweep.json")" = "$(find "$work/cut/plans" -name '*.layout.json' | wc -l)" ] ||
    fail "the points that are done are not those with plans"
expect_error 2 "--resume goes on with it" sweep "${gpt[@]}" "${vary[@]}" -o "$work/cut"
expect_error 2 "$.options: is of another sweep" sweep "${gpt[@]}" --seed 7 "${vary[@]}" --resume -o "$work/cut"
expect_error 2 "$.vary: is of another sweep" sweep "${gpt[@]}" --vary devices=4,8 --resume -o "$work/cut"
# What a search left that was ended while it wrote goes, too.
mkdir "$work/cut/unfinished"
touch "$work/cut/unfinished/$(basename "$(find "$work/cut/plans" -name '*.layout.json' | head -1)").tmp-1"
expect_ok sweep "${gpt[@]}" "${vary[@]}" "${asked[@]}" --workers 2 --quiet --resume -o "$work/cut"
[ ! -e "$work/cut/unfinished" ] || fail "resumed, it left $(ls "$work/cut/unfinished")"
expect_same "$work/cut"
# A layout that is gone is found again.
rm "$work/cut/plans/"2-*
expect_ok sweep "${gpt[@]}" "${vary[@]}" "${asked[@]}" --quiet --resume -o "$work/cut"
expect_same "$work/cut"

# --- a point is a search, with a machine that has its figures
for bandwidth in 3 9; do
    sed "s|\"100 Gbit/s\"|\"$bandwidth Gbit/s\"|" "$p100" >"$work/other.machine.json"
    grep -q "\"$bandwidth Gbit/s\"" "$work/other.machine.json" || fail "the network of $p100 is not as it was"
    expect_ok search --model "$models/byte_gpt.onnx" --batch 16 --machine "$work/other.machine.json" --optimizer adam \
        --devices 8 --threads 1 --quiet --json -o "$work/alone.layout.json"
    json_value "$work/out" step_seconds >"$work/alone.$bandwidth"
done
python3 - "$work" <<'PYTHON' || fail "points and searches differ: $(cat "$work/one/sweep.csv")"
import csv, json, sys
work = sys.argv[1]
rows = {(row["devices"], row["network.bandwidth [Gbit/s]"]): row for row in csv.DictReader(open(work + "/one/sweep.csv"))}
alone = {b: float(open(f"{work}/alone.{b}").read()) for b in "39"}
swept = {b: float(rows["8", b]["step_seconds"]) for b in "39"}
assert abs(swept["9"] / alone["9"] - 1) < 1e-11, (swept, alone)  # of the first wave
assert swept["3"] <= alone["3"] * (1 + 1e-11), (swept, alone)    # of the second, which is offered more
for row in rows.values():
    step, devices = float(row["step_seconds"]), int(row["devices"])
    assert abs(float(row["samples_per_second"]) / (16 / step) - 1) < 1e-9, row
    assert abs(float(row["days"]) / (1e9 / 16 * step / 86400) - 1) < 1e-6, row
    assert abs(float(row["cost"]) / (float(row["days"]) * 24 * devices * 2.5) - 1) < 1e-6, row
points = json.load(open(work + "/one/sweep.json"))["points"]
assert [float(row["step_seconds"]) for row in rows.values()] == [float("%.12g" % p["step_seconds"]) for p in points]
page = open(work + "/one/sweep.html").read()
assert all(p["layout"] in page and p["machine"] in page for p in points)
PYTHON
plan=$work/one/plans/4-devices-8-network.bandwidth-3Gbits.layout.json
expect_ok simulate --model "$models/byte_gpt.onnx" --batch 16 --layout "$plan" --optimizer adam --json \
    --machine "$work/one/plans/network.bandwidth-3Gbits.machine.json"
grep -q "^8,3,8,16,$(awk -v s="$(json_value "$work/out" step_seconds)" 'BEGIN { printf "%.12g", s }')," \
    "$work/one/sweep.csv" || fail "the plan of a point does not take what the point says: $(cat "$work/out")"

# --- what does not fit is a row with the reason
expect_ok sweep "${gpt[@]}" --devices 2 --vary memory-limit=1,1024MiB --quiet -o "$work/tight"
grep -q '^1,2,,.*"\?no layout fits' "$work/tight/sweep.csv" || fail "no reason: $(cat "$work/tight/sweep.csv")"
grep -q 'does not fit' "$work/out" || fail "not said: $(cat "$work/out")"

# --- refused before anything is made
expect_refused() { # PATTERN WORDS...
    local pattern=$1
    shift
    expect_error 2 "$pattern" sweep "${gpt[@]}" "$@" -o "$work/output"
}
expect_refused "network.bandwith is no figure of the machine; it has" --vary network.bandwith=1GB/s
expect_refused '$.network.bandwidth: "1" has no unit' --vary network.bandwidth=1
expect_refused "--vary devices=4..2: a range goes from the smaller" --vary devices=4..2
expect_refused "17 are more than the 16 of p100-4x4" --vary devices=17
expect_refused "--batch is given, and varied" --vary batch=16,32
expect_refused "--vary NAME=VALUES is missing"
expect_error 2 "no.onnx" sweep --model "$work/no.onnx" --machine "$p100" --vary devices=2 -o "$work/output"
: >"$work/file"
expect_error 2 "file: is no folder" sweep "${gpt[@]}" --vary devices=2 -o "$work/file"
# What a point alone can't be is said with its values.
expect_error 2 "method=none: method \"none\" is not known" sweep "${gpt[@]}" --devices 2 --vary method=none --quiet -o "$work/bad"
finish

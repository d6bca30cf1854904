# `cleave run` over real ranks: its results, the same again, as many ranks as devices, and bad input.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
launcher=$3

lenet=(--model "$models/lenet5.onnx" --batch 16)
layout=$work/plan.layout.json
expect_ok search "${lenet[@]}" --machine "$machine" --method random --seed 3 -o "$layout"

# The same seed gives the same weights to the bit, and the loss goes down.
for i in 1 2; do
    expect_ok run "${lenet[@]}" --layout "$layout" --steps 4 --seed 5 --lr 0.05 --momentum 0.9 \
        --save "$work/weights$i.safetensors" --machine "$machine" --trace "$work/trace.json" --json
done
cmp "$work/weights1.safetensors" "$work/weights2.safetensors" || fail "two runs with one seed differ"
for key in step_seconds predicted_step_seconds steps loss bytes_sent bytes_between peak_bytes rss_peak_bytes \
    price_shares step_spread_seconds time_by_kind largest_errors messages_compared; do
    grep -q "^  \"$key\": " "$work/out" || fail "no key $key in $(cat "$work/out")"
done
losses=$(sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$work/out" | tr -d ',')
awk -v losses="$losses" 'BEGIN { exit !(split(losses, l, " ") == 4 && l[4] < l[1]) }' || fail "losses $losses"
[ "$(grep -c '^    {"item": .*"error_seconds": ' "$work/out")" = 10 ] || fail "not ten largest errors: $(cat "$work/out")"
# The rows of a device's time add up to its step, predicted and (of the median step) measured.
predicted=$(json_value "$work/out" predicted_step_seconds)
sed -n 's/.*"kind": "[^"]*", "items".*"predicted_seconds": \([^,]*\),.*/\1/p' "$work/out" |
    awk -v p="$predicted" '{ s += $1 } END { exit !(NR == 8 && s > 0.999999 * p && s < 1.000001 * p) }' ||
    fail "the rows do not add up to $predicted: $(cat "$work/out")"
shares_add_up() {
    sed -n 's/^  "price_shares": {"measured": \([^,]*\), "predicted": \([^,]*\), "data_sheet": \([^,]*\),.*/\1 \2 \3/p' \
        "$work/out" | awk '{ s = $1 + $2 + $3 } END { exit !(NR == 1 && s > 0.999999 && s < 1.000001) }' ||
        fail "shares that are not 1: $(cat "$work/out")"
}
shares_add_up
# The ranks' times are on one clock: no message is there before it is sent.
awk '
    function number(key) { match($0, "\"" key "\": [-0-9.e]*"); return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0 }
    match($0, /"name": "(send|wait) .* [0-9]+ -> [0-9]+"/) {
        name = substr($0, RSTART + 9, RLENGTH - 10); kind = substr(name, 1, 4); name = substr(name, 6)
        n = split(name, words, " "); device = number("pid") / 2
        if (device != int(device)) next # predicted
        if (kind == "send") sent[name, ++n_sent[name]] = number("ts")
        else if (device == words[n]) came[name, ++n_came[name]] = number("ts") + number("dur")
    }
    END {
        for (name in n_came) for (i = 1; i <= n_came[name]; i++) { n_checked++; if (came[name, i] < sent[name, i] - 5) exit 1 }
        exit !(n_checked > 0)
    }' "$work/trace.json" || fail "a message came before it was sent, or there was none"
expect_ok show "$work/trace.json"
grep -q '^events .*measured .*predicted' "$work/out" || fail "not measured beside predicted: $(cat "$work/out")"
grep -q '^compute ' "$work/out" || fail "no compute in the trace"
for process in "device 0 measured" "device 0 predicted" "device 1 measured" "device 1 predicted" "links predicted"; do
    grep -q "^$process " "$work/out" || fail "no process $process in the trace: $(cat "$work/out")"
done
expect_ok run "${lenet[@]}" --layout "$layout" --steps 3 --trace "$work/trace.json"
grep -q predicted "$work/trace.json" && fail "a prediction without a machine"
grep -q '"device 1 measured"' "$work/trace.json" || fail "no measured device in the trace"
expect_ok run "${lenet[@]}" --layout "$layout" --steps 4 --seed 6 --save "$work/weights3.safetensors"
cmp -s "$work/weights1.safetensors" "$work/weights3.safetensors" && fail "another seed changes nothing"

# What is counted is what was predicted, between every two devices.
bytes_between() { sed -n '/"bytes_between"/,/^  \]/p' "$work/out"; }
expect_ok run "${lenet[@]}" --layout "$layout" --steps 2 --json
bytes_between >"$work/run.bytes"
expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$layout" --json
bytes_between >"$work/simulate.bytes"
[ -s "$work/run.bytes" ] && cmp "$work/run.bytes" "$work/simulate.bytes" || fail "bytes differ"

# With clipping, too: one more number goes each way.  The norm is told, and the layout does not change it.
norms() { sed -n 's/^  "gradient_norm": \[\(.*\)\],*$/\1/p' "$work/out" | tr -d ','; }
expect_ok run "${lenet[@]}" --layout "$layout" --steps 3 --clip-norm 0.5 --json
bytes_between >"$work/run.clipped"
two=$(norms)
expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$layout" --clip-norm 0.5 --json
bytes_between | cmp - "$work/run.clipped" || fail "bytes differ where gradients are clipped"
expect_ok run "${lenet[@]}" --steps 3 --clip-norm 0.5 --json
awk -v a="$two" -v b="$(norms)" 'BEGIN {
    n = split(a, x, " "); bad = n != 3 || split(b, y, " ") != n || x[3] == x[1]
    for (i = 1; i <= n; i++) bad = bad || x[i] < 0.9999 * y[i] || x[i] > 1.0001 * y[i]
    exit bad
}' || fail "two ranks have the norms $two and one $(norms)"
expect_ok run "${lenet[@]}" --steps 2 --clip-norm 0.5
grep -q '^norm of the gradients ' "$work/out" || fail "no norm in $(cat "$work/out")"

# Where no gradient counts, a decay of 1 at rate 0.5 halves what it acts on, and leaves the rest to the bit.
expect_error 2 'no parameter is named like "x*"' run "${lenet[@]}" --no-decay 'c*,x*' --steps 1
decay=(--optimizer sgd --steps 1 --lr 0.5 --clip-norm 1e-30)
expect_ok run "${lenet[@]}" "${decay[@]}" --save "$work/undecayed.safetensors"
expect_ok run "${lenet[@]}" --layout "$layout" "${decay[@]}" --weight-decay 1 --no-decay 'c1.*,*.bias' \
    --save "$work/decayed.safetensors"
python3 - "$work/undecayed.safetensors" "$work/decayed.safetensors" <<'PYTHON' || fail "the decay acted on others"
import json, struct, sys

def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    return {k: struct.unpack("<%df" % ((v["data_offsets"][1] - v["data_offsets"][0]) // 4),
                             data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]])
            for k, v in head.items() if k != "__metadata__"}

before, after = read(sys.argv[1]), read(sys.argv[2])
kept = {k for k in before if k.startswith("c1.") or k.endswith(".bias")}
sys.exit(not (kept and len(kept) < len(before) and before.keys() == after.keys() and
              all(after[k] == tuple(x if k in kept else x / 2 for x in before[k]) for k in before)))
PYTHON

# A run goes on from saved weights, and forward saves outputs.
expect_ok run "${lenet[@]}" --layout "$layout" --steps 1 --weights "$work/weights1.safetensors"
expect_ok run "${lenet[@]}" --layout "$layout" --forward --weights "$work/weights1.safetensors" \
    --save "$work/forward.safetensors"
[ -s "$work/forward.safetensors" ] || fail "no outputs"

# Forward needs no targets.  (The file: eight bytes of header length, the header, the data.)
header='{"input":{"dtype":"F32","shape":[16,1,28,28],"data_offsets":[0,50176]}}'
{
    printf '%b\0\0\0\0\0\0\0%s' "\\x$(printf %x ${#header})" "$header"
    head -c 50176 /dev/zero
} >"$work/input.safetensors"
expect_ok run "${lenet[@]}" --layout "$layout" --forward --data "$work/input.safetensors"
expect_error 2 targets run "${lenet[@]}" --layout "$layout" --data "$work/input.safetensors"

# Without a layout all runs on one device, and forward gives what it gives under any layout.
expect_ok run "${lenet[@]}" --steps 1
expect_ok run "${lenet[@]}" --forward --weights "$work/weights1.safetensors" --save "$work/alone.safetensors" --json
[ "$(wc -c <"$work/alone.safetensors")" = "$(wc -c <"$work/forward.safetensors")" ] || fail "other outputs on one device"
[ "$(grep -c '"peak_bytes": \[[0-9]*\]' "$work/out")" = 1 ] || fail "not one device: $(cat "$work/out")"

# A model without anything to train runs forward.  (y = relu(x), three elements each.)
value='\x12\x0a\x0a\x08\x08\x01\x12\x04\x0a\x02\x08\x03'
printf '%b' "\\x08\\x07\\x3a\\x33\\x0a\\x0c\\x0a\\x01x\\x12\\x01y\\x22\\x04Relu\\x12\\x01g" \
    "\\x5a\\x0f\\x0a\\x01x$value\\x62\\x0f\\x0a\\x01y$value\\x42\\x04\\x0a\\x00\\x10\\x0d" >"$work/relu.onnx"
expect_ok run --model "$work/relu.onnx" --forward --save "$work/y.safetensors"
grep -q '"y"' "$work/y.safetensors" || fail "y was not saved"
expect_error 2 "rank 1" run --model "$work/relu.onnx"
expect_error 2 plan.layout.json run --model "$work/relu.onnx" --forward --layout "$layout"

# A float of fixed shape in a file without initializers is taken for a parameter; what is given as its data is not
# left out without a word, and --inputs makes it data.
safetensors() { # NAME DTYPE SHAPE BYTES ESCAPED_DATA: a file of one tensor
    local header='{"'$1'":{"dtype":"'$2'","shape":['$3'],"data_offsets":[0,'$4']}}'
    printf '%b\0\0\0\0\0\0\0%s%b' "\\x$(printf %x ${#header})" "$header" "$5"
}
safetensors x F32 3 12 '\0\0\x80\xbf\0\0\0\x40\0\0\x40\x40' >"$work/x.safetensors" # -1 2 3
expect_error 2 "no data but a parameter of the model, since it is of floats and of fixed shape, in a file without \
initializers; data: none (--inputs x makes it data" run --model "$work/relu.onnx" --forward --data "$work/x.safetensors"
expect_ok run --model "$work/relu.onnx" --forward --inputs x --data "$work/x.safetensors" --save "$work/y.safetensors"
[ "$(tail -c 12 "$work/y.safetensors" | od -An -tx1 | tr -d ' ')" = 000000000000004000004040 ] || fail "not 0 2 3"
expect_ok show "$work/relu.onnx"
grep -q '^x  *parameter  *it is of floats' "$work/out" || fail "x is no parameter: $(cat "$work/out")"
expect_ok show "$work/relu.onnx" --inputs x --json
grep -q '"x": {"taken_for": "data", "since": "--inputs names it"}' "$work/out" || fail "x is no data: $(cat "$work/out")"
expect_error 2 '"z" is no input of the graph' run --model "$work/relu.onnx" --forward --inputs x,z
safetensors c1.weight F32 6,1,5,5 600 '' >"$work/weight.safetensors"
head -c 600 /dev/zero >>"$work/weight.safetensors"
expect_error 2 "c1.weight is no data but a parameter" run "${lenet[@]}" --data "$work/weight.safetensors"
expect_error 2 "was made for another model" simulate "${lenet[@]}" --inputs input,c1.weight \
    --machine "$machine" --layout "$layout"

# Truth values come and go as BOOL.  (y = not x, three elements each.)
value='\x12\x0a\x0a\x08\x08\x09\x12\x04\x0a\x02\x08\x03'
printf '%b' "\\x08\\x07\\x3a\\x32\\x0a\\x0b\\x0a\\x01x\\x12\\x01y\\x22\\x03Not\\x12\\x01g" \
    "\\x5a\\x0f\\x0a\\x01x$value\\x62\\x0f\\x0a\\x01y$value\\x42\\x04\\x0a\\x00\\x10\\x0d" >"$work/not.onnx"
safetensors x BOOL 3 3 '\0\x01\0' >"$work/x.safetensors"
expect_ok run --model "$work/not.onnx" --forward --data "$work/x.safetensors" --save "$work/y.safetensors"
[ "$(tail -c 3 "$work/y.safetensors" | od -An -tx1)" = ' 01 00 01' ] || fail "not 1 0 1"
grep -q '"y": {"dtype": "BOOL"' "$work/y.safetensors" || fail "y is not saved as BOOL: $(head -c 100 "$work/y.safetensors")"
expect_error 2 "tensor x is BOOL of 3, but the model needs F32 of 3" \
    run --model "$work/relu.onnx" --forward --inputs x --data "$work/x.safetensors"

# Bad input.
head -c 100 "$work/weights1.safetensors" >"$work/cut.safetensors"
expect_error 2 cut.safetensors run "${lenet[@]}" --layout "$layout" --weights "$work/cut.safetensors"
expect_error 2 nowhere run "${lenet[@]}" --layout "$layout" --data "$work/nowhere"
expect_error 2 --momentum run "${lenet[@]}" --layout "$layout" --momentum 2
expect_error 2 --steps run "${lenet[@]}" --layout "$layout" --steps 0

# As many ranks as the layout has devices, or exit 2.
"$launcher" -n 3 "$cleave" run "${lenet[@]}" --layout "$layout" --steps 1 >"$work/out" 2>"$work/err"
[ $? = 2 ] || fail "3 ranks for 2 devices: not exit 2"
[ "$(grep -c '^cleave' "$work/err")" = 1 ] || fail "3 ranks for 2 devices: not one line: $(cat "$work/err")"
"$launcher" -n 2 "$cleave" run "${lenet[@]}" --layout "$layout" --steps 1 >"$work/out" 2>"$work/err" ||
    fail "2 ranks under a launcher: $(cat "$work/err")"
[ "$(grep -c '^step, median' "$work/out")" = 1 ] || fail "not one rank prints: $(cat "$work/out")"

# Calibration writes a machine that search takes, and goes on where it stopped.
small=(--model "$models/mlp.onnx" --batch 8)
expect_ok calibrate "${small[@]}" --devices 2 --time 3 -o "$work/machine.json"
expect_ok calibrate "${small[@]}" --devices 2 --time 3 -o "$work/machine.json"
grep -qE ' [1-9][0-9]* kept' "$work/out" || fail "nothing was kept: $(cat "$work/out")"
expect_ok show "$work/machine.json"
# On a busy machine some seconds measure little: with more of them all that a layout needs gets a price.
for seconds in 10 20 40 80; do
    expect_ok simulate "${small[@]}" --machine "$work/machine.json" --method data-parallel --json
    grep -qE '"data_sheet": 0\.0|"data_sheet": [0-9.]*e-' "$work/out" && break
    expect_ok calibrate "${small[@]}" --devices 2 --time "$seconds" -o "$work/machine.json"
done
expect_ok simulate "${small[@]}" --machine "$work/machine.json" --method data-parallel --json
shares_add_up
grep -qE '"data_sheet": 0\.0|"data_sheet": [0-9.]*e-' "$work/out" || fail "data sheets after a calibration: $(cat "$work/out")"
grep -q '"measured": 0.0,' "$work/out" && fail "nothing measured after a calibration: $(cat "$work/out")"
expect_ok simulate "${small[@]}" --machine "$work/machine.json" --method data-parallel
grep -q '^prices .*% measured' "$work/out" || fail "no shares of prices: $(cat "$work/out")"
expect_ok compare "${small[@]}" --machine "$work/machine.json" --proposals 20 --steps 2
grep -q '^found' "$work/out" || fail "compare has no found plan"
expect_error 2 --batch calibrate "${small[@]}" --model "$models/lenet5.onnx" --devices 2 -o "$work/output"
finish

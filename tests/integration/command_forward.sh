# One pass forward by the command: searched for latency and for throughput, said in the layout's file, simulated,
# explained, run, and what does not go with it.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

gpt=(--model "$models/byte_gpt.onnx" --batch 8)
mlp=(--model "$models/mlp.onnx" --batch 64)
quiet=(--machine "$machine" --quiet)

# --- the least latency, and what it is
expect_ok search "${gpt[@]}" "${quiet[@]}" --forward --json -o "$work/latency.layout.json"
for key in '"step": "forward"' '"goal": "latency"' '"zero-1": null'; do
    grep -qF "$key" "$work/out" || fail "search --forward --json lacks $key: $(cat "$work/out")"
done
grep -qF '"step": "forward"' "$work/latency.layout.json" || fail "the layout does not say what its step is"
latency=$(json_value "$work/out" step_seconds)
awk -v s="$latency" -v b="$(json_value "$work/out" lower_bound_seconds)" \
    -v n="$(json_value "$work/out" samples_per_second)" -v d="$(json_value "$work/out" data-parallel)" \
    'BEGIN { exit !(b > 0 && b <= s && s <= d && n * s > 7.99 && n * s < 8.01) }' || fail "figures: $(cat "$work/out")"

# --- a quarter of a step of training, or a little more, in less memory
expect_ok search "${gpt[@]}" "${quiet[@]}" --method data-parallel --json -o "$work/trained.layout.json"
awk -v f="$latency" -v t="$(json_value "$work/out" step_seconds)" 'BEGIN { exit !(f < 0.5 * t) }' ||
    fail "forward takes $latency: $(cat "$work/out")"

# --- one batch behind another: stages work on several
expect_ok search "${gpt[@]}" "${quiet[@]}" --forward --throughput --stages 2 --micro-batches 1 --json \
    -o "$work/stream.layout.json"
for key in '"goal": "throughput"' '"stages": 2' '"micro_batches": 1'; do
    grep -qF "$key" "$work/out" || fail "search --throughput --json lacks $key: $(cat "$work/out")"
done
period=$(json_value "$work/out" step_seconds)
expect_ok show "$work/stream.layout.json"
for row in 'in units of a forward:' 'group 0    F0 .' 'group 1    .  F0'; do
    grep -qxF "$row" "$work/out" || fail "show does not draw \"$row\" alone: $(head -12 "$work/out")"
done
expect_ok simulate "${gpt[@]}" --machine "$machine" --forward --layout "$work/stream.layout.json" --json
awk -v p="$period" -v q="$(json_value "$work/out" period_seconds)" -v s="$(json_value "$work/out" step_seconds)" \
    'BEGIN { exit !(p > 0.999 * q && p < 1.001 * q && q < 0.75 * s) }' || fail "a period of $period: $(cat "$work/out")"
expect_ok explain "${gpt[@]}" "${quiet[@]}" --forward --layout "$work/stream.layout.json"
expect_ok report "${gpt[@]}" "${quiet[@]}" --forward --layout "$work/stream.layout.json" -o "$work/page.html"

# --- run: outputs in pieces come to one file, and are those of one rank; passes that follow each other
expect_ok run "${gpt[@]}" --forward --quiet --save "$work/one.safetensors"
for layout in latency stream trained; do
    expect_ok run "${gpt[@]}" --forward --quiet --layout "$work/$layout.layout.json" --save "$work/$layout.safetensors"
    python3 - "$work/one.safetensors" "$work/$layout.safetensors" <<'END' || fail "other outputs under $layout"
import array, json, sys

def read(path):
    data = open(path, "rb").read()
    size = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:8 + size])
    entries.pop("__metadata__", None)
    return {name: (e["shape"], array.array("f", data[8 + size + e["data_offsets"][0]:8 + size + e["data_offsets"][1]]))
            for name, e in entries.items()}

a, b = (read(path) for path in sys.argv[1:])
assert a.keys() == b.keys() and a, (a.keys(), b.keys())
for name in a:
    assert a[name][0] == b[name][0]
    assert max(abs(x - y) for x, y in zip(a[name][1], b[name][1])) < 1e-4, name
    assert max(map(abs, a[name][1])) > 0.1, name
END
done
expect_ok run "${gpt[@]}" --forward --throughput --steps 12 --layout "$work/stream.layout.json" --machine "$machine" --json
[ "$(json_value "$work/out" steps)" = 12 ] || fail "not 12 passes: $(cat "$work/out")"
awk -v p="$period" -v q="$(json_value "$work/out" predicted_step_seconds)" -v m="$(json_value "$work/out" step_seconds)" \
    'BEGIN { exit !(p > 0.9 * q && p < 1.1 * q && m > 0) }' || fail "predicted of passes in a row: $(cat "$work/out")"

# --- a layout is for one kind of step
expect_error 2 'was made for one pass forward' simulate "${gpt[@]}" --machine "$machine" --layout "$work/latency.layout.json"
expect_error 2 'was made for one pass forward' run "${gpt[@]}" --layout "$work/latency.layout.json"
expect_error 2 'was made for one pass forward' export --to torch "${gpt[@]}" --layout "$work/latency.layout.json" -o "$work/plan.json"
expect_error 2 'made for training' simulate "${gpt[@]}" --machine "$machine" --forward --layout "$work/trained.layout.json"
expect_ok diff "$work/latency.layout.json" "$work/latency.layout.json" "${gpt[@]}" --forward

# --- what does not go with it
search=(search "${mlp[@]}" "${quiet[@]}" -o "$work/output")
expect_error 2 'zero 1 goes with training alone' "${search[@]}" --forward --zero 1
expect_error 2 'recompute full goes with training alone' "${search[@]}" --forward --recompute full
expect_error 2 'throughput goes with one pass forward' "${search[@]}" --throughput
expect_error 2 '--throughput goes with --forward' run "${mlp[@]}" --throughput
expect_error 2 'method zero-1 goes with training alone' "${search[@]}" --forward --method zero-1

# --- decoding with a cache: an input by the name that exporters give it
sed 's/tokens/past_0/g' "$models/byte_gpt.onnx" >"$work/cached.onnx"
cmp -s "$models/byte_gpt.onnx" "$work/cached.onnx" && fail "byte_gpt.onnx has no input \"tokens\""
expect_error 2 'input past_0 is a cache' search --model "$work/cached.onnx" --batch 8 "${quiet[@]}" --forward -o "$work/output"
expect_error 2 'input past_0 is a cache' run --model "$work/cached.onnx" --batch 8 --forward
finish

# `--frozen`: what is not trained stays as it is, and layouts say what they were made for.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$work/out" | tr -d ','; }
lenet=(--model "$models/lenet5.onnx" --batch 8)

expect_error 2 '"none.such"' run "${lenet[@]}" --frozen 'none.such' --steps 1
expect_error 2 'frozen' run "${lenet[@]}" --frozen '*' --steps 1
expect_error 2 'frozen' search "${lenet[@]}" --machine "$machine" --frozen '*' -o "$work/output"

# A layout says so, and is taken for other ones only when these are asked for.
frozen=(--frozen 'c*')
layout=$work/frozen.layout.json
expect_ok search "${lenet[@]}" --machine "$machine" --method data-parallel "${frozen[@]}" -o "$layout"
grep -q '"training": {"frozen": \["c\*"\]}' "$layout" || fail "nothing frozen in $(cat "$layout")"
expect_error 2 "$layout" run "${lenet[@]}" --layout "$layout" --steps 1
expect_error 2 "$layout" simulate "${lenet[@]}" --layout "$layout" --machine "$machine"
expect_ok simulate "${lenet[@]}" --layout "$layout" --machine "$machine" --frozen ''
expect_ok explain "${lenet[@]}" --layout "$layout" --machine "$machine" "${frozen[@]}"

# Ranks send what was predicted, and learn what one does.  The convolutions have 6 x (25 + 1) and 16 x (6 x 25 + 1)
# parameters: as each of two ranks sends half of the sums and half of what they give, it sends 4 x as many bytes less.
expect_ok simulate "${lenet[@]}" --layout "$layout" --machine "$machine" --frozen '' --json
all=$(sed -n '/"bytes_between"/,/]/p' "$work/out" | tr -dc '0-9,')
expect_ok simulate "${lenet[@]}" --layout "$layout" --machine "$machine" "${frozen[@]}" --json
predicted=$(sed -n '/"bytes_between"/,/]/p' "$work/out" | tr -dc '0-9,')
expect_ok run "${lenet[@]}" --layout "$layout" --steps 3 "${frozen[@]}" --json --save "$work/two.safetensors"
measured=$(sed -n '/"bytes_between"/,/]/p' "$work/out" | tr -dc '0-9,')
two=$(losses)
[ -n "$predicted" ] && [ "$predicted" = "$measured" ] || fail "predicted $predicted, sent $measured"
less() { echo $(($(cut -d, -f2 <<<"$all") - $(cut -d, -f2 <<<"$predicted"))); }
[ "$(less)" = $((4 * (6 * 26 + 16 * 151))) ] || fail "$(less) bytes less than $all"
expect_ok run "${lenet[@]}" --steps 3 "${frozen[@]}" --json --save "$work/one.safetensors"
awk -v a="$two" -v b="$(losses)" 'BEGIN {
    n = split(a, x, " "); bad = n != 3 || split(b, y, " ") != n || x[3] == x[1]
    for (i = 1; i <= n; i++) bad = bad || x[i] - y[i] > 1e-4 || y[i] - x[i] > 1e-4
    exit bad
}' || fail "two ranks have the losses $two and one $(losses)"

# Frozen weights are saved as they were read, the others are not.
expect_ok run "${lenet[@]}" --steps 1 --lr 1e-30 --save "$work/before.safetensors"
python3 - "$work/before.safetensors" "$work/two.safetensors" <<'PYTHON' || fail "other weights were saved"
import json, struct, sys

def read(path):
    data = open(path, "rb").read()
    n = struct.unpack("<Q", data[:8])[0]
    head = json.loads(data[8:8 + n])
    return {k: data[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]
            for k, v in head.items() if k != "__metadata__"}

before, after = read(sys.argv[1]), read(sys.argv[2])
frozen = [k for k in before if k.startswith("c")]
sys.exit(not (before.keys() == after.keys() and frozen and len(frozen) < len(before) and
              all((before[k] == after[k]) == (k in frozen) for k in before)))
PYTHON

expect_ok compare "${lenet[@]}" --machine "$machine" --time 1 --steps 2 "${frozen[@]}"
finish

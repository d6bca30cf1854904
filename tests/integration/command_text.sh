# `cleave run --text`: a transformer and an LSTM learn the bytes of a text; a layout changes nothing of it.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

text=$tree/COPYING # a text that does not change
gpt=(--model "$models/byte_gpt.onnx" --batch 4)
training=(--text "$text" --optimizer adam --quiet)
for method in data-parallel single random; do
    expect_ok search "${gpt[@]}" --machine "$machine" --method $method --seed 5 --optimizer adam -o "$work/$method.layout.json"
done

# Below the entropy of single bytes: something is known of what follows what.
expect_learned() { # WHAT: in the results of $work/out
    loss=$(json_value "$work/out" final_loss)
    entropy=$(json_value "$work/out" text_entropy)
    awk -v loss="$loss" -v entropy="$entropy" 'BEGIN { exit !(loss > 0 && loss < entropy - 0.1) }' ||
        fail "$1: a loss of $loss is not clearly below the entropy, $entropy"
}
lstm=(--model "$models/byte_lstm.onnx" --batch 4)
expect_ok search "${lstm[@]}" --machine "$machine" --method random --seed 2 --optimizer adam -o "$work/lstm.layout.json"
expect_ok run "${lstm[@]}" --layout "$work/lstm.layout.json" "${training[@]}" --lr 1e-2 --steps 60 --json
expect_learned lstm
expect_ok run "${gpt[@]}" --layout "$work/data-parallel.layout.json" "${training[@]}" --lr 3e-3 --steps 40 --json
expect_learned transformer
cp "$work/out" "$work/first"

# The entropy, counted by others.
expected=$(od -An -v -tu1 -w1 "$text" | sort | uniq -c | awk '
    { count[NR] = $1; n += $1 }
    END { for (i in count) sum -= count[i] / n * log(count[i] / n); printf "%.9f", sum }')
awk -v a="$entropy" -v b="$expected" 'BEGIN { exit !(a - b < 1e-8 && b - a < 1e-8) }' ||
    fail "entropy $entropy, not $expected"

# A layout changes neither what is read nor what is learned; a seed does.
losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$1" | tr -d ','; }
near() { # LOSSES LOSSES: the same steps, but for the order of sums
    awk -v a="$1" -v b="$2" 'BEGIN {
        n = split(a, x, " ")
        for (i = 1; i <= n && i <= 3; i++) { d = x[i] - (split(b, y, " ") > 0 ? y[i] : 0); if (d * d > 1e-8) exit 1 }
        exit n < 3
    }'
}
for method in single random; do
    expect_ok run "${gpt[@]}" --layout "$work/$method.layout.json" "${training[@]}" --lr 3e-3 --steps 3 --json
    near "$(losses "$work/out")" "$(losses "$work/first")" ||
        fail "$method: losses $(losses "$work/out") instead of $(losses "$work/first" | cut -d ' ' -f 1-3)"
done
expect_ok run "${gpt[@]}" --layout "$work/data-parallel.layout.json" "${training[@]}" --lr 3e-3 --steps 3 --json
[ "$(losses "$work/out")" = "$(losses "$work/first" | cut -d ' ' -f 1-3)" ] || fail "the same run has other losses"
expect_ok run "${gpt[@]}" --layout "$work/data-parallel.layout.json" "${training[@]}" --lr 3e-3 --seed 8 --steps 3 --json
near "$(losses "$work/out")" "$(losses "$work/first")" && fail "another seed changes nothing"

# For people.
expect_ok run "${gpt[@]}" --layout "$work/single.layout.json" "${training[@]}" --steps 1
grep -qE '^loss, mean of the last 1 step .* unigram entropy of the text [0-9.]+ nats per byte$' "$work/out" ||
    fail "no entropy in: $(cat "$work/out")"

# What does not fit.
run=(run "${gpt[@]}" --layout "$work/single.layout.json" --text)
head -c 64 "$text" >"$work/short.txt"
expect_error 2 "64 bytes" "${run[@]}" "$work/short.txt"
expect_error 2 nowhere.txt "${run[@]}" "$work/nowhere.txt"
expect_error 2 "not a regular file" "${run[@]}" "$work"
expect_error 2 "not both" "${run[@]}" "$text" --data "$work/short.txt"
head -c 65 "$text" >"$work/least.txt"
expect_ok "${run[@]}" "$work/least.txt" --steps 1
expect_ok search --model "$models/mlp.onnx" --batch 8 --machine "$machine" --method single -o "$work/mlp.layout.json"
expect_error 2 "integers [batch, t]" run --model "$models/mlp.onnx" --batch 8 --layout "$work/mlp.layout.json" --text "$text"
finish

# Keys of attention that go round, on four ranks: what one device learns, bytes and memory as predicted, less memory than gathered keys.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

cat >"$work/config.json" <<'END'
{"model_type": "llama", "hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
 "num_key_value_heads": 4, "vocab_size": 32, "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "hidden_act": "silu"}
END
llama=(--model "$work/config.json" --sequence 256 --batch 2)
four=(--machine "$tree/configs/machines/p100-4x4.json" --devices 4)
found=$work/found.layout.json
ring=$work/ring.layout.json
gathered=$work/gathered.layout.json
losses() { sed -n 's/^  "loss": \[\(.*\)\],*$/\1/p' "$work/out" | tr -d ','; }
between() { sed -n '/"bytes_between"/,/]/p' "$work/out" | tr -d ' \n'; }
peak() { sed -n 's/^ *"peak_bytes": \[\(.*\)\],*$/\1/p' "$work/out" | tr -d ' ' | tr ',' '\n' | sort -n | tail -1; }
same() { awk -v a="$1" -v b="$2" -v d="$3" 'BEGIN {
    n = split(a, x, " "); bad = n < 2 || split(b, y, " ") != n
    for (i = 1; i <= n; i++) bad = bad || x[i] - y[i] > d || y[i] - x[i] > d
    exit bad
}'; }

# The launch that people know finds it; and what else it could be.
search=(search "${llama[@]}" "${four[@]}" --method megatron --tensor 1 --stages 1 --recompute none)
expect_ok "${search[@]}" --micro-batches 2 --context 4 --ring -o "$found"
grep -q '^  "schedule": {"micro_batches": 2' "$found" || fail "no micro-batches in $(cat "$found")"
sed '/^  "schedule"/d' "$found" >"$ring"
[ "$(grep -c '"split": {"q": 4}, .*"ring": true' "$ring")" = 2 ] || fail "no ring in $(cat "$ring")"
sed 's/, "ring": true//' "$ring" >"$gathered"
expect_error 2 '--ring' "${search[@]}" --ring -o "$work/output"
expect_error 2 '--ring' "${search[@]}" --context 4 --ring --attention stored -o "$work/output"

# It learns what one device does; its bytes are as predicted, and it needs less memory than gathered keys.
expect_ok run "${llama[@]}" --steps 3 --json
one=$(losses)
expect_ok run "${llama[@]}" --layout "$gathered" --steps 3 --json
most=$(peak)
expect_ok run "${llama[@]}" --layout "$ring" --steps 3 --json --save "$work/first"
same "$one" "$(losses)" 1e-5 || fail "one device has the losses $one, four have $(losses)"
sent=$(between)
[ "$(peak)" -lt "$most" ] || fail "keys that go round take $(peak) bytes, gathered ones $most"
expect_ok simulate "${llama[@]}" --layout "$ring" --machine "$tree/configs/machines/p100-4x4.json" --json
[ -n "$sent" ] && [ "$sent" = "$(between)" ] || fail "predicted $(between), sent $sent"

# The same bytes once more; and in micro-batches, of bf16, recomputed.
expect_ok run "${llama[@]}" --layout "$ring" --steps 3 --save "$work/second"
cmp -s "$work/first" "$work/second" || fail "the same steps gave other weights"
expect_ok run "${llama[@]}" --steps 3 --json --precision bf16
rounded=$(losses)
sed 's/"ring": true/"recompute": true, &/' "$found" >"$work/cut.layout.json"
expect_ok run "${llama[@]}" --layout "$work/cut.layout.json" --steps 3 --json
same "$one" "$(losses)" 1e-5 || fail "one device has the losses $one, four in micro-batches have $(losses)"
expect_ok run "${llama[@]}" --layout "$work/cut.layout.json" --steps 3 --json --precision bf16
same "$rounded" "$(losses)" 0.01 || fail "one device has the losses $rounded in bf16, four have $(losses)"

# Whatever takes a layout takes it; a launch has no keys that go round, and says so.
p100=(--machine "$tree/configs/machines/p100-4x4.json")
expect_ok explain "${llama[@]}" "${p100[@]}" --layout "$ring"
expect_ok report "${llama[@]}" "${p100[@]}" --layout "$ring" -o "$work/page.html"
expect_ok diff "${llama[@]}" "${p100[@]}" "$ring" "$ring"
grep -q 'The layouts are the same' "$work/out" || fail "diff says $(cat "$work/out")"
for to in torch jax megatron torchtitan; do
    expect_ok export "${llama[@]}" --layout "$ring" --to $to -o "$work/for_$to"
    grep -q 'self_attn' "$work/out" || fail "for $to keys that go round are lost, and that is not said: $(cat "$work/out")"
done

# What can't go round.
sed 's/"split": {"q": 4}/"split": {"k": 4}/' "$ring" >"$work/keys.layout.json"
expect_error 2 '"ring"' run "${llama[@]}" --layout "$work/keys.layout.json" --steps 1
finish

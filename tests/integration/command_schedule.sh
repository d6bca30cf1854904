# Stages, micro-batches and recomputation by the command: what is asked for, what is printed, what is refused.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

p100=$tree/configs/machines/p100-4x4.json
h100=$tree/configs/machines/h100-512x8.json
gpt=(--model "$models/byte_gpt.onnx" --batch 16)
four=("${gpt[@]}" --machine "$p100" --devices 4 --quiet)

# --- exactly what is asked for, written and read again
expect_ok search "${four[@]}" --method megatron --tensor 2 --stages 2 --micro-batches 4 --schedule 1f1b \
    --attention stored --recompute selective --json -o "$work/a.layout.json"
for key in '"micro_batches": 4' '"stages": 2' '"schedule": "1f1b"' '"recomputed_operators": 2'; do
    grep -qF "$key" "$work/out" || fail "search --json lacks $key: $(cat "$work/out")"
done
grep -qF '"schedule": {"micro_batches": 4, "kind": "1f1b", "stages": [' "$work/a.layout.json" || fail "no schedule written"
expect_ok simulate "${gpt[@]}" --machine "$p100" --layout "$work/a.layout.json"
expect_ok explain "${gpt[@]}" --machine "$p100" --quiet --layout "$work/a.layout.json"
expect_ok show "$work/a.layout.json"
grep -qF 'stages: 2 (1f1b)' "$work/out" || fail "show has no stages: $(head "$work/out")"
grep -q ', recomputed$' "$work/out" || fail "show does not say what is recomputed"

# --- without scores there is nothing to recompute selectively; megatron's with one device a product
# Numbers that say all of it are made as they are, those of a plain layout too.
expect_ok search "${four[@]}" --method megatron --tensor 2 --stages 1 --micro-batches 1 --recompute none -o "$work/t.layout.json"
expect_ok search "${four[@]}" --method megatron --tensor 1 --stages 4 --micro-batches 4 --recompute selective -o "$work/n.layout.json"
grep -qF 'Nothing is recomputed: attention stores no scores' "$work/out" || fail "selective says nothing: $(cat "$work/out")"

# --- a strategy that has no room for the whole batch has the fewest micro-batches that it fits in, but where one is asked for
tight=("${gpt[@]}" --machine "$p100" --devices 2 --quiet --method data-parallel --memory-limit 5MiB)
expect_ok search "${tight[@]}" --json -o "$work/tight.layout.json"
grep -qE '"micro_batches": (2|4|8)' "$work/out" || fail "no micro-batches: $(cat "$work/out")"
expect_error 3 'does not fit in 5.00 MiB' search "${tight[@]}" --micro-batches 1 -o "$work/none.layout.json"

# --- drawn: 2 stages take (4 micro-batches + 1) x 3 units
expect_ok search "${gpt[@]}" --machine "$p100" --devices 2 --quiet --method data-parallel --stages 2 --micro-batches 4 \
    --schedule 1f1b -o "$work/drawn.layout.json"
expect_ok show "$work/drawn.layout.json"
for row in 'group 0    F0 F1 .  .  B0 =  F2 B1 =  F3 B2 =  .  B3 =' 'group 1    .  F0 B0 =  F1 B1 =  F2 B2 =  F3 B3 =  .  .'; do
    grep -qxF "$row" "$work/out" || fail "show does not draw \"$row\": $(head -12 "$work/out")"
done
sed 's/"micro_batches": 4/"micro_batches": 2000000000/' "$work/drawn.layout.json" >"$work/many.layout.json"
expect_ok show "$work/many.layout.json"

# --- the bubble of 2 stages, as equal as the model allows: 1 unit of 5 in which a stage does nothing
expect_ok simulate "${gpt[@]}" --machine "$p100" --layout "$work/drawn.layout.json"
grep -qE '^bubble +(1[89]|2[0-9]) % of the step' "$work/out" || fail "another bubble: $(cat "$work/out")"

# --- what its decisions are worth: each as if it were simulated by itself
expect_ok explain "${gpt[@]}" --machine "$p100" --quiet --layout "$work/drawn.layout.json"
grep -qE '^8 micro-batches +[0-9.]+ [mu]s +[+-][0-9.]+ % ' "$work/out" || fail "no other schedules: $(tail "$work/out")"
expect_ok explain "${gpt[@]}" --machine "$p100" --quiet --json --layout "$work/drawn.layout.json"
said=$(grep -A1 '"decision": "2 micro-batches"' "$work/out" | grep -o '"step_seconds": [0-9.e-]*' | cut -d' ' -f2)
sed 's/"micro_batches": 4/"micro_batches": 2/' "$work/drawn.layout.json" >"$work/halved.layout.json"
expect_ok simulate "${gpt[@]}" --machine "$p100" --layout "$work/halved.layout.json" --json
awk -v a="$said" -v b="$(json_value "$work/out" step_seconds)" 'BEGIN { exit !(a > .99 * b && a < 1.01 * b) }' ||
    fail "explain says $said of 2 micro-batches: $(cat "$work/out")"

# --- diff sees both
sed 's/"micro_batches": 4/"micro_batches": 2/' "$work/a.layout.json" >"$work/b.layout.json"
sed '0,/, "recompute": true/s///' "$work/a.layout.json" >"$work/c.layout.json"
for other in b c; do
    exit=0
    "$cleave" diff "$work/a.layout.json" "$work/$other.layout.json" "${gpt[@]}" >"$work/out" || exit=$?
    [ "$exit" = 1 ] || fail "diff takes $other for the same: exit $exit: $(cat "$work/out")"
done
expect_ok diff "$work/a.layout.json" "$work/a.layout.json" "${gpt[@]}"

# --- sharded state: so much as is asked for, shown, compared and run
expect_ok search "${four[@]}" --method zero-3 --tensor 2 --micro-batches 2 --json -o "$work/z3.layout.json"
for key in '"micro_batches": 2' '"stages": 1' '"sharded_gradients": 15' '"sharded_weights": 15'; do
    grep -qF "$key" "$work/out" || fail "search --json lacks $key: $(cat "$work/out")"
done
grep -qF '"update": "sharded", "gradient": "sharded", "weight": "sharded"' "$work/z3.layout.json" || fail "no weight is sharded"
expect_ok explain "${gpt[@]}" --machine "$p100" --quiet --layout "$work/z3.layout.json"
expect_ok simulate "${gpt[@]}" --machine "$p100" --devices 4 --method zero-3
expect_ok show "$work/z3.layout.json"
grep -qF ' sharded, gradient sharded, weight sharded' "$work/out" || fail "show does not say what is sharded"
sed 's/, "weight": "sharded"//' "$work/z3.layout.json" >"$work/z2.layout.json"
exit=0
"$cleave" diff "$work/z3.layout.json" "$work/z2.layout.json" "${gpt[@]}" >"$work/out" || exit=$?
[ "$exit" = 1 ] && grep -qF 'sharded, with gradient and weight  sharded, with the gradient' "$work/out" ||
    fail "diff does not see that weights are sharded: $(cat "$work/out")"
expect_error 2 'zero "4" is none of: 0, 1, 2, 3' search "${four[@]}" --zero 4 -o "$work/x.json"
sed '0,/"gradient": "sharded", /s///' "$work/z3.layout.json" >"$work/x.layout.json"
expect_error 2 "weight: can't be sharded where the gradient is not" simulate "${gpt[@]}" --machine "$p100" --layout "$work/x.layout.json"

# --- run: the loss is that of the whole batch
loss() { "$cleave" run "${gpt[@]}" --layout "$1" --steps 2 --json --quiet | tr -d '\n ' | sed 's/.*"loss":\[\([^]]*\)\].*/\1/'; }
expect_ok search "${gpt[@]}" --machine "$p100" --devices 1 --quiet --method single -o "$work/one.layout.json"
paste -d' ' <(loss "$work/one.layout.json" | tr ',' '\n') <(loss "$work/a.layout.json" | tr ',' '\n') |
    awk '{ d = $1 - $2; if (NF != 2 || d > 1e-4 || d < -1e-4) exit 1; n++ } END { exit n != 2 }' ||
    fail "the loss differs: $(loss "$work/one.layout.json") and $(loss "$work/a.layout.json")"
paste -d' ' <(loss "$work/one.layout.json" | tr ',' '\n') <(loss "$work/z3.layout.json" | tr ',' '\n') |
    awk '{ d = $1 - $2; if (NF != 2 || d > 1e-4 || d < -1e-4) exit 1; n++ } END { exit n != 2 }' ||
    fail "the loss differs: $(loss "$work/one.layout.json") and $(loss "$work/z3.layout.json")"

# --- groups of 12 nodes one behind the other don't do alike among 384 nodes; with nodes of all groups in turn they do
echo '{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 48, "vocab_size": 51200,
    "n_positions": 1024, "attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}' >"$work/deep.json"
expect_ok search --model "$work/deep.json" --sequence 1024 --batch 384 --machine "$h100" --devices 3072 --quiet --method megatron --tensor 8 \
    --stages 32 --micro-batches 32 --schedule 1f1b --recompute full --zero 1 -o "$work/far.layout.json"
found=$(sed -n 's/^found (megatron) *\([^ ]* [^ ]*\) .*/\1/p' "$work/out")
expect_ok simulate --model "$work/deep.json" --sequence 1024 --batch 384 --machine "$h100" --layout "$work/far.layout.json"
grep -qE "^step, links in program order +$found\$" "$work/out" || fail "simulate says $(head -1 "$work/out"), search $found"

# --- refusals: one line, exit 2
expect_error 2 "a batch of 16 can't be cut into 3 equal micro-batches" search "${four[@]}" --micro-batches 3 -o "$work/x.json"
expect_error 2 'takes statistics over the batch' search --model "$models/resnet50.onnx" --batch 8 --machine "$p100" --devices 4 \
    --quiet --method data-parallel --micro-batches 2 -o "$work/x.json"
expect_error 2 'takes statistics over the batch' search --model "$models/resnet50.onnx" --batch 8 --machine "$p100" --devices 4 \
    --quiet --method random --micro-batches 2 -o "$work/x.json"
expect_error 2 'none of: 1f1b, gpipe, interleaved, zb-h1, zb-interleaved' search "${four[@]}" --schedule 2f2b -o "$work/x.json"
expect_error 2 'none of: none, selective, alternate, full' search "${four[@]}" --recompute all -o "$work/x.json"
expect_error 2 'no layout is as it is asked for (stages 3, micro-batches 2)' search "${four[@]}" --stages 3 --micro-batches 2 -o "$work/x.json"
expect_error 2 'interleaved): it takes two groups of devices or more' search "${four[@]}" --stages 2 --schedule interleaved -o "$work/x.json"
expect_error 2 'no layout is as it is asked for (recompute full): ' search "${four[@]}" --method single --recompute full -o "$work/x.json"
expect_error 3 'no layout that was tried is as it is asked for under --only operator' search "${four[@]}" --only operator --tensor 2 \
    -o "$work/x.json"
expect_error 2 '2 stages are blocks of devices: they go with --only sample,operator' search "${four[@]}" --only sample --stages 2 \
    -o "$work/x.json"
expect_error 2 'the model has no products that so many devices share' search --model "$models/rnnlm.onnx" --batch 8 --machine "$p100" \
    --devices 4 --quiet --tensor 4 -o "$work/x.json"
[ ! -e "$work/x.json" ] || fail "a refused search left a file"

# --- and of files: one line, by whoever reads them
two=("${gpt[@]}" --machine "$p100")
stages=$(grep -o '"stages": \[[^]]*\]' "$work/drawn.layout.json")
expect_refused() { # PATTERN SCHEDULE
    sed "s#\"schedule\": {[^}]*}#\"schedule\": {$2}#" "$work/drawn.layout.json" >"$work/x.layout.json"
    expect_error 2 "$1" simulate "${two[@]}" --layout "$work/x.layout.json"
}
wait='the orders of the groups wait for each other'
expect_refused "$wait" "\"micro_batches\": 2, $stages, \"orders\": [[\"F0.0\", \"B0.0\", \"F0.1\", \"B0.1\"], [\"F1.0\", \"F1.1\", \"B1.0\", \"B1.1\"]]"
expect_refused 'stage 0 takes micro-batch 1 where 0 is next' \
    "\"micro_batches\": 2, $stages, \"orders\": [[\"F0.1\", \"F0.0\", \"B0.0\", \"B0.1\"], [\"F1.0\", \"F1.1\", \"B1.0\", \"B1.1\"]]"
expect_refused "$wait" "\"micro_batches\": 4, $stages, \"in_flight\": [1, 3]"
expect_refused 'in_flight is not for gpipe' "\"micro_batches\": 4, $stages, \"kind\": \"gpipe\", \"in_flight\": [1, 1]"
expect_refused 'leaves stage 1 without operators' "\"micro_batches\": 4, $(sed 's/\["\(.*\)"\]/["\1", "\1"]/' <<<"$stages")"
sed '0,/"devices": \[0\]/s//"devices": [1]/' "$work/drawn.layout.json" >"$work/x.layout.json"
expect_error 2 'stages 0 and 1 have some devices in common, and not all' simulate "${two[@]}" --layout "$work/x.layout.json"
expect_ok search "${two[@]}" --devices 2 --quiet --method data-parallel --stages 4 --micro-batches 4 --schedule interleaved \
    -o "$work/virtual.layout.json"
sed 's/"kind": "interleaved"/"kind": "1f1b"/' "$work/virtual.layout.json" >"$work/x.layout.json"
expect_error 2 'two stages of one group want the kind interleaved' simulate "${two[@]}" --layout "$work/x.layout.json"
sed 's/"micro_batches": 4/"micro_batches": 1/' "$work/virtual.layout.json" >"$work/x.layout.json"
expect_error 2 'wants a multiple of 2 micro-batches, not 1' simulate "${two[@]}" --layout "$work/x.layout.json"
resnet=(--model "$models/resnet50.onnx" --batch 10 --machine "$p100")
expect_ok search "${resnet[@]}" --devices 2 --quiet --method data-parallel -o "$work/resnet.layout.json"
sed '0,/BatchNormalization.*]}/s/\(BatchNormalization.*]\)}/\1, "recompute": true}/' "$work/resnet.layout.json" >"$work/x.layout.json"
expect_error 2 "has running statistics and can't be recomputed" simulate "${resnet[@]}" --layout "$work/x.layout.json"
for m in 4 2; do
    sed "s/\"operators\": {/\"schedule\": {\"micro_batches\": $m}, &/" "$work/resnet.layout.json" >"$work/x.layout.json"
    [ $m = 4 ] && why="a batch of 10 can't be cut into 4 equal micro-batches" || why='takes statistics over the batch'
    expect_error 2 "$why" simulate "${resnet[@]}" --layout "$work/x.layout.json"
done

# --- what takes a layout takes these: tasks, one pass forward, what is known, mcmc
expect_ok simulate "${two[@]}" --layout "$work/virtual.layout.json" --dump-tasks "$work/tasks.dag" --json
step=$(json_value "$work/out" events_step_seconds)
expect_ok simulate --tasks "$work/tasks.dag" --json
[ "$(json_value "$work/out" step_seconds)" = "$step" ] || fail "the tasks of a step of $step end after $(cat "$work/out")"
expect_ok run "${gpt[@]}" --forward --layout "$work/drawn.layout.json" --quiet
expect_ok search "${two[@]}" --devices 2 --quiet --method mcmc --proposals 20 --micro-batches 2 --stages 2 --json -o "$work/m.layout.json"
grep -qF '"stages": 2' "$work/out" || fail "mcmc keeps to no stages: $(cat "$work/out")"
expect_ok search "${two[@]}" --devices 2 --quiet --known "$work/virtual.layout.json" --proposals 10 -o "$work/k.layout.json"
finish

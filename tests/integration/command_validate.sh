# `cleave validate`: each run of a table costs what `search` says of the same numbers, to the digit; what can't be priced
# is said with the reason; what is no table is refused with its place.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

p100=$tree/configs/machines/p100-4x4.json
a100=$tree/configs/machines/a100-128x8.json
llama=$tree/tests/data/oracles/family_llama.json
mixtral=$tree/tests/data/oracles/family_mixtral.json
gpt=$models/byte_gpt.onnx
heading=name,model,machine,sequence,batch,data,tensor,pipeline,virtual,micro_batches,schedule,recompute,sharding,precision
heading=$heading,attention,optimizer,group,step,memory

# expect_same NAME METHOD TENSOR STAGES VIRTUAL MICRO_BATCHES SCHEDULE RECOMPUTE ZERO WORDS...: search and the table agree
rows=
expect_same() {
    local name=$1 method=$2 tensor=$3 stages=$4 virtual=$5 m=$6 kind=$7 recompute=$8 zero=$9
    shift 9
    expect_ok search "$@" --devices 4 --quiet --method "$method" --tensor "$tensor" --stages "$stages" \
        --virtual "$virtual" --micro-batches "$m" --schedule "$kind" --recompute "$recompute" --zero "$zero" \
        --json -o "$work/plan.layout.json"
    rows="$rows$name $(json_value "$work/out" step_seconds) $(json_value "$work/out" peak_bytes)
"
}
expect_same dp data-parallel 1 1 1 1 1f1b none 0 --model "$gpt" --batch 16 --machine "$p100" --optimizer adam
expect_same tp megatron 2 1 1 2 1f1b none 1 --model "$gpt" --batch 16 --machine "$p100" --optimizer sgd
expect_same pp data-parallel 1 2 1 4 zb-h1 full 0 --model "$gpt" --batch 16 --machine "$p100" --optimizer adam
expect_same vp data-parallel 1 4 2 4 interleaved none 0 --model "$gpt" --batch 16 --machine "$p100" --optimizer adam
expect_same fsdp data-parallel 1 1 1 2 1f1b alternate 3 --model "$llama" --sequence 6 --batch 8 \
    --machine "$a100" --precision bf16 --optimizer adam
expect_same stored data-parallel 1 1 1 2 1f1b selective 2 --model "$gpt" --batch 16 --machine "$p100" --attention stored --optimizer adam
expect_same cp megatron 1 1 1 1 1f1b none 0 --model "$gpt" --batch 16 --machine "$p100" --context 2 --optimizer adam
expect_same whole megatron 2 2 1 2 1f1b none 0 --model "$gpt" --batch 16 --machine "$p100" --no-sequence-parallel --optimizer adam
expect_same eager data-parallel 1 1 1 1 1f1b none 0 --model "$llama" --sequence 6 --batch 8 --machine "$a100" \
    --framework eager --optimizer adam
expect_same experts megatron 1 1 1 1 1f1b none 1 --model "$mixtral" --sequence 6 --batch 8 --machine "$a100" --expert 2 \
    --optimizer adam
cat >"$work/runs.csv" <<EOF
$heading,context,expert,sequence_parallel,framework
dp,$gpt,$p100,,16,4,1,1,1,1,1f1b,none,0,,,adam,a,1 ms,,,,,
tp,$gpt,$p100,,16,2,2,1,1,2,,,1,,fused,sgd,a,2 ms,1 MiB,,,,
pp,$gpt,$p100,,16,2,1,2,1,4,zb-h1,full,,,,,a,3 ms,,,,,
vp,$gpt,$p100,,16,2,1,2,2,4,,,,,,,a,4 ms,,,,,
fsdp,"$(sed 's/"/""/g' "$llama")",$a100,6,8,4,1,1,1,2,,alternate,3,bf16,,,b,5 ms,,,,,
stored,$gpt,$p100,,16,4,1,1,1,2,,selective,2,,stored,,b,6 ms,,,,,
cp,$gpt,$p100,,16,2,1,1,1,1,,,,,,,c,7 ms,,2,,,
whole,$gpt,$p100,,16,1,2,2,1,2,,,,,,,c,7 ms,,,,no,
eager,"$(sed 's/"/""/g' "$llama")",$a100,6,8,4,1,1,1,1,,,,,,,c,7 ms,,,,,eager
experts,"$(sed 's/"/""/g' "$mixtral")",$a100,6,8,4,1,1,1,1,,,1,,,,c,7 ms,,,2,,
EOF
expect_ok validate "$work/runs.csv" --json --quiet
python3 - "$work/out" <<EOF || fail "search and validate differ: $(cat "$work/out")"
import json, sys
of = {run["name"]: run for run in json.load(open(sys.argv[1]))["runs"]}
expected = [line.split() for line in """$rows""".split("\n") if line]
assert len(expected) == len(of) == 10
for name, step, peak in expected:
    assert of[name]["step_seconds"] == float(step), (name, of[name]["step_seconds"], step)
    assert of[name]["plan_bytes"] == float(peak), (name, of[name]["plan_bytes"], peak)
    # Of very small tensors most is what allocations are rounded up to.
    assert 0 < of[name]["memory_bytes"] <= (100 if name in ("fsdp", "eager", "experts") else 1.2) * float(peak), name
    assert abs(sum(of[name]["step_parts"].values()) - 1) < 1e-9, name
EOF

# --- of many devices and micro-batches, too, the memory is what a framework allocates, not the plan with its messages
cat >"$work/many.csv" <<EOF
model,machine,sequence,batch,data,pipeline,micro_batches,sharding,precision,framework,step
"{""model_type"": ""llama"", ""hidden_size"": 1024, ""intermediate_size"": 2048, ""num_hidden_layers"": 12,
 ""num_attention_heads"": 4, ""num_key_value_heads"": 4, ""vocab_size"": 8192}",$a100,32,256,256,1,1,3,bf16,megatron,1 ms
"{""model_type"": ""llama"", ""hidden_size"": 1024, ""intermediate_size"": 2048, ""num_hidden_layers"": 12,
 ""num_attention_heads"": 4, ""num_key_value_heads"": 4, ""vocab_size"": 8192}",$a100,32,2048,32,2,64,0,bf16,megatron,1 ms
EOF
expect_ok validate "$work/many.csv" --json --quiet
python3 - "$work/out" <<EOF || fail "the memory is that of the plan: $(cat "$work/out")"
import json, sys
gathered, piped = json.load(open(sys.argv[1]))["runs"]
assert gathered["memory_bytes"] < 0.9 * gathered["plan_bytes"], gathered
assert abs(piped["memory_bytes"] / piped["plan_bytes"] - 1) > 0.01, piped
EOF

# --- for people: a line for each run, and each group
expect_ok validate "$tree/configs/runs/two-cores.csv"
grep -qE '^data parallel +[0-9.]+ ms +46.1 ms +[+-][0-9.]+ % ' "$work/out" || fail "no line of a run: $(cat "$work/out")"
grep -qE '^gpt +3 +2 +[0-9.]+ % ' "$work/out" || fail "no line of a group: $(cat "$work/out")"
grep -qF 'two-cores.csv:5 is not priced: kernels of a compiler' "$work/out" || fail "no reason: $(cat "$work/out")"

# --- what can't be priced does not keep the others from it
cat >"$work/some.csv" <<EOF
model,machine,batch,data,context,expert,pipeline,precision,step
$gpt,$p100,16,4,,,,,1 ms
$gpt,$p100,16,1,8,,,,1 ms
$gpt,$p100,16,4,,2,,,1 ms
$gpt,$p100,16,2,,,,fp8,1 ms
none.onnx,$p100,16,2,,,,,1 ms
$gpt,$p100,16,1,,,3,,1 ms
EOF
expect_ok validate "$work/some.csv" --quiet
none=' is not priced: no layout is as it is asked for ('
for reason in ":3${none}stages 1, tensor 1, context 8, micro-batches 1, zero 0, schedule 1f1b, recompute none): the model has too few heads" \
    ":4${none}stages 1, tensor 1, expert 2, micro-batches 1, zero 0, schedule 1f1b, recompute none): the model has no experts" ':5 is not priced: ' \
    ":6 is not priced: $work/none.onnx"; do
    grep -qF "some.csv$reason" "$work/out" || fail "no \"$reason\" in: $(cat "$work/out")"
done
grep -qF fp8 "$work/out" || fail "the precision is not named: $(cat "$work/out")"
sed 2d "$work/some.csv" | sed -n 1,5p >"$work/none.csv"
expect_error 2 "none.csv:2: no layout is as it is asked for" validate "$work/none.csv" --quiet

# Wrong words and files are wrong input there, too.
printf 'model,machine,batch,schedule,step\n%s,%s,16,gpipee,1 ms\n' "$gpt" "$p100" >"$work/word.csv"
expect_error 2 'word.csv:2: schedule "gpipee" is none of: 1f1b' validate "$work/word.csv" --quiet

# --- what is no table
printf 'model;machine;batch;step\n' >"$work/semicolons.csv"
expect_error 2 'semicolons.csv:1:1: no column is called "model;machine;batch;step": columns are separated by commas' \
    validate "$work/semicolons.csv"
printf 'model,machine,batch,step,tensors\n' >"$work/near.csv"
expect_error 2 'near.csv:1:26: no column is called "tensors": is it tensor?' validate "$work/near.csv"
printf 'x,%.0s' $(seq 99) >"$work/broad.csv"
expect_error 2 'broad.csv:1:1: no column is called "x" (docs' validate "$work/broad.csv"
printf 'm\0o\0' >"$work/wide.csv"
expect_error 2 'wide.csv:1:2: a byte 0: the file is no text, or not as UTF-8' validate "$work/wide.csv"
expect_error 2 "no.csv" validate "$work/no.csv"
printf 'model,machine,batch,step\n%s,%s,16,"1 ms\n' "$gpt" "$p100" >"$work/open.csv"
expect_error 2 "open.csv:2:" validate "$work/open.csv"
printf 'model,machine,batch,step\n%s,%s,16,fast\n' m a >"$work/fast.csv"
expect_error 2 'fast.csv:2:8: step' validate "$work/fast.csv"
printf 'model,machine,batch,devices,tensor,pipeline,step\nm,a,16,6,4,1,1\n' >"$work/odd.csv"
expect_error 2 'odd.csv:2: 6 devices are not data 1 x tensor 4' validate "$work/odd.csv"
finish

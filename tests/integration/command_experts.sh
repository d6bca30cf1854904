# Experts that are split over the devices that samples are split over: rows go from all to all, and
# what is learned is what PyTorch learns. Losses are those of tests/data/make_family_oracles.py.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

# expert_parallel NAME BYTES LOSS...: four ranks, of four samples and four experts each has one.
expert_parallel() {
    local oracle=$tree/tests/data/oracles/$1 bytes=$2
    shift 2
    trained=(--weights "$oracle.weights.safetensors" --data "$oracle.io.safetensors" --steps 3 --lr 0.1 --quiet)
    given=(--model "$oracle.json" --batch 4 --sequence 6)
    expect_ok search "${given[@]}" --machine "$tree/configs/machines/p100-4x4.json" --devices 4 --method data-parallel \
        --quiet -o "$work/samples.layout.json"
    python3 - "$work/samples.layout.json" "$work/experts.layout.json" <<'END'
import json, sys
layout = json.load(open(sys.argv[1]))
for name, operator in layout["operators"].items():
    if ".experts." in name:
        operator["split"] = {"e": 4}
json.dump(layout, open(sys.argv[2], "w"))
END
    expect_ok run "${given[@]}" "${trained[@]}" --layout "$work/experts.layout.json" --json
    python3 - "$work/out" "$bytes" "$@" <<'END' || fail "$oracle: not what it should be"
import json, sys
run = json.load(open(sys.argv[1]))
wanted = list(map(float, sys.argv[3:]))
assert len(run["loss"]) == 3 and all(abs(a - b) < 1e-4 for a, b in zip(run["loss"], wanted)), run["loss"]
# Devices 1 and 2 exchange nothing but rows, and so do 0 and 3; gradients that are added go over other pairs.
sent = run["bytes_between"]
assert all(sent[a][b] == int(sys.argv[2]) for a, b in [(1, 2), (2, 1), (0, 3), (3, 0)]), sent
END
}

# 2 layers x (to experts, back, and the gradients of both) x rows of a sample at an expert x 16 x 4 bytes: with 6 rows
# for the 6 tokens of a text 3,072, with a capacity of 2 rows 1,024.
expert_parallel family_mixtral 3072 3.40801 3.08411 2.87631
expert_parallel family_mixtral_capacity 1024 3.41394 3.07789 2.86895

# megatron-1f1b: the four of a node share experts as well as products, whichever is quickest.
given=(--model "$tree/tests/data/oracles/family_mixtral_capacity.json" --batch 32 --sequence 6)
staged=(search "${given[@]}" --machine "$tree/configs/machines/p100-4x4.json" --devices 8 --method megatron-1f1b --json
    --quiet -o "$work/staged.layout.json")
step() { python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["step_seconds"])' "$work/out"; }
expect_ok "${staged[@]}"
best=$(step)
grep -q '"e": *[24]' "$work/staged.layout.json" || fail "experts are not shared: $(cat "$work/staged.layout.json")"
for degrees in "4 1" "2 2" "1 4"; do
    read -r tensor expert <<<"$degrees"
    expect_ok "${staged[@]}" --tensor "$tensor" --expert "$expert" --stages 2
    python3 -c 'import sys; sys.exit(float(sys.argv[1]) > 1.0001 * float(sys.argv[2]))' "$best" "$(step)" ||
        fail "$degrees: $(step), and $best of all"
done
given=(--model "$tree/tests/data/oracles/family_mixtral_capacity.json" --batch 4 --sequence 6)

# What is dropped is counted once, however samples, rows, micro-batches and recomputation lie, and is what PyTorch drops:
# 22 + 23, 25 + 22 and 27 + 22 choices of the 2 x 48 of both layers.
expect_ok search "${given[@]}" --machine "$tree/configs/machines/two-cores.json" --devices 1 --method data-parallel \
    --quiet -o "$work/one.layout.json"
python3 - "$work/one.layout.json" "$work/recomputed.layout.json" <<'END'
import json, sys
layout = json.load(open(sys.argv[1]))
layout["schedule"] = {"micro_batches": 2}
for name, operator in layout["operators"].items():
    if name != "@loss":
        operator["recompute"] = True
json.dump(layout, open(sys.argv[2], "w"))
END
for layout in samples experts one recomputed; do
    expect_ok run "${given[@]}" "${trained[@]}" --layout "$work/$layout.layout.json" --json
    python3 - "$work/out" <<'END' || fail "$layout: $(grep dropped "$work/out")"
import json, sys
run = json.load(open(sys.argv[1]))
assert run["choices"] == 96 and run["dropped_choices"] == [45, 47, 49]
END
done
expect_ok run "${given[@]}" "${trained[@]}" --layout "$work/one.layout.json"
grep -q '^choices of experts dropped .* 46\.9 % at step 1, 51 % at step 3, of 96$' "$work/out" || fail "dropped: $(cat "$work/out")"

# Checkpoints that have a tensor for each expert, under the names that are published, give the same losses.
mixtral=$tree/tests/data/oracles/family_mixtral
python3 - "$mixtral.weights.safetensors" "$work" <<'END'
import json, struct, sys
data = open(sys.argv[1], "rb").read()
length = struct.unpack("<Q", data[:8])[0]
header, data = json.loads(data[8:8 + length]), data[8 + length:]
def write(path, tensors):
    entries, offset = {}, 0
    for name, (shape, raw) in tensors.items():
        entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(entries).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(raw for _, raw in tensors.values()))
for style in ("w", "proj"):
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw, shape = data[begin:end], entry["shape"]
        if style == "w":
            name = name.replace(".mlp.", ".block_sparse_moe.")
        names = {"gate_up_proj": ["gate_proj", "up_proj"], "down_proj": ["down_proj"]}.get(name.rsplit(".", 1)[-1])
        if ".experts." not in name:
            tensors[name] = shape, raw
            continue
        if style == "w":
            names = [{"gate_proj": "w1", "up_proj": "w3", "down_proj": "w2"}[n] for n in names]
        n = shape[0] * len(names)
        for i in range(n):
            part = raw[len(raw) // n * i:len(raw) // n * (i + 1)]
            name_of = f"{name.rsplit('.', 1)[0]}.{i // len(names)}.{names[i % len(names)]}.weight"
            tensors[name_of] = [shape[1] // len(names), shape[2]], part
    write(f"{sys.argv[2]}/{style}.safetensors", dict(reversed(tensors.items())))
    missing = next(n for n in tensors if ".experts.1." in n)
    write(f"{sys.argv[2]}/{style}.lacks.safetensors", {n: t for n, t in tensors.items() if n != missing})
END
for style in w proj; do
    expect_ok run --model "$mixtral.json" --batch 4 --sequence 6 --weights "$work/$style.safetensors" \
        --data "$mixtral.io.safetensors" --steps 3 --lr 0.1 --quiet
    grep -q '3\.408[0-9]* at step 1, 2\.876' "$work/out" || fail "$style: $(cat "$work/out")"
    expect_error 2 "has no tensor model.layers.0.mlp.experts" run --model "$mixtral.json" --batch 4 --sequence 6 \
        --weights "$work/$style.lacks.safetensors" --data "$mixtral.io.safetensors" --steps 1 --quiet
done

# Tokens that find no room: a capacity changes the loss, one for all tokens does not.
for capacity in 6 100; do
    sed "s/\"num_local_experts\"/\"expert_capacity\": $capacity, &/" "$mixtral.json" >"$work/room.json"
    expect_ok run --model "$work/room.json" --batch 4 --sequence 6 --weights "$mixtral.weights.safetensors" \
        --data "$mixtral.io.safetensors" --steps 1 --lr 0.1 --json --quiet
    grep -q '3\.40800' "$work/out" || fail "capacity $capacity: $(cat "$work/out")"
    grep -q dropped "$work/out" && fail "capacity $capacity drops: $(cat "$work/out")"
done

# The option stands above the file, in every command that imports: two rows of three of an even choice, which are those of
# the other oracle, with the same weights; and room for all where the file has two.
capped=$tree/tests/data/oracles/family_mixtral_capacity
weights=(--batch 4 --sequence 6 --weights "$capped.weights.safetensors" --data "$capped.io.safetensors" --steps 1 --quiet)
expect_ok run --model "$mixtral.json" --capacity-factor 0.6 "${weights[@]}"
grep -q '3\.41394' "$work/out" || fail "--capacity-factor 0.6: $(cat "$work/out")"
expect_ok run --model "$capped.json" --capacity-factor 2 "${weights[@]}" --json
grep -q dropped "$work/out" && fail "--capacity-factor 2 drops: $(cat "$work/out")"
expect_ok show "$mixtral.json" --batch 4 --sequence 6
grep -q 'room for 2 x .* --capacity-factor 1 plans' "$work/out" || fail "no word of room: $(cat "$work/out")"
expect_ok show "$mixtral.json" --batch 4 --sequence 6 --capacity-factor 1
grep -q 'room for' "$work/out" && fail "room with a capacity: $(cat "$work/out")"
capped_search=(search --model "$mixtral.json" --batch 4 --sequence 6 --machine "$tree/configs/machines/p100-4x4.json" --devices 4 --quiet)
expect_ok "${capped_search[@]}" --capacity-factor 0.6 -o "$work/capped.layout.json"
expect_ok simulate --model "$mixtral.json" --batch 4 --sequence 6 --capacity-factor 0.6 \
    --machine "$tree/configs/machines/p100-4x4.json" --layout "$work/capped.layout.json"
expect_error 2 "was made for another model" simulate --model "$mixtral.json" --batch 4 --sequence 6 \
    --machine "$tree/configs/machines/p100-4x4.json" --layout "$work/capped.layout.json"
expect_error 3 "experts have room for 2 x the rows of an even choice" "${capped_search[@]}" --memory-limit "1 KiB" \
    -o "$work/none.layout.json"
expect_error 2 "has no experts, of which --capacity-factor 1 is" show "$tree/configs/models/gpt2.json" --sequence 6 \
    --capacity-factor 1
expect_error 2 "goes with the config.json of a language model" show "$tree/configs/models/lenet5.onnx" --capacity-factor 1
finish

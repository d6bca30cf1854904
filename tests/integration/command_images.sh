# `cleave run --images`: a small ResNet learns the classes of pictures in folders, under any layout.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"
cd "$work" || exit 1

make() { python3 "$tree/tests/integration/make_images.py" "$@"; } # FOLDER CLASSES COUNT SIDE SEED
make shown 4 400 12 1
make held 4 90 12 2
resnet=(--model "$tree/tests/data/oracles/tiny_resnet.onnx" --batch 16)
train=(run "${resnet[@]}" --images shown --shuffle --lr 0.05 --momentum 0.9 --json)
losses() { sed -n 's/^ *"loss": \[\(.*\)\],*$/\1/p' out | tr -d ' ' | tr , '\n'; }

# Of four classes chance is a quarter: three times that, on pictures that it has not seen.  (It has five scores.)
expect_ok "${train[@]}" --epochs 8 --validate held --log log.csv
awk -v a="$(json_value out validation_accuracy)" 'BEGIN { exit !(a > 0.75) }' || fail "not learned: $(cut -d , -f 1,3,8,9 log.csv | tail -n 1)"
[ "$(json_value out samples) $(json_value out steps_of_epoch) $(json_value out validation_samples)" = "400 25 90" ] || fail "$(cat out)"
losses >whole

# The same numbers as arrays, decoded and normalised by Python, with the classes of the sorted folders.
python3 - <<'EOF'
import array, os, struct, zlib

values, labels = array.array("f"), array.array("i")
for label, folder in enumerate(sorted(os.listdir("shown"))):
    for name in sorted(os.listdir(f"shown/{folder}")):
        data = open(f"shown/{folder}/{name}", "rb").read()
        at = data.index(b"IDAT")  # one chunk of lines, each behind a byte that says that nothing was done to it
        raw = zlib.decompress(data[at + 4 : at + 4 + struct.unpack(">I", data[at - 4 : at])[0]])
        pixels = b"".join(raw[y * 37 + 1 : y * 37 + 37] for y in range(12))
        for c, (mean, deviation) in enumerate(((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))):
            values.extend((v / 255 - mean) / deviation for v in pixels[c::3])
        labels.append(label)
for name, descr, shape, data in ("x.npy", "<f4", (400, 3, 12, 12), values), ("y.npy", "<i4", (400,), labels):
    header = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    open(name, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data.tobytes())
EOF
expect_ok run "${resnet[@]}" --data x=x.npy,targets=y.npy --shuffle --lr 0.05 --momentum 0.9 --json --steps 40
losses | paste - <(head -n 40 whole) | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-3 * $2) exit 1 }' ||
    fail "other losses of the same pictures as arrays: $(losses | tr '\n' ' ')"

# A part of the batch, of the pictures' rows, or of the channels is read where it is needed.
expect_ok search "${resnet[@]}" --machine "$machine" --method data-parallel -o halves.layout.json
expect_ok search "${resnet[@]}" --machine "$machine" --method random --seed 5 -o random.layout.json
for layout in halves random; do
    expect_ok "${train[@]}" --steps 5 --layout $layout.layout.json
    losses | paste - <(head -n 5 whole) | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 1e-4 * $2) exit 1 }' ||
        fail "other losses under $layout: $(losses | tr '\n' ' ')"
done

# What goes on from a checkpoint knows its pictures.
expect_ok "${train[@]}" --steps 30 --checkpoint ck
expect_ok "${train[@]}" --steps 40 --from ck
losses | cmp -s - <(head -n 40 whole | tail -n 10) || fail "other losses after a checkpoint"
cp -r shown others
cp shown/class1/00001.png others/class0/00000.png
expect_error 2 "they were changed" run "${resnet[@]}" --images others --shuffle --momentum 0.9 --lr 0.05 --steps 40 --from ck

# What is no picture is named.
head -c 200 shown/class2/00002.png >others/class2/00002.png
expect_error 2 "others/class2/00002.png: no image that can be read" run "${resnet[@]}" --images others --steps 25 --quiet
mkdir others/class9
expect_error 2 "others/class9: a class without an image" run "${resnet[@]}" --images others
expect_error 2 "has 90 images, but a batch has 128" run "${resnet[@]:0:2}" --batch 128 --images held
expect_error 2 "need a model with one input of floats" run --model "$models/byte_gpt.onnx" --batch 4 --images held
mkdir -p few && cp -r shown/class0 shown/class1 few
expect_error 2 "have other classes: class 2 is class2 there and none here" "${train[@]}" --validate few
expect_error 2 "not both" "${train[@]}" --text "$tree/COPYING"
make many 6 30 4 1
expect_error 2 "the 6 classes of many need a model" run "${resnet[@]}" --images many
finish

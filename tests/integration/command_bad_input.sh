# Bad files: exit 2 and one line that names the file and what is wrong with it.
# shellcheck source=command.bash
. "$(dirname "$0")/command.bash"

# --- Models
search_model() { # MODEL
    echo search --model "$1" --batch 4 --machine "$machine" --time 1 -o "$work/output"
}
: >"$work/empty.onnx"
head -c 2500 "$models/alexnet.onnx" >"$work/truncated.onnx"
awk 'BEGIN { srand(7); for (i = 0; i < 3000; i++) printf "%c", int(1 + 126 * rand()) }' >"$work/random.onnx"
mkdir "$work/folder.onnx"
for file in empty truncated random folder missing; do
    # shellcheck disable=SC2046
    expect_error 2 "$file.onnx" $(search_model "$work/$file.onnx")
    expect_error 2 "$file.onnx" show "$work/$file.onnx"
done
# What stands in the place of a file that was not fetched, and what nobody writes to.
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n' >"$work/pointer"
mkfifo "$work/waits"
for file in pointer waits; do
    # shellcheck disable=SC2046
    expect_error 2 "$work/$file: $([ $file = pointer ] && echo "a pointer of Git LFS" || echo "not a regular file")" \
        $(search_model "$work/$file")
done
# A language model's configuration as some editors save it.
{ printf '\xef\xbb\xbf' && cat "$models/llama_3_8b.json"; } >"$work/marked.json"
expect_ok show "$work/marked.json" --sequence 8 --batch 2
{ printf '\xff\xfe' && sed 's/./&\x00/g' "$models/llama_3_8b.json"; } >"$work/wide.json"
expect_error 2 "wide.json: the text is UTF-16" show "$work/wide.json" --sequence 8 --batch 2
expect_error 2 "empty.onnx: the file is empty" show "$work/empty.onnx" --sequence 8

# A cycle: X = Relu(Y), Y = Relu(X), written byte by byte (field 7 of a model is its graph; of a graph,
# 1 is a node, 11 an input, 12 an output; of a node, 1 inputs, 2 outputs, 4 the type).
node() { printf '\x0a\x0c\x0a\x01%s\x12\x01%s\x22\x04Relu' "$1" "$2"; }
{
    printf '\x08\x07\x42\x02\x10\x0d\x3a\x1f'
    node Y X
    node X Y
    printf '\x12\x01g'
} >"$work/cycle.onnx"
# shellcheck disable=SC2046
expect_error 2 cycle $(search_model "$work/cycle.onnx")

# Models of one node, X -> Y, with one thing that can't be used.  A field is a tag and a length before
# what it holds; tags are in hexadecimal.
varint() { # NUMBER
    local rest=$1
    while [ "$rest" -ge 128 ]; do
        printf "\\x$(printf %02x $((rest % 128 + 128)))"
        rest=$((rest / 128))
    done
    printf "\\x$(printf %02x "$rest")"
}
field() { # TAG
    local held
    held=$(mktemp "$work/field.XXXXXX")
    cat >"$held"
    printf "\\x$1"
    varint "$(wc -c <"$held")"
    cat "$held"
    rm "$held"
}
text() { printf %s "$2" | field "$1"; } # TAG TEXT
attribute() { # NAME [NUMBER]: an integer, 1 if left out
    { text 0a "$1" && printf '\x18' && varint "${2:-1}" && printf '\xa0\x01\x02'; } | field 2a
}
dimension() { # NUMBER or NAME
    case $1 in
    [0-9]*) printf '\x08' && varint "$1" ;;
    *) text 12 "$1" ;;
    esac | field 0a
}
one_node() { # TYPE ELEMENT-TYPE DIMENSION... -- [ATTRIBUTE...]; $constant: an integer, the second input
    local type=$1 element=$2
    shift 2
    printf '\x08\x08'
    {
        if [ -n "${constant:-}" ]; then
            { text 12 C && text 22 Constant && attribute value_int "$constant"; } | field 0a
        fi
        {
            text 0a X
            if [ -n "${constant:-}" ]; then text 0a C; fi
            text 12 Y && text 1a the_node && text 22 "$type"
            seen=
            for word in "$@"; do
                if [ -n "$seen" ]; then attribute "$word"; fi
                if [ "$word" = -- ]; then seen=1; fi
            done
        } | field 0a
        {
            text 0a X
            {
                printf '\x08' && varint "$element"
                for word in "$@"; do
                    if [ "$word" = -- ]; then break; fi
                    dimension "$word"
                done | field 12
            } | field 0a | field 12
        } | field 5a
        text 0a Y | field 62
    } | field 3a
    { printf '\x10' && varint "${opset:-13}"; } | field 42
}
bad_node() { # PATTERN ARGUMENTS of one_node
    local pattern=$1
    shift
    one_node "$@" >"$work/node.onnx"
    expect_error 2 "$pattern" show "$work/node.onnx"
    expect_error 2 "node.onnx: " show "$work/node.onnx"
    # shellcheck disable=SC2046
    expect_error 2 "$pattern" $(search_model "$work/node.onnx")
}
one_node Relu 1 2 3 -- >"$work/node.onnx"
expect_ok show "$work/node.onnx"
bad_node "node the_node (Foo): operator Foo is not supported; \`cleave show operators\` lists" Foo 1 2 3 --
bad_node "node the_node (Relu): attribute slope is not supported" Relu 1 2 3 -- slope
bad_node "node the_node (Softmax) has attribute axis twice" Softmax 1 2 3 -- axis axis
bad_node "node the_node (Relu): graph input X has type STRING" Relu 8 2 3 --
bad_node "graph input X is symbolic (side): say how long it is (--dimensions side=N)" Relu 1 2 side --
one_node Relu 1 4 side -- >"$work/node.onnx"
expect_ok search --model "$work/node.onnx" --dimensions side=6 --forward --machine "$machine" --devices 2 -o "$work/open.layout.json"
expect_ok run --model "$work/node.onnx" --dimensions side=6 --forward --layout "$work/open.layout.json"
expect_error 2 "open.layout.json" run --model "$work/node.onnx" --dimensions side=5 --forward --layout "$work/open.layout.json"
expect_error 2 "--dimensions goes with an ONNX file" show "$tree/configs/models/gpt2.json" --sequence 64 --dimensions x=1
expect_error 2 "unknown option --model: FILE stands by itself" show --model "$models/lenet5.onnx"
opset=99 bad_node "operator set 99, supported are 1 to 24" Relu 1 2 3 --

# Integers that f32 does not hold: of a constant, and of data (2^24 + 1; each file: eight bytes of header
# length, the header, the data).
for type in Add Sub Mul Div Mod Pow; do
    constant=16777216 one_node $type 7 2 -- >"$work/node.onnx"
    expect_ok show "$work/node.onnx"
    constant=16777217 bad_node "node the_node ($type): computes integers with 16777217 (in C)" $type 7 2 --
done
constant=16777217 one_node Less 7 2 -- >"$work/node.onnx"
expect_ok show "$work/node.onnx"
two_integers() { # BYTES of the second one; the first is 0
    local header='{"X":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}'
    printf '%b\0\0\0\0\0\0\0%s\0\0\0\0\0\0\0\0%b' "\\x$(printf %x ${#header})" "$header" "$1"
}
one_node Cast 7 2 -- to >"$work/node.onnx"
expect_ok show "$work/node.onnx"
grep -q "^it can't be trained: .*node.onnx: output Y has rank 1; a loss needs floats" "$work/out" ||
    fail "show: not why Y is no loss"
two_integers '\0\0\0\01\0\0\0\0' >"$work/integers.safetensors"
expect_ok run --model "$work/node.onnx" --forward --data "$work/integers.safetensors"
two_integers '\01\0\0\01\0\0\0\0' >"$work/integers.safetensors"
expect_error 2 "integers.safetensors: element 1 of X is 16777217, not in -16777216..16777216" \
    run --model "$work/node.onnx" --forward --data "$work/integers.safetensors" --save "$work/output"
expect_error 2 "nowhere.safetensors: No such file" \
    run --model "$work/node.onnx" --forward --data "$work/nowhere.safetensors"
expect_error 2 "$machine: \$: not a safetensors file, nor an index" \
    run --model "$work/node.onnx" --forward --data "$machine"
expect_error 2 "external.onnx: " show "$tree/tests/fuzz/corpus/model/external.onnx"

# --- a trace of nothing
for trace in '[]' '{"traceEvents": []}' '[{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "device 0"}}]'; do
    printf '%s' "$trace" >"$work/trace.json"
    expect_error 2 'trace.json: no event of the trace is complete' show "$work/trace.json"
done

# --- Machines
search_machine() { # MACHINE
    echo search --model "$models/lenet5.onnx" --batch 8 --machine "$1" --time 1 -o "$work/output"
}
bad_machine() { # PATTERN OLD NEW
    sed "s|$2|$3|" "$tree/tests/fuzz/corpus/machine/pair.json" >"$work/machine.json"
    cmp -s "$work/machine.json" "$tree/tests/fuzz/corpus/machine/pair.json" && fail "nothing changed by $2"
    # shellcheck disable=SC2046
    expect_error 2 "$1" $(search_machine "$work/machine.json")
    expect_error 2 machine.json show "$work/machine.json"
}
bad_machine "-5 GB/s" "5 GB/s" "-5 GB/s"
bad_machine "bandwidth: 0" "5 GB/s" "0 GB/s"
bad_machine "bandwidth: 1e-291 is less than 1" "5 GB/s" "1e-300 GB/s"
bad_machine "latency: 3601 s are more than an hour" "1 us" "3601 s"
bad_machine "5 GB" '"5 GB/s"' '"5 GB"'
bad_machine "5 parsec" "5 GB/s" "5 parsec"
bad_machine "bandwidht" '"bandwidth"' '"bandwidht"'
bad_machine "gpu" '"kind": "cpu"' '"kind": "gpu"'
bad_machine "sorts" '"kinds"' '"sorts"'
bad_machine "2" '\[\[0, 1\]\]' '[[0, 2]]'
bad_machine "devices" '"devices": 2' '"devices": 2.5'
bad_machine "devices" '"devices": 2' '"devices": 99999999999'
bad_machine "line 1" '{"cleave_machine": 1,' '{"cleave_machine": 1'
sed 's|"5 GB/s"|"1 B/s"|' "$tree/tests/fuzz/corpus/machine/pair.json" >"$work/slow.json"
expect_error 2 "more than 26 days" search --model "$models/alexnet.onnx" --batch 64 --machine "$work/slow.json" -o "$work/output"
expect_error 2 99 search --model "$models/lenet5.onnx" --batch 8 --machine "$machine" --devices 99 \
    -o "$work/output"

: >"$work/empty.json"
# shellcheck disable=SC2046
expect_error 2 "empty.json: the file is empty" $(search_machine "$work/empty.json")
# shellcheck disable=SC2046
expect_error 2 "node.onnx: line 1, column 1: not JSON" $(search_machine "$work/node.onnx")

# --- Task graphs
expect_error 2 "empty.json: the file is empty" simulate --tasks "$work/empty.json"

# --- Layouts
lenet=(--model "$models/lenet5.onnx" --batch 8)
expect_error 2 "--attention flash" search "${lenet[@]}" --machine "$machine" --attention flash -o "$work/output"
expect_ok search "${lenet[@]}" --machine "$machine" --method data-parallel -o "$work/plan.layout.json"
for file in pointer waits; do
    expect_error 2 "$work/$file: " run "${lenet[@]}" --layout "$work/plan.layout.json" --steps 1 --weights "$work/$file"
done
expect_error 2 "plan.layout.json: is for 2 devices, not 1" search "${lenet[@]}" --machine "$machine" --devices 1 \
    --known "$work/plan.layout.json" -o "$work/output"
sed 's/^{/{"attention": "stored",/' "$work/plan.layout.json" >"$work/stored.layout.json"
expect_error 2 "stored.layout.json: has another --attention" search "${lenet[@]}" --machine "$machine" \
    --known "$work/stored.layout.json" -o "$work/output"
expect_ok simulate "${lenet[@]}" --machine "$machine" --layout "$work/plan.layout.json"
expect_error 2 plan.layout.json simulate --model "$models/mlp.onnx" --batch 8 --machine "$machine" \
    --layout "$work/plan.layout.json"
expect_error 2 plan.layout.json simulate --model "$models/lenet5.onnx" --batch 16 --machine "$machine" \
    --layout "$work/plan.layout.json"
bad_layout() { # PATTERN OLD NEW [OLD NEW]
    sed -e "s|$2|$3|" -e "s|${4:-^$}|${5:-}|" "$work/plan.layout.json" >"$work/bad.layout.json"
    cmp -s "$work/bad.layout.json" "$work/plan.layout.json" && fail "nothing changed by $2"
    expect_error 2 "$1" simulate "${lenet[@]}" --machine "$machine" --layout "$work/bad.layout.json"
    expect_error 2 "$1" run "${lenet[@]}" --steps 1 --layout "$work/bad.layout.json"
}
bad_layout 7 '\[0, 1\]' '[0, 7]'
bad_layout -1 '\[0, 1\]' '[0, -1]'
bad_layout 1 '\[0, 1\]' '[1, 1]'
bad_layout "3 parts" '"n": 2' '"n": 3'
bad_layout 9 '"n": 2' '"n": 9' '"devices": 2,' '"devices": 9,'
bad_layout '"z"' '"n": 2' '"z": 2'
bad_layout 0 '"n": 2' '"n": 0'
bad_layout 2.5 '"n": 2' '"n": 2.5'
bad_layout cleave_layout '"cleave_layout": 1' '"cleave_layout": 2'
bad_layout bad.layout.json '"operators"' '"ops"'
bad_layout bad.layout.json '"operators": {' '"operators": {"stranger": {"split": {}, "devices": [0]},'
sed '0,/{"split"/{/{"split"/d}' "$work/plan.layout.json" >"$work/bad.layout.json"
expect_error 2 bad.layout.json simulate "${lenet[@]}" --machine "$machine" --layout "$work/bad.layout.json"
head -c 200 "$work/plan.layout.json" >"$work/bad.layout.json"
expect_error 2 bad.layout.json simulate "${lenet[@]}" --machine "$machine" --layout "$work/bad.layout.json"
expect_error 2 bad.layout.json show "$work/bad.layout.json"
echo '{"something": "else"}' >"$work/else.json"
expect_error 2 else.json show "$work/else.json"

# --- Nothing fits
expect_error 3 memory search "${lenet[@]}" --machine "$machine" --memory-limit "1 KiB" --time 2 \
    -o "$work/output"
# --- Traces
printf '{"traceEvents": [{"ph": "X", "ts": 1, "dur": 2}, {"ph": "X", "ts": 1}]}' >"$work/trace.json"
expect_error 2 'event 1: $: the key "dur" is missing' show "$work/trace.json"
printf '[{"ph": "X"' >"$work/trace.json"
expect_error 2 "trace.json: event 0: the file ends within it" show "$work/trace.json"
finish

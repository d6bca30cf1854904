# An installed Cleave is found by pkg-config and by CMake, wherever it lies; programs in C and C++ that know its one header
# build with it, and the examples give what the command gives.
#   usage: install.sh BUILD TREE COMPILER [COMPILER_OF_CXX]
build=$1
tree=$2
compiler=$3
compiler_of_cxx=${4-}
# shellcheck source=failures.bash
. "$(dirname "$0")/failures.bash"
set -e

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
cleave=$work/moved/bin/cleave
"$cleave" --version | grep -q '^cleave '

# One header; what the library exports is what that declares; and beside it the page and the completions.
[ "$(cd "$work/moved/include" && find . -type f)" = ./cleave/cleave.h ] || fail "there is more than one header"
library=$(dirname "$(find "$work/moved" -name libcleave.so)")
sed '/^#/d' "$work/moved/include/cleave/cleave.h" | tr '\n' ' ' | grep -o 'CLEAVE_API [^(]*(' | sed 's/.*[ *]\(.*\)(/\1/' | sort >"$work/declared"
nm -D --defined-only "$library/libcleave.so" | awk '{ print $3 }' | sort >"$work/exported"
[ "$(wc -l <"$work/declared")" -gt 20 ] || fail "the header's functions were not found"
diff "$work/declared" "$work/exported" || fail "the library exports something else than the header declares"
for file in man/man1/cleave.1 bash-completion/completions/cleave zsh/site-functions/_cleave; do
    [ -s "$work/moved/share/$file" ] || fail "$file is not installed"
done

# The outside programs, by pkg-config and by CMake.
flags=$(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs cleave)
sanitize=$(sed -n 's/^CMAKE_C_FLAGS:STRING=//p' "$build/CMakeCache.txt")
strict="-Wall -Wextra -Wconversion -Wshadow -pedantic -Werror"
for example in plan simulate own_machine train; do
    # shellcheck disable=SC2086
    "$compiler" -std=c11 $strict $sanitize "$tree/examples/$example.c" $flags "-Wl,-rpath,$library" -o "$work/$example"
done
if [ -n "$compiler_of_cxx" ]; then
    # shellcheck disable=SC2086
    "$compiler_of_cxx" -std=c++17 $strict $sanitize -x c++ "$tree/examples/plan.c" -x none $flags "-Wl,-rpath,$library" \
        -o "$work/plan_in_cxx"
else
    echo "skipped: there is no compiler of C++ to compile the header with"
fi
mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.22)
project(use C)
find_package(cleave REQUIRED)
add_executable(plan "$tree/examples/plan.c")
target_link_libraries(plan PRIVATE cleave::cleave)
END
cmake -G Ninja -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_C_FLAGS="$sanitize" >/dev/null
cmake --build "$work/project/build" >/dev/null

# They give what the command gives.
alexnet=("$tree/configs/models/alexnet.onnx" 32 "$tree/configs/machines/two-cores.json")
as_command=(--model "${alexnet[0]}" --batch "${alexnet[1]}" --machine "${alexnet[2]}")
"$cleave" search "${as_command[@]}" --quiet -o "$work/command.layout.json" >/dev/null
for program in "$work/plan" "$work/project/build/plan" "$work/plan_in_cxx"; do
    [ -e "$program" ] || continue
    "$program" "${alexnet[@]}" "$work/plan.layout.json" >"$work/out"
    cmp "$work/command.layout.json" "$work/plan.layout.json" || fail "$program: another plan than the command's"
    grep -q '^data-parallel .* s$' "$work/out" || fail "$program: no baselines: $(cat "$work/out")"
done
"$cleave" simulate "${as_command[@]}" --layout "$work/plan.layout.json" --json |
    awk '/"step_seconds"/ { printf "step %.6f s,\n", $2 }' >"$work/expected"
"$work/simulate" "${alexnet[@]}" "$work/plan.layout.json" >"$work/out"
grep -q -f "$work/expected" "$work/out" || fail "simulate: not the step of the command: $(cat "$work/out")"
grep -q "is bound by" "$work/out" || fail "simulate: no explanation: $(cat "$work/out")"

"$work/own_machine" "${alexnet[0]}" 1024 2 >"$work/out"
awk -F '[ :]' '{ if (NR > 1 && $4 + 0 >= before) exit 1; before = $4 + 0; devices = devices " " $1 }
               END { exit devices != " 4 8" }' "$work/out" || fail "own_machine: $(cat "$work/out")"

lenet5=("$tree/configs/models/lenet5.onnx" 32)
"$work/plan" "${lenet5[@]}" "$tree/configs/machines/two-cores.json" "$work/lenet5.layout.json" >/dev/null
"$cleave" run --model "${lenet5[0]}" --batch "${lenet5[1]}" --layout "$work/lenet5.layout.json" --steps 5 --json |
    tr -d '\n' | sed 's/.*"loss": *\[\([^]]*\)\].*/\1/' | tr ',' '\n' | awk '{ printf "step %d: loss %.6f\n", NR, $1 }' >"$work/expected"
"$work/train" "${lenet5[@]}" "$work/lenet5.layout.json" | grep '^step' >"$work/out"
diff "$work/expected" "$work/out" || fail "train: not the losses of the command"
finish

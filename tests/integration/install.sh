# An installed Cleave is found by pkg-config and by CMake, wherever it lies, and a program links with it.
#   usage: install.sh BUILD TREE COMPILER
set -eu
build=$1
tree=$2
compiler=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/first" >/dev/null
mv "$work/first" "$work/moved"
"$work/moved/bin/cleave" --version | grep -q '^cleave '

cat >"$work/use.c" <<'END'
#include <graph/import/import.h>
#include <stdio.h>
int main(int n, char **arguments) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_error error;
    if (n != 2 || cleave_model_import(arguments[1], 8, true, &arena, &model, &error) != CLEAVE_OK)
        return 1;
    printf("%lld parameters\n", (long long)cleave_model_parameter_count(&model));
    cleave_arena_free(&arena);
    return 0;
}
END
model=$tree/configs/models/lenet5.onnx
# LeNet-5: 6x25+6 + 16x6x25+16 + 120x400+120 + 84x120+84 + 10x84+10.
expected="61706 parameters"

library=$(dirname "$(find "$work/moved" -name libcleave.so)")
flags=$(PKG_CONFIG_PATH=$library/pkgconfig pkg-config --cflags --libs cleave)
sanitize=$(sed -n 's/^CMAKE_C_FLAGS:STRING=//p' "$build/CMakeCache.txt")
# shellcheck disable=SC2086
"$compiler" $sanitize "$work/use.c" $flags "-Wl,-rpath,$library" -o "$work/use"
[ "$("$work/use" "$model")" = "$expected" ]

mkdir "$work/project"
cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.22)
project(use C)
find_package(cleave REQUIRED)
add_executable(use ../use.c)
target_link_libraries(use PRIVATE cleave::cleave)
END
cmake -G Ninja -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$work/moved" -DCMAKE_C_COMPILER="$compiler" \
    -DCMAKE_C_FLAGS="$sanitize" >/dev/null
cmake --build "$work/project/build" >/dev/null
[ "$("$work/project/build/use" "$model")" = "$expected" ]

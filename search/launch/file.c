/* Lines of a launcher's file. */
#include "search/launch/launch.h"

#include "base/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void launch_say(launch_text *out, const char *format, ...) {
    char line[1024];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    bool fits = n >= 0 && (size_t)n < sizeof line && out->text != NULL;
    out->text = fits ? cleave_arena_printf(out->arena, "%s%s", out->text, line) : NULL;
}

cleave_status cleave_launch_write(const char *path, const cleave_launch *launch,
                                  const cleave_launch_sizes *sizes, const char **unsaid,
                                  cleave_error *error) {
    static const char *(*const put[CLEAVE_N_LAUNCHERS])(launch_text *, const cleave_launch *,
                                                        const cleave_launch_sizes *) = {
        launch_put_megatron, launch_put_torchtitan};
    cleave_arena arena = {0};
    launch_text out = {.arena = &arena, .text = ""};
    const char *left = put[launch->launcher](&out, launch, sizes);
    cleave_status status = out.text == NULL
                               ? cleave_fail_memory(error, "writing a launch")
                               : cleave_file_write(path, out.text, strlen(out.text), error);
    cleave_arena_free(&arena);
    if (status == CLEAVE_OK)
        *unsaid = left;
    return status;
}

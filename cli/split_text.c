/* Splits and devices as text. */
#include "cli/split_text.h"

#include <stdio.h>
#include <string.h>

void split_text_degrees(const cleave_operator *op, const cleave_split *split, char *text,
                        size_t bytes) {
    size_t used = 0;
    bool any = false;
    text[0] = '\0';
    if (split->replicas > 1)
        used += (size_t)snprintf(text, bytes, "%d replicas x ", split->replicas);
    for (int a = 0; a < op->n_axes && used < bytes; a++) {
        if (split->degree[a] <= 1)
            continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s=%d", any ? " " : "",
                                 op->axes[a].name, split->degree[a]);
        any = true;
    }
    if (!any && used < bytes)
        snprintf(text + used, bytes - used, "whole");
}

void split_text_devices(const cleave_split *split, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < split->n_parts;) {
        char run[32];
        int32_t first = split->devices[i], last = first;
        for (i++; i < split->n_parts && split->devices[i] == last + 1; i++)
            last++;
        if (last > first)
            snprintf(run, sizeof run, "%s%d-%d", used > 0 ? " " : "", first, last);
        else
            snprintf(run, sizeof run, "%s%d", used > 0 ? " " : "", first);
        if (used + strlen(run) + 4 > bytes) {
            snprintf(text + used, bytes - used, "..");
            return;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s", run);
    }
}

void split_text_put(cleave_json_writer *writer, const cleave_operator *op,
                    const cleave_split *split) {
    cleave_json_key(writer, "split");
    cleave_json_begin_object(writer, true);
    for (int a = 0; a < op->n_axes; a++)
        if (split->degree[a] > 1) {
            cleave_json_key(writer, op->axes[a].name);
            cleave_json_put_integer(writer, split->degree[a]);
        }
    cleave_json_end_object(writer);
    cleave_json_key(writer, "replicas");
    cleave_json_put_integer(writer, split->replicas);
    cleave_json_key(writer, "devices");
    cleave_json_begin_array(writer, true);
    for (int32_t p = 0; p < split->n_parts; p++)
        cleave_json_put_integer(writer, split->devices[p]);
    cleave_json_end_array(writer);
}

bool split_text_same(const cleave_operator *op, const cleave_split *a, const cleave_split *b) {
    return a->replicas == b->replicas && a->n_parts == b->n_parts &&
           memcmp(a->degree, b->degree, (size_t)op->n_axes * sizeof *a->degree) == 0 &&
           memcmp(a->devices, b->devices, (size_t)a->n_parts * sizeof *a->devices) == 0;
}

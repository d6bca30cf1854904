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
    cleave_json_open_object(writer, "split", true);
    for (int a = 0; a < op->n_axes; a++)
        if (split->degree[a] > 1)
            cleave_json_set_integer(writer, op->axes[a].name, split->degree[a]);
    cleave_json_end_object(writer);
    cleave_json_set_integer(writer, "replicas", split->replicas);
    cleave_json_open_array(writer, "devices", true);
    for (int32_t p = 0; p < split->n_parts; p++)
        cleave_json_put_integer(writer, split->devices[p]);
    cleave_json_end_array(writer);
}

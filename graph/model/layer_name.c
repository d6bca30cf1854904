#include "graph/model/layer_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int64_t cleave_layer_of(const char *name, size_t *end) {
    for (const char *word = name; word != NULL;) {
        char *behind;
        long layer = isdigit((unsigned char)*word) ? strtol(word, &behind, 10) : -1;
        if (layer >= 0 && (*behind == '.' || *behind == '/' || *behind == '\0')) {
            if (end != NULL)
                *end = (size_t)(behind - name);
            return layer;
        }
        word = strpbrk(word, "./");
        word = word != NULL ? word + 1 : NULL;
    }
    return -1;
}

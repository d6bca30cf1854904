/* Settings of programs that were compiled with another version. */
#include "exec/kernels/optimizer.h"
#include "library/objects.h"

#include <string.h>

cleave_status door_take_settings(void *settings, size_t bytes, const void *given,
                                 cleave_error *error) {
    size_t size;
    if (given == NULL)
        return CLEAVE_OK;
    memcpy(&size, given, sizeof size);
    if (size < sizeof size)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "settings of %zu bytes: they don't begin with their macro, such as "
                           "CLEAVE_MODEL_SETTINGS_INIT",
                           size);
    for (size_t i = bytes; i < size; i++)
        if (((const char *)given)[i] != 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "settings that Cleave %s does not know: the program was made for a "
                               "later one",
                               cleave_version());
    memcpy(settings, given, size < bytes ? size : bytes);
    return CLEAVE_OK;
}

cleave_status door_optimizer_states(const char *name, double momentum, int *states,
                                    cleave_error *error) {
    cleave_optimizer optimizer;
    CLEAVE_TRY(cleave_optimizer_find(name != NULL ? name : "sgd", &optimizer, error));
    optimizer.momentum = momentum;
    *states = cleave_optimizer_states(&optimizer);
    return CLEAVE_OK;
}

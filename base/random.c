/* Keys of names for counter-based random numbers. */
#include "base/random.h"

uint64_t cleave_hash_string(const char *string) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *string != '\0'; string++)
        hash = (hash ^ (uint8_t)*string) * 0x100000001b3u;
    return cleave_hash64(hash);
}

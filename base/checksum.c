/* Four lanes that each take 8 bytes of every 32, so that multiplications overlap; little-endian. */
#include "base/checksum.h"

#include <string.h>

static const uint64_t prime1 = 0x9e3779b185ebca87u, prime2 = 0xc2b2ae3d27d4eb4fu,
                      prime3 = 0x165667b19e3779f9u, prime4 = 0x85ebca77c2b2ae63u,
                      prime5 = 0x27d4eb2f165667c5u;

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t mix(uint64_t lane, uint64_t input) {
    return rotate(lane + input * prime2, 31) * prime1;
}

static void take_stripes(uint64_t lane[4], const unsigned char *data, size_t n) {
    for (size_t s = 0; s < n; s++) {
        uint64_t input[4];
        memcpy(input, data + 32 * s, sizeof input);
        for (int i = 0; i < 4; i++)
            lane[i] = mix(lane[i], input[i]);
    }
}

void cleave_checksum_begin(cleave_checksum *sum) {
    *sum = (cleave_checksum){.lane = {prime1 + prime2, prime2, 0, 0 - prime1}};
}

void cleave_checksum_add(cleave_checksum *sum, const void *data, size_t bytes) {
    const unsigned char *from = data;
    size_t kept = (size_t)(sum->bytes % 32);
    if (bytes == 0)
        return;
    sum->bytes += bytes;
    if (kept > 0) {
        size_t fits = 32 - kept < bytes ? 32 - kept : bytes;
        memcpy(sum->rest + kept, from, fits);
        if (kept + fits < 32)
            return;
        take_stripes(sum->lane, sum->rest, 1);
        from += fits;
        bytes -= fits;
    }
    take_stripes(sum->lane, from, bytes / 32);
    memcpy(sum->rest, from + bytes / 32 * 32, bytes % 32);
}

static uint64_t join_lanes(const uint64_t lane[4]) {
    uint64_t value =
        rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
    for (int i = 0; i < 4; i++)
        value = (value ^ mix(0, lane[i])) * prime1 + prime4;
    return value;
}

uint64_t cleave_checksum_value(const cleave_checksum *sum) {
    const unsigned char *rest = sum->rest, *end = rest + sum->bytes % 32;
    uint64_t value = (sum->bytes >= 32 ? join_lanes(sum->lane) : prime5) + sum->bytes;
    for (; end - rest >= 8; rest += 8) {
        uint64_t eight;
        memcpy(&eight, rest, sizeof eight);
        value = rotate(value ^ mix(0, eight), 27) * prime1 + prime4;
    }
    for (; end - rest >= 4; rest += 4) {
        uint32_t four;
        memcpy(&four, rest, sizeof four);
        value = rotate(value ^ four * prime1, 23) * prime2 + prime3;
    }
    for (; rest < end; rest++)
        value = rotate(value ^ *rest * prime5, 11) * prime1;
    value = (value ^ value >> 33) * prime2;
    value = (value ^ value >> 29) * prime3;
    return value ^ value >> 32;
}

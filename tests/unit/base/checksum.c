/* Checksums against those of the reference implementation (xxhash 3.5 of PyPI, xxh64 with seed 0),
   of bytes 3, 10, 17, ...: byte i is (7 i + 3) mod 256. */
#include "base/checksum.h"

#include <criterion/criterion.h>

static const struct {
    size_t bytes;
    uint64_t sum;
} known[] = {{0, 0xef46db3751d8e999u},   {1, 0x1f25c8d0bc1f4bb6u},  {3, 0x31d2363f52e564c9u},
             {4, 0x9bb64b7d66ee9fdau},   {7, 0x9a7b149959ce60d8u},  {8, 0xdab99d95c6f90092u},
             {31, 0xa2aa5f33cc4a6119u},  {32, 0x23c3c17ef790fd97u}, {33, 0x50a7cfc7ba588784u},
             {63, 0x5e3e54b431c7493cu},  {64, 0x0eb64b3ef6eeb01fu}, {100, 0xa61f8d4c170fe531u},
             {1000, 0x5f235fa033f1a3fbu}};

static uint64_t sum_by_pieces(size_t bytes, size_t piece) {
    unsigned char data[1000];
    cleave_checksum sum;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(7 * i + 3);
    cleave_checksum_begin(&sum);
    for (size_t at = 0; at < bytes; at += piece)
        cleave_checksum_add(&sum, data + at, bytes - at < piece ? bytes - at : piece);
    return cleave_checksum_value(&sum);
}

Test(checksum, is_xxh64_however_the_bytes_come) {
    const size_t pieces[] = {1, 13, 32, 37, 1000};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
            cr_expect_eq(sum_by_pieces(known[k].bytes, pieces[p]), known[k].sum, "%zu bytes by %zu",
                         known[k].bytes, pieces[p]);
}

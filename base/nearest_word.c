#include "base/nearest_word.h"

#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many letters have to be put in, left out or changed, row by row. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t row[LONGEST + 1];
    for (size_t k = 0; k <= m; k++)
        row[k] = k;
    for (size_t i = 0; i < n; i++) {
        size_t corner = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < m; k++) {
            size_t changed = corner + (a[i] != b[k]);
            corner = row[k + 1];
            row[k + 1] = least(changed, 1 + least(row[k], row[k + 1]));
        }
    }
    return row[m];
}

void cleave_nearest_word_offer(cleave_nearest_word *nearest, const char *word) {
    size_t n = nearest->length, m = strlen(word), most = n <= 5 ? 1 : n <= 8 ? 2 : 3;
    if (n < 2 || n > LONGEST || m > LONGEST)
        return;
    bool begins = strncmp(nearest->text, word, least(n, m)) == 0 && least(n, m) >= 3;
    size_t of_word = begins ? 1 : distance(nearest->text, n, word, m);
    if (of_word > most || (nearest->word != NULL && of_word >= nearest->distance))
        return;
    nearest->word = word;
    nearest->distance = of_word;
}

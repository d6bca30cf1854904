#include "base/nearest_word.h"

#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 };

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* How many letters have to be put in, left out, changed, or exchanged with the next, row by row. */
static size_t distance(const char *a, size_t n, const char *b, size_t m) {
    size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2];
    for (size_t k = 0; k <= m; k++)
        last[k] = k;
    for (size_t i = 0; i < n; i++) {
        row[0] = i + 1;
        for (size_t k = 0; k < m; k++) {
            row[k + 1] = least(last[k] + (a[i] != b[k]), 1 + least(row[k], last[k + 1]));
            if (i > 0 && k > 0 && a[i] == b[k - 1] && a[i - 1] == b[k])
                row[k + 1] = least(row[k + 1], 1 + before[k - 1]);
        }
        size_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[m];
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

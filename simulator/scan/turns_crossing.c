/* What goes from block to block. */
#include "simulator/scan/turns_internal.h"

enum { OF_NO_BLOCK = -1 };

typedef struct finder {
    const cleave_turns_subject *of;
    const cleave_program *program;
    const cleave_turns *turns;
    int32_t *block;      /* [n_items] */
    int32_t *first_turn; /* [n_blocks] */
    bool *has_main;      /* [n_blocks][n_devices] items of its main lane */
    bool communicates;   /* the communication lane does something for every micro-batch */
    /* Of messages [n_messages], and of collectives [n_collectives]: the block that makes it, and
       its number as a crossing, OF_NO_BLOCK where it stays in its block. */
    int32_t *maker[2], *crossing[2];
    cleave_error *error;
} finder;

static cleave_status refuse(const finder *f, const char *why) {
    return cleave_fail(f->error, CLEAVE_NO_LAYOUT, "blocks of micro-batches are not alike: %s",
                       why);
}

/* Is it the one of every micro-batch that stands for all in between? */
static bool is_between(const finder *f, int32_t item) {
    int32_t block = f->block[item];
    return f->turns->window[block] == 1 && f->program->items[item].when == CLEAVE_WHEN_EVERY;
}

static bool begin(finder *f, cleave_arena *arena) {
    int32_t n_blocks = f->turns->n_blocks;
    size_t n[2] = {(size_t)f->program->n_messages, (size_t)f->program->n_collectives};
    size_t n_devices = (size_t)f->program->n_devices;
    f->block = CLEAVE_ARENA_ARRAY(arena, int32_t, f->program->n_items);
    f->first_turn = CLEAVE_ARENA_ARRAY(arena, int32_t, n_blocks);
    f->has_main = CLEAVE_ARENA_ARRAY(arena, bool, (size_t)n_blocks *n_devices);
    bool ready = f->block != NULL && f->first_turn != NULL && f->has_main != NULL;
    for (int k = 0; k < 2 && ready; k++) {
        f->maker[k] = CLEAVE_ARENA_ARRAY(arena, int32_t, n[k]);
        f->crossing[k] = CLEAVE_ARENA_ARRAY(arena, int32_t, n[k]);
        ready = f->maker[k] != NULL && f->crossing[k] != NULL;
        for (size_t s = 0; s < n[k] && ready; s++)
            f->maker[k][s] = f->crossing[k][s] = OF_NO_BLOCK;
    }
    for (int32_t t = f->turns->n_turns - 1; t >= 0 && ready; t--)
        f->first_turn[f->turns->turns[t].block] = t;
    for (int32_t b = 0; b < n_blocks && ready; b++)
        for (int32_t i = f->turns->first_item[b]; i < f->turns->first_item[b + 1]; i++) {
            const cleave_item *item = &f->program->items[i];
            f->block[i] = b;
            if (item->lane == CLEAVE_LANE_MAIN)
                f->has_main[(size_t)b * n_devices + (size_t)item->device] = true;
            else
                f->communicates = f->communicates || is_between(f, i);
        }
    return ready;
}

/* A lane waits for the last item of the other that stands before it.  Among all micro-batches that
   is the same item if nothing of the other lane comes in between that isn't there. */
static cleave_status check_sync(const finder *f, int32_t item) {
    int32_t subject = f->program->items[item].subject, a = f->block[subject], b = f->block[item];
    int32_t device = f->program->items[item].device;
    if (a == b)
        return CLEAVE_OK;
    if (f->turns->window[a] == 1 || f->turns->window[b] == 1)
        return refuse(f, "a lane waits for another block");
    if (f->program->items[subject].lane != CLEAVE_LANE_MAIN)
        return f->communicates ? refuse(f, "the communication lane is busy in all") : CLEAVE_OK;
    for (int32_t t = f->first_turn[a] + 1; t < f->first_turn[b]; t++) {
        int32_t c = f->turns->turns[t].block;
        if (f->turns->window[c] == 1 &&
            f->has_main[(size_t)c * (size_t)f->program->n_devices + (size_t)device])
            return refuse(f, "others come before what a lane waits for");
    }
    return CLEAVE_OK;
}

/* Both posts of a message are in one block, and so are all joins of a collective. */
static cleave_status note_made(finder *f, int kind, int32_t item) {
    int32_t *maker = &f->maker[kind][f->program->items[item].subject];
    if (*maker != OF_NO_BLOCK && *maker != f->block[item])
        return refuse(f, "two of them make one thing");
    *maker = f->block[item];
    return CLEAVE_OK;
}

static cleave_status note_read(finder *f, int kind, int32_t item) {
    int32_t subject = f->program->items[item].subject, maker = f->maker[kind][subject];
    int32_t reader = f->block[item];
    if (maker == OF_NO_BLOCK)
        return refuse(f, "one is read before it is made");
    if (maker == reader || (f->turns->window[maker] != 1 && f->turns->window[reader] != 1))
        return CLEAVE_OK;
    if (f->turns->window[maker] != 1 || f->turns->window[reader] != 1)
        return refuse(f, "one micro-batch waits for another");
    f->crossing[kind][subject] = 0;
    return CLEAVE_OK;
}

static cleave_status look_at(finder *f, int32_t item) {
    switch ((cleave_item_kind)f->program->items[item].kind) {
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
        return note_made(f, 0, item);
    case CLEAVE_ITEM_WAIT:
        return note_read(f, 0, item);
    case CLEAVE_ITEM_JOIN:
        return note_made(f, 1, item);
    case CLEAVE_ITEM_AWAIT:
        return note_read(f, 1, item);
    case CLEAVE_ITEM_SYNC:
        return check_sync(f, item);
    default:
        return CLEAVE_OK;
    }
}

/* What an item is about, where that goes from block to block; else null. */
static int32_t *crossing_of(const finder *f, int32_t item, bool reads) {
    const cleave_item *of = &f->program->items[item];
    int32_t *found = NULL;
    if (of->kind == (reads ? CLEAVE_ITEM_WAIT : CLEAVE_ITEM_SEND))
        found = &f->crossing[0][of->subject];
    if (of->kind == (reads ? CLEAVE_ITEM_AWAIT : CLEAVE_ITEM_JOIN))
        found = &f->crossing[1][of->subject];
    return found != NULL && *found != OF_NO_BLOCK ? found : NULL;
}

/* Numbers them in the order in which they are made, from 1 on while that is under way. */
static void list_made(finder *f, turns_crossings *to) {
    for (int32_t b = 0; b < f->turns->n_blocks; b++) {
        for (int32_t i = f->turns->first_item[b]; i < f->turns->first_item[b + 1]; i++) {
            int32_t *crossing = crossing_of(f, i, false), subject = f->program->items[i].subject;
            if (crossing == NULL || *crossing > 0)
                continue;
            bool joins = f->program->items[i].kind == CLEAVE_ITEM_JOIN;
            to->items[to->n++] =
                (turns_crossing){.is_collective = joins, .subject = subject, .maker = b};
            *crossing = to->n;
        }
        to->first_made[b + 1] = to->n;
    }
}

static void list_read(finder *f, turns_crossings *to) {
    int32_t n = 0;
    for (int32_t b = 0; b < f->turns->n_blocks; b++) {
        for (int32_t i = f->turns->first_item[b]; i < f->turns->first_item[b + 1]; i++) {
            const int32_t *crossing = crossing_of(f, i, true);
            if (crossing != NULL && to->items[*crossing - 1].maker != b)
                to->read[n++] = *crossing - 1;
        }
        to->first_read[b + 1] = n;
    }
}

cleave_status turns_find_crossings(const cleave_turns_subject *of, cleave_arena *arena,
                                   turns_crossings *crossings, cleave_error *error) {
    finder f = {.of = of, .program = of->program, .turns = of->turns, .error = error};
    size_t n_blocks = (size_t)of->turns->n_blocks;
    size_t most = (size_t)of->program->n_messages + (size_t)of->program->n_collectives;
    *crossings =
        (turns_crossings){.items = CLEAVE_ARENA_ARRAY(arena, turns_crossing, most),
                          .first_made = CLEAVE_ARENA_ARRAY(arena, int32_t, n_blocks + 1),
                          .first_read = CLEAVE_ARENA_ARRAY(arena, int32_t, n_blocks + 1),
                          .read = CLEAVE_ARENA_ARRAY(arena, int32_t, of->program->n_items)};
    if (!begin(&f, arena) || crossings->items == NULL || crossings->first_made == NULL ||
        crossings->first_read == NULL || crossings->read == NULL)
        return cleave_fail_memory(error, "simulating micro-batches");
    for (int32_t i = 0; i < of->program->n_items; i++)
        CLEAVE_TRY(look_at(&f, i));
    list_made(&f, crossings);
    list_read(&f, crossings);
    return CLEAVE_OK;
}

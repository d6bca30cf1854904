#include "simulator/step/priced_check.h"

typedef struct checker {
    const cleave_priced_fragment *fragment;
    int32_t n_queues, n_links;
    const int64_t *link_latency;
    unsigned __int128 total;
    cleave_error *error;
} checker;

/* How many subjects an item chooses from. */
static int32_t subject_limit(const cleave_priced_fragment *fragment, int32_t item) {
    switch ((cleave_priced_kind)fragment->kind[item]) {
    case CLEAVE_PRICED_POST:
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        return fragment->n_messages;
    case CLEAVE_PRICED_JOIN:
    case CLEAVE_PRICED_AWAIT:
        return fragment->n_collectives;
    case CLEAVE_PRICED_SYNC: /* of a whole step: with an earlier item */
        return fragment->n_chunks > 0 ? fragment->n_marks : item;
    case CLEAVE_PRICED_MARK:
        return fragment->n_marks;
    default:
        return 0;
    }
}

static cleave_status check_item(const checker *c, int32_t item) {
    const cleave_priced_fragment *f = c->fragment;
    uint8_t kind = f->kind[item];
    int32_t queue = f->queue[item], subject = f->subject[item];
    if (kind >= CLEAVE_PRICED_N_KINDS)
        return cleave_fail(c->error, CLEAVE_FAILED, "item %d is of no known kind %d", item, kind);
    if (queue < 0 || queue >= c->n_queues)
        return cleave_fail(c->error, CLEAVE_FAILED, "item %d is on queue %d of %d", item, queue,
                           c->n_queues);
    if (f->duration[item] < 0 ||
        ((cleave_priced_waits(kind) || kind == CLEAVE_PRICED_MARK) && f->duration[item] != 0))
        return cleave_fail(c->error, CLEAVE_FAILED, "item %d has a duration of %lld ps", item,
                           (long long)f->duration[item]);
    if (kind != CLEAVE_PRICED_WORK && (subject < 0 || subject >= subject_limit(f, item)))
        return cleave_fail(c->error, CLEAVE_FAILED, "item %d has subject %d of %d", item, subject,
                           subject_limit(f, item));
    if (kind == CLEAVE_PRICED_POST && f->ends != NULL && f->ends[subject].source != queue / 2 &&
        f->ends[subject].destination != queue / 2)
        return cleave_fail(c->error, CLEAVE_FAILED,
                           "item %d posts message %d, from device %d to %d, on queue %d", item,
                           subject, f->ends[subject].source, f->ends[subject].destination, queue);
    return CLEAVE_OK;
}

static cleave_status check_ends(checker *c, int32_t m) {
    const cleave_message_ends *ends = &c->fragment->ends[m];
    if (ends->work < 0 || ends->agreement < 0 || ends->source < 0 || ends->destination < 0 ||
        ends->source >= c->n_queues / 2 || ends->destination >= c->n_queues / 2)
        return cleave_fail(c->error, CLEAVE_FAILED,
                           "message %d from device %d to %d of %d has its ends work for %lld ps "
                           "and agree for %lld",
                           m, ends->source, ends->destination, c->n_queues / 2,
                           (long long)ends->work, (long long)ends->agreement);
    c->total +=
        4 * (unsigned __int128)ends->work + (unsigned __int128)ends->agreement; /* two ends' */
    return CLEAVE_OK;
}

static cleave_status check_message(checker *c, int32_t m) {
    const cleave_priced_fragment *f = c->fragment;
    if (f->hop_start[m] >= f->hop_start[m + 1])
        return cleave_fail(c->error, CLEAVE_FAILED, "message %d crosses no link", m);
    for (int32_t h = f->hop_start[m]; h < f->hop_start[m + 1]; h++) {
        int32_t link = f->hop_link[h];
        if (link < 0 || link >= c->n_links || f->hop_serialization[h] < 1)
            return cleave_fail(c->error, CLEAVE_FAILED, "message %d takes %lld ps on link %d of %d",
                               m, (long long)f->hop_serialization[h], link, c->n_links);
        if (c->link_latency[link] < 0)
            return cleave_fail(c->error, CLEAVE_FAILED, "link %d has a latency of %lld ps", link,
                               (long long)c->link_latency[link]);
        c->total +=
            (unsigned __int128)f->hop_serialization[h] + (unsigned __int128)c->link_latency[link];
    }
    return f->ends != NULL ? check_ends(c, m) : CLEAVE_OK;
}

static cleave_status check_collective(checker *c, int32_t i) {
    const cleave_priced_fragment *f = c->fragment;
    if (f->collective_busy[i] < 0 || f->collective_rest[i] < 0)
        return cleave_fail(c->error, CLEAVE_FAILED, "collective %d takes a negative time", i);
    for (int32_t l = f->collective_link_start[i]; l < f->collective_link_start[i + 1]; l++)
        if (f->collective_links[l] < 0 || f->collective_links[l] >= c->n_links)
            return cleave_fail(c->error, CLEAVE_FAILED, "collective %d uses link %d of %d", i,
                               f->collective_links[l], c->n_links);
    c->total += (unsigned __int128)f->collective_busy[i] + (unsigned __int128)f->collective_rest[i];
    return CLEAVE_OK;
}

cleave_status cleave_fail_too_long(cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "the times of the step add up to more than 26 days, too long to simulate in "
                       "picoseconds: is a figure of the machine out of scale?");
}

/* A quarter of the range leaves room for any sum of two times. */
cleave_status cleave_priced_check(const cleave_priced_fragment *fragment, int32_t n_queues,
                                  int32_t n_links, const int64_t *link_latency, int64_t *total,
                                  cleave_error *error) {
    checker c = {.fragment = fragment,
                 .n_queues = n_queues,
                 .n_links = n_links,
                 .link_latency = link_latency,
                 .error = error};
    for (int32_t i = 0; i < fragment->n_items; i++) {
        CLEAVE_TRY(check_item(&c, i));
        c.total += 2 * (unsigned __int128)fragment->duration[i];
    }
    for (int32_t m = 0; m < fragment->n_messages; m++)
        CLEAVE_TRY(check_message(&c, m));
    for (int32_t i = 0; i < fragment->n_collectives; i++)
        CLEAVE_TRY(check_collective(&c, i));
    if (c.total > INT64_MAX / 4)
        return cleave_fail_too_long(error);
    *total = (int64_t)c.total;
    return CLEAVE_OK;
}

/* What items refer to: messages, which their senders make, and collectives, which begin where they
   are first joined.  Those of the middle block get `more` ids behind their own. */
#include "search/price/extend_internal.h"

/* New ids of things that an item makes: those of the middle block get `more` ids behind theirs. */
static bool number(const extender *e, int32_t n, const int32_t *maker, int32_t *id,
                   int32_t *n_extended) {
    int32_t middle = 0, next = 0;
    for (int32_t i = 0; i < n; i++)
        middle += maker[i] >= 0 && e->block[maker[i]] == e->by->middle;
    if (!extend_count(e, n, middle, n_extended))
        return false;
    for (int32_t i = 0; i < n; i++) {
        id[i] = next;
        next += maker[i] >= 0 && e->block[maker[i]] == e->by->middle ? e->by->more + 1 : 1;
    }
    return true;
}

cleave_status extend_find_subjects(extender *e, extend_subjects *s) {
    const cleave_program *program = e->by->program;
    const cleave_priced_fragment *step = &e->by->problem->step;
    s->sender = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_messages);
    s->message = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_messages);
    s->first_join = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_collectives);
    s->combined = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_collectives);
    if (s->sender == NULL || s->message == NULL || s->first_join == NULL || s->combined == NULL)
        return extend_short_of_memory(e);
    for (int32_t m = 0; m < program->n_messages; m++)
        s->sender[m] = program->messages[m].send_item;
    for (int32_t c = 0; c < program->n_collectives; c++)
        s->first_join[c] = -1;
    for (int32_t i = program->n_items - 1; i >= 0; i--)
        if (step->kind[i] == CLEAVE_PRICED_JOIN)
            s->first_join[step->subject[i]] = i;
    if (!number(e, program->n_messages, s->sender, s->message, &e->program->n_messages) ||
        !number(e, program->n_collectives, s->first_join, s->combined, &e->program->n_collectives))
        return extend_too_large(e);
    return CLEAVE_OK;
}

/* What an item waits for or belongs to, as an item; -1: nothing. */
int32_t extend_item_refers_to(const extender *e, const extend_subjects *s, int32_t item) {
    const cleave_priced_fragment *step = &e->by->problem->step;
    int32_t subject = step->subject[item];
    switch ((cleave_priced_kind)step->kind[item]) {
    case CLEAVE_PRICED_POST:
    case CLEAVE_PRICED_WAIT_ARRIVAL:
    case CLEAVE_PRICED_WAIT_RELEASE:
        return s->sender[subject];
    case CLEAVE_PRICED_SYNC:
        return subject;
    case CLEAVE_PRICED_JOIN:
    case CLEAVE_PRICED_AWAIT:
        return s->first_join[subject];
    default:
        return -1;
    }
}

cleave_status extend_messages(extender *e, const extend_subjects *s) {
    const cleave_program *from = e->by->program;
    const cleave_priced_fragment *old = &e->by->problem->step;
    cleave_priced_fragment *made = &e->problem->step;
    int64_t n_hops = 0;
    int32_t next = 0, hop = 0;
    for (int32_t m = 0; m < from->n_messages; m++)
        n_hops +=
            (int64_t)extend_copies(e, s->sender[m]) * (old->hop_start[m + 1] - old->hop_start[m]);
    if (n_hops > INT32_MAX)
        return extend_too_large(e);
    made->n_messages = e->program->n_messages;
    made->hop_start = CLEAVE_ARENA_ARRAY(e->arena, int32_t, (size_t)made->n_messages + 1);
    made->hop_link = CLEAVE_ARENA_ARRAY(e->arena, int32_t, n_hops);
    made->hop_serialization = CLEAVE_ARENA_ARRAY(e->arena, int64_t, n_hops);
    made->ends = old->ends == NULL
                     ? NULL
                     : CLEAVE_ARENA_ARRAY(e->arena, cleave_message_ends, made->n_messages);
    e->program->messages = CLEAVE_ARENA_ARRAY(e->arena, cleave_message, made->n_messages);
    if ((old->ends != NULL && made->ends == NULL) || made->hop_start == NULL ||
        made->hop_link == NULL || made->hop_serialization == NULL || e->program->messages == NULL)
        return extend_short_of_memory(e);
    for (int32_t m = 0; m < from->n_messages; m++)
        for (int32_t copy = 0; copy < extend_copies(e, s->sender[m]); copy++) {
            e->program->messages[next] = from->messages[m];
            if (old->ends != NULL)
                made->ends[next] = old->ends[m];
            made->hop_start[next++] = hop;
            for (int32_t h = old->hop_start[m]; h < old->hop_start[m + 1]; h++) {
                made->hop_link[hop] = old->hop_link[h];
                made->hop_serialization[hop++] = old->hop_serialization[h];
            }
        }
    made->hop_start[next] = hop;
    return CLEAVE_OK;
}

cleave_status extend_collectives(extender *e, const extend_subjects *s) {
    const cleave_program *from = e->by->program;
    const cleave_priced_fragment *old = &e->by->problem->step;
    cleave_priced_fragment *made = &e->problem->step;
    int64_t n_links = 0;
    int32_t n = e->program->n_collectives, next = 0, at = 0;
    bool symbolic = old->n_collectives > 0;
    for (int32_t c = 0; c < old->n_collectives; c++)
        n_links += (int64_t)extend_copies(e, s->first_join[c]) *
                   (old->collective_link_start[c + 1] - old->collective_link_start[c]);
    if (n_links > INT32_MAX)
        return extend_too_large(e);
    made->n_collectives = symbolic ? n : 0;
    made->collective_joins = CLEAVE_ARENA_ARRAY(e->arena, int32_t, n);
    made->collective_busy = CLEAVE_ARENA_ARRAY(e->arena, int64_t, n);
    made->collective_rest = CLEAVE_ARENA_ARRAY(e->arena, int64_t, n);
    made->collective_link_start = CLEAVE_ARENA_ARRAY(e->arena, int32_t, (size_t)n + 1);
    made->collective_links = CLEAVE_ARENA_ARRAY(e->arena, int32_t, n_links);
    e->program->collectives = CLEAVE_ARENA_ARRAY(e->arena, cleave_collective, n);
    if (made->collective_joins == NULL || made->collective_busy == NULL ||
        made->collective_rest == NULL || made->collective_link_start == NULL ||
        made->collective_links == NULL || e->program->collectives == NULL)
        return extend_short_of_memory(e);
    for (int32_t c = 0; c < from->n_collectives; c++)
        for (int32_t copy = 0; copy < extend_copies(e, s->first_join[c]); copy++, next++) {
            e->program->collectives[next] = from->collectives[c];
            if (!symbolic)
                continue;
            made->collective_joins[next] = old->collective_joins[c];
            made->collective_busy[next] = old->collective_busy[c];
            made->collective_rest[next] = old->collective_rest[c];
            made->collective_link_start[next] = at;
            for (int32_t l = old->collective_link_start[c]; l < old->collective_link_start[c + 1];
                 l++)
                made->collective_links[at++] = old->collective_links[l];
        }
    made->collective_link_start[next] = at;
    e->program->n_spanning = cleave_program_count_spanning(e->program);
    return CLEAVE_OK;
}

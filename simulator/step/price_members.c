/* Putting families together from their members. */
#include "simulator/step/price_members.h"

#include "graph/program/memory_plan.h"

#include <stdlib.h>
#include <string.h>

/* Of each member: what is accepted, and what was proposed instead a few times. */
enum { N_KNOWN = 4 };

struct priced_member {
    uint64_t hash[2]; /* cleave_lowerer_member_boxes */
    int64_t last_use;
    cleave_fragment_price *price;
    int64_t own_bytes; /* but for slots and buffers, which members share */
    int32_t n_slots, n_windows;
    int32_t n_stretches, n_buffers;
    cleave_fragment_stretch *stretches; /* [n_stretches + 1] the last is the end of all */
    cleave_life *buffers;               /* [n_buffers] last < first: it is never used */
};

/* A stretch of some member. */
typedef struct stretch_ref {
    cleave_stretch_at at;
    int32_t member, stretch;
} stretch_ref;

typedef struct merger {
    int32_t n_members, n_refs, n_buffers;
    priced_member **members;         /* [n_members] */
    stretch_ref *refs;               /* [n_refs] by `at` */
    int32_t **message, **collective; /* [n_members] the numbers of those of each in all */
    cleave_life *buffers;
    cleave_fragment_price *price;
} merger;

/* ---- members --------------------------------------------------------------------------------- */

static void forget(priced_member *of) {
    if (of == NULL)
        return;
    free(of->price);
    free(of->stretches);
    free(of->buffers);
    free(of);
}

static int64_t own_bytes_of(const cleave_fragment *fragment) {
    cleave_program program = fragment->program;
    program.n_slots = program.n_buffers = 0;
    return cleave_program_own_bytes(&program);
}

static bool keep_stretches(priced_member *of, const cleave_fragment *fragment) {
    const cleave_program *program = &fragment->program;
    of->n_stretches = fragment->n_stretches;
    of->n_buffers = program->n_buffers;
    of->stretches = malloc(((size_t)of->n_stretches + 1) * sizeof *of->stretches);
    of->buffers = malloc(((size_t)of->n_buffers + 1) * sizeof *of->buffers);
    if (of->stretches == NULL || of->buffers == NULL)
        return false;
    if (of->n_stretches > 0)
        memcpy(of->stretches, fragment->stretches, (size_t)of->n_stretches * sizeof *of->stretches);
    of->stretches[of->n_stretches] =
        (cleave_fragment_stretch){.first_item = program->n_items,
                                  .first_buffer = program->n_buffers,
                                  .first_message = program->n_messages,
                                  .first_collective = program->n_collectives};
    for (int32_t s = 0; s <= of->n_stretches && of->price->priced.n_collectives == 0; s++)
        of->stretches[s].first_collective = 0; /* those in steps have no price */
    for (int32_t b = 0; b < of->n_buffers; b++)
        of->buffers[b] = cleave_buffer_life(&program->buffers[b]);
    return true;
}

static cleave_status make_member(member_memory *memory, int32_t family, int32_t i,
                                 cleave_arena *scratch, priced_member **made, cleave_error *error) {
    cleave_fragment fragment;
    priced_member *of = calloc(1, sizeof *of);
    if (of == NULL)
        return cleave_fail_memory(error, "pricing a fragment");
    cleave_status status = cleave_lowerer_member(memory->lowerer, family, i, &fragment, error);
    if (status == CLEAVE_OK)
        status = cleave_price_fragment(&fragment, memory->cache, memory->image, scratch, &of->price,
                                       error);
    if (status == CLEAVE_OK && !keep_stretches(of, &fragment))
        status = cleave_fail_memory(error, "pricing a fragment");
    if (status != CLEAVE_OK) {
        forget(of);
        return status;
    }
    of->own_bytes = own_bytes_of(&fragment);
    of->n_slots = fragment.program.n_slots;
    of->n_windows = fragment.program.n_windows;
    *made = of;
    return CLEAVE_OK;
}

/* Known, or made instead of what was not in use for the longest time. */
static cleave_status find_member(member_memory *memory, int32_t family, int32_t i,
                                 cleave_arena *scratch, priced_member **found,
                                 cleave_error *error) {
    priced_member **known = &memory->known[family][(size_t)i * N_KNOWN], **oldest = known;
    uint64_t hash[2];
    cleave_lowerer_member_boxes(memory->lowerer, family, i, hash);
    for (int k = 0; k < N_KNOWN; k++) {
        if (known[k] != NULL && known[k]->hash[0] == hash[0] && known[k]->hash[1] == hash[1]) {
            known[k]->last_use = ++memory->n_uses;
            *found = known[k];
            return CLEAVE_OK;
        }
        if (*oldest != NULL && (known[k] == NULL || known[k]->last_use < (*oldest)->last_use))
            oldest = &known[k];
    }
    priced_member *made = NULL;
    CLEAVE_TRY(make_member(memory, family, i, scratch, &made, error));
    made->hash[0] = hash[0];
    made->hash[1] = hash[1];
    made->last_use = ++memory->n_uses;
    forget(*oldest);
    *found = *oldest = made;
    return CLEAVE_OK;
}

/* ---- the order of stretches ------------------------------------------------------------------ */

static void merge_runs(const stretch_ref *from, int32_t a, int32_t b, int32_t end,
                       stretch_ref *to) {
    int32_t middle = b;
    for (int32_t n = a; n < end; n++)
        to[n] = b == end || (a < middle && !cleave_stretch_before(from[b].at, from[a].at))
                    ? from[a++]
                    : from[b++];
}

/* Merges the members' runs, two and two; `start` [n_runs + 1] is overwritten.  Returns where the
   result has come to lie. */
static stretch_ref *sort_refs(stretch_ref *from, stretch_ref *to, int32_t n_runs, int32_t *start) {
    while (n_runs > 1) {
        int32_t n = 0;
        for (int32_t r = 0; r < n_runs; r += 2) {
            int32_t end = start[r + 2 <= n_runs ? r + 2 : n_runs];
            merge_runs(from, start[r], start[r + 1], end, to);
            start[n++] = start[r];
        }
        start[n] = start[n_runs];
        n_runs = n;
        stretch_ref *kept = from;
        from = to;
        to = kept;
    }
    return from;
}

static bool is_empty(const cleave_fragment_stretch *of) {
    return of[0].first_item == of[1].first_item && of[0].first_buffer == of[1].first_buffer &&
           of[0].first_message == of[1].first_message &&
           of[0].first_collective == of[1].first_collective;
}

static bool list_refs(merger *m, cleave_arena *arena) {
    int32_t most = 0;
    for (int32_t i = 0; i < m->n_members; i++)
        most += m->members[i]->n_stretches;
    stretch_ref *refs = CLEAVE_ARENA_ARRAY(arena, stretch_ref, most),
                *room = CLEAVE_ARENA_ARRAY(arena, stretch_ref, most);
    int32_t *start = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)m->n_members + 1);
    if (start == NULL || (most > 0 && (refs == NULL || room == NULL)))
        return false;
    for (int32_t i = 0; i < m->n_members; i++) {
        const priced_member *of = m->members[i];
        for (int32_t s = 0; s < of->n_stretches; s++)
            if (!is_empty(&of->stretches[s]))
                refs[m->n_refs++] = (stretch_ref){of->stretches[s].at, i, s};
        start[i + 1] = m->n_refs;
    }
    m->refs = sort_refs(refs, room, m->n_members, start);
    return true;
}

static const cleave_fragment_stretch *stretch_of(const merger *m, int32_t r) {
    return &m->members[m->refs[r].member]->stretches[m->refs[r].stretch];
}

/* ---- putting them down ----------------------------------------------------------------------- */

/* Where the last chunk of all is: there is one, though nothing may be in it. */
static cleave_priced_chunk last_chunk(const merger *m) {
    cleave_priced_chunk last = {.slot = -1};
    for (int32_t i = 0; i < m->n_members; i++) {
        const cleave_priced_fragment *p = &m->members[i]->price->priced;
        const cleave_priced_chunk *of = &p->chunks[p->n_chunks - 1];
        if (of->slot > last.slot || (of->slot == last.slot && of->rank > last.rank))
            last = *of;
    }
    return last;
}

static cleave_fragment_price *create(merger *m) {
    cleave_priced_fragment counts = {0};
    int32_t n_hops = 0, n_links = 0;
    for (int32_t i = 0; i < m->n_members; i++) {
        const cleave_priced_fragment *p = &m->members[i]->price->priced;
        counts.n_items += p->n_items;
        counts.n_messages += p->n_messages;
        counts.n_collectives += p->n_collectives;
        n_hops += p->hop_start[p->n_messages];
        n_links += p->collective_link_start[p->n_collectives];
    }
    const cleave_priced_chunk last = last_chunk(m);
    int32_t slot = -1, rank = -1;
    for (int32_t r = 0; r < m->n_refs; r++) {
        const cleave_fragment_stretch *of = stretch_of(m, r);
        if (r == 0 || !cleave_stretch_same(m->refs[r].at, m->refs[r - 1].at))
            m->n_buffers += of[1].first_buffer - of[0].first_buffer;
        if (of[0].first_item == of[1].first_item ||
            (slot == cleave_stretch_slot(of->at) && rank == cleave_stretch_rank(of->at)))
            continue;
        slot = cleave_stretch_slot(of->at);
        rank = cleave_stretch_rank(of->at);
        counts.n_chunks++;
    }
    counts.n_chunks += slot != last.slot || rank != last.rank;
    return cleave_fragment_price_create(&counts, m->members[0]->price->has_ends, n_hops, n_links,
                                        m->n_buffers);
}

static void add_messages(const merger *m, int32_t member, int32_t first, int32_t end) {
    const cleave_priced_fragment *from = &m->members[member]->price->priced;
    cleave_priced_fragment *to = &m->price->priced;
    for (int32_t i = first; i < end; i++) {
        int32_t hop = from->hop_start[i], n = from->hop_start[i + 1] - hop,
                at = to->hop_start[to->n_messages];
        memcpy(to->hop_link + at, from->hop_link + hop, (size_t)n * sizeof *to->hop_link);
        memcpy(to->hop_serialization + at, from->hop_serialization + hop,
               (size_t)n * sizeof *to->hop_serialization);
        if (m->price->has_ends)
            to->ends[to->n_messages] = from->ends[i];
        m->message[member][i] = to->n_messages++;
        to->hop_start[to->n_messages] = at + n;
    }
}

static void add_collectives(const merger *m, int32_t member, int32_t first, int32_t end) {
    const cleave_priced_fragment *from = &m->members[member]->price->priced;
    cleave_priced_fragment *to = &m->price->priced;
    for (int32_t i = first; i < end; i++) {
        int32_t c = to->n_collectives++, link = from->collective_link_start[i],
                n = from->collective_link_start[i + 1] - link, at = to->collective_link_start[c];
        memcpy(to->collective_links + at, from->collective_links + link,
               (size_t)n * sizeof *to->collective_links);
        to->collective_joins[c] = from->collective_joins[i];
        to->collective_busy[c] = from->collective_busy[i];
        to->collective_rest[c] = from->collective_rest[i];
        to->collective_link_start[c + 1] = at + n;
        m->collective[member][i] = c;
    }
}

static void add_items(const merger *m, int32_t member, int32_t first, int32_t end) {
    const cleave_priced_fragment *from = &m->members[member]->price->priced;
    cleave_priced_fragment *to = &m->price->priced;
    for (int32_t i = first; i < end; i++) {
        int32_t n = to->n_items++, subject = from->subject[i];
        to->kind[n] = from->kind[i];
        to->queue[n] = from->queue[i];
        to->duration[n] = from->duration[i];
        switch ((cleave_priced_kind)from->kind[i]) {
        case CLEAVE_PRICED_POST:
        case CLEAVE_PRICED_WAIT_ARRIVAL:
        case CLEAVE_PRICED_WAIT_RELEASE:
            subject = m->message[member][subject];
            break;
        case CLEAVE_PRICED_JOIN:
        case CLEAVE_PRICED_AWAIT:
            subject = m->collective[member][subject];
            break;
        default:
            break;
        }
        to->subject[n] = subject;
    }
}

static void join_lives(cleave_life *of, const cleave_life *more) {
    of->first = more->first < of->first ? more->first : of->first;
    of->last = more->last > of->last ? more->last : of->last;
    of->lane_only &= more->lane_only;
    of->lane_first = !of->lane_only                      ? 0
                     : more->lane_first < of->lane_first ? more->lane_first
                                                         : of->lane_first;
    of->lane_last = !of->lane_only                    ? 0
                    : more->lane_last > of->lane_last ? more->lane_last
                                                      : of->lane_last;
}

/* What lies in one buffer of several members is in use as long as it is by any. */
static void add_buffers(merger *m, int32_t r) {
    const cleave_fragment_stretch *of = stretch_of(m, r);
    const cleave_life *from = &m->members[m->refs[r].member]->buffers[of[0].first_buffer];
    int32_t n = of[1].first_buffer - of[0].first_buffer;
    bool shared = r > 0 && cleave_stretch_same(m->refs[r].at, m->refs[r - 1].at);
    if (!shared) {
        memcpy(m->buffers + m->n_buffers, from, (size_t)n * sizeof *from);
        m->n_buffers += n;
        return;
    }
    cleave_life *to = m->buffers + m->n_buffers - n;
    for (int32_t b = 0; b < n; b++)
        join_lives(&to[b], &from[b]);
}

static void begin_chunk(const merger *m, int32_t slot, int32_t rank) {
    cleave_priced_fragment *to = &m->price->priced;
    const cleave_priced_chunk *last = &to->chunks[to->n_chunks - 1];
    if (to->n_chunks == 0 || last->slot != slot || last->rank != rank)
        to->chunks[to->n_chunks++] =
            (cleave_priced_chunk){.slot = slot, .rank = rank, .first_item = to->n_items};
}

static void put_down(merger *m) {
    cleave_priced_fragment *to = &m->price->priced;
    to->n_chunks = to->n_items = to->n_messages = to->n_collectives = m->n_buffers = 0;
    for (int32_t r = 0; r < m->n_refs; r++) {
        int32_t member = m->refs[r].member;
        const cleave_fragment_stretch *of = stretch_of(m, r);
        add_buffers(m, r);
        add_messages(m, member, of[0].first_message, of[1].first_message);
        add_collectives(m, member, of[0].first_collective, of[1].first_collective);
        int32_t n = of[1].first_item - of[0].first_item;
        if (n == 0)
            continue;
        begin_chunk(m, cleave_stretch_slot(of->at), cleave_stretch_rank(of->at));
        to->chunks[to->n_chunks - 1].n_items += n;
        add_items(m, member, of[0].first_item, of[1].first_item);
    }
    cleave_priced_chunk last = last_chunk(m);
    begin_chunk(m, last.slot, last.rank);
    for (int32_t b = 0; b < m->n_buffers; b++)
        if (m->buffers[b].last >= 0)
            m->price->live[m->price->n_live++] = m->buffers[b];
}

static bool number(merger *m, cleave_arena *arena) {
    m->message = CLEAVE_ARENA_ARRAY(arena, int32_t *, m->n_members);
    m->collective = CLEAVE_ARENA_ARRAY(arena, int32_t *, m->n_members);
    bool done = m->message != NULL && m->collective != NULL;
    for (int32_t i = 0; i < m->n_members && done; i++) {
        const cleave_priced_fragment *p = &m->members[i]->price->priced;
        m->message[i] = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_messages);
        m->collective[i] = CLEAVE_ARENA_ARRAY(arena, int32_t, p->n_collectives);
        done = (p->n_messages == 0 || m->message[i] != NULL) &&
               (p->n_collectives == 0 || m->collective[i] != NULL);
    }
    return done;
}

static bool merge(merger *m, cleave_arena *arena) {
    if (!list_refs(m, arena) || !number(m, arena) || (m->price = create(m)) == NULL)
        return false;
    m->buffers = CLEAVE_ARENA_ARRAY(arena, cleave_life, m->n_buffers);
    if (m->n_buffers > 0 && m->buffers == NULL) {
        free(m->price);
        return false;
    }
    put_down(m);
    const cleave_program shared = {.n_slots = m->members[0]->n_slots,
                                   .n_windows = m->members[0]->n_windows,
                                   .n_buffers = m->n_buffers};
    m->price->own_bytes = cleave_program_own_bytes(&shared);
    for (int32_t i = 0; i < m->n_members; i++) {
        m->price->own_bytes += m->members[i]->own_bytes;
        m->price->bytes_sent += m->members[i]->price->bytes_sent;
    }
    return true;
}

cleave_status member_memory_price(member_memory *memory, int32_t family, cleave_arena *scratch,
                                  cleave_fragment_price **price, cleave_error *error) {
    merger m = {.n_members = cleave_lowerer_members(memory->lowerer, family)};
    cleave_arena_reset(&memory->merging);
    m.members = CLEAVE_ARENA_ARRAY(&memory->merging, priced_member *, m.n_members);
    if (memory->known[family] == NULL)
        memory->known[family] =
            calloc((size_t)m.n_members * N_KNOWN, sizeof *memory->known[family]);
    if (m.members == NULL || memory->known[family] == NULL)
        return cleave_fail_memory(error, "pricing a fragment");
    for (int32_t i = 0; i < m.n_members; i++)
        CLEAVE_TRY(find_member(memory, family, i, scratch, &m.members[i], error));
    if (!merge(&m, &memory->merging))
        return cleave_fail_memory(error, "pricing a fragment");
    *price = m.price;
    return CLEAVE_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

cleave_status member_memory_begin(member_memory *memory, cleave_error *error) {
    memory->known = calloc((size_t)memory->n_families + 1, sizeof *memory->known);
    return memory->known != NULL ? CLEAVE_OK : cleave_fail_memory(error, "estimating");
}

void member_memory_free(member_memory *memory) {
    for (int32_t f = 0; memory->known != NULL && f < memory->n_families; f++) {
        int32_t n = memory->known[f] == NULL ? 0 : cleave_lowerer_members(memory->lowerer, f);
        for (int32_t k = 0; k < n * N_KNOWN; k++)
            forget(memory->known[f][k]);
        free(memory->known[f]);
    }
    free(memory->known);
    cleave_arena_free(&memory->merging);
}

/* Textbook exchanges come out of the rule about boxes: which collectives, and how many bytes. */
#include "../../support/models.h"
#include "../../support/ok.h"
#include "graph/lower/fragment.h"

#include <criterion/criterion.h>
#include <string.h>

enum { P = 4 };

typedef struct lowered {
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_program program;
} lowered;

/* Splits one axis of an operator over the first n devices. */
static void split_over(lowered *of, int32_t n, const char *name, const char *axis) {
    int32_t op = cleave_model_find_operator(&of->model, name), degree[CLEAVE_MAX_AXES];
    const int32_t devices[P] = {0, 1, 2, 3};
    cr_assert_geq(op, 0);
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        degree[a] = a < of->model.operators[op].n_axes &&
                            strcmp(of->model.operators[op].axes[a].name, axis) == 0
                        ? n
                        : 1;
    OK(cleave_layout_set, &of->layout, op, 1, degree, devices, &of->arena);
}

static void split(lowered *of, const char *name, const char *axis) {
    split_over(of, P, name, axis);
}

static void begin_with(lowered *of, int which) {
    cleave_error error = {""};
    *of = (lowered){0};
    cr_assert(hand_model(which, &of->arena, &of->model, &error), "%s", error.message);
    OK(cleave_layout_create, &of->model, P, &of->arena, &of->layout);
}

static void begin(lowered *of) { begin_with(of, MODEL_MLP); }

static void lower(lowered *of, bool symbolic) {
    cleave_lower_options options = {.training = true, .symbolic_collectives = symbolic};
    OK(cleave_layout_check, &of->model, &of->layout);
    OK(cleave_lower, &of->model, &of->layout, &options, &of->arena, &of->program);
    OK(cleave_program_check, &of->program);
}

static int count(const lowered *of, cleave_collective_kind kind, const char *tensor) {
    int n = 0;
    for (int32_t c = 0; c < of->program.n_collectives; c++)
        n += of->program.collectives[c].kind == kind &&
             (tensor == NULL ||
              strcmp(of->model.tensors[of->program.collectives[c].tensor].name, tensor) == 0);
    return n;
}

/* Bytes of all messages that carry a tensor. */
static int64_t sent(const lowered *of, const char *tensor) {
    int64_t bytes = 0;
    for (int32_t m = 0; m < of->program.n_messages; m++)
        if (strcmp(of->model.tensors[of->program.messages[m].tensor].name, tensor) == 0)
            bytes += of->program.messages[m].bytes;
    return bytes;
}

Test(lowering, a_sample_split_emits_one_all_reduce_per_parameter_and_one_of_the_loss) {
    static lowered of;
    begin(&of);
    split(&of, "g1", "n");
    split(&of, "g2", "n");
    split(&of, "g3", "n");
    split(&of, "@loss", "n");
    lower(&of, false);
    const char *const names[] = {"w1", "b1", "w2", "b2", "w3"};
    const int64_t sizes[] = {10 * 9, 10, 8 * 10, 8, 11 * 8};
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(count(&of, CLEAVE_ALL_REDUCE, names[i]), 1, "%s", names[i]);
        /* Every device sends and gets (P - 1)/P of the vector twice: 2 (P - 1) vectors in all. */
        cr_assert_eq(sent(&of, names[i]), 2 * (P - 1) * sizes[i] * 4, "%s", names[i]);
    }
    /* The rest is the loss, which all of those learn that computed some of it. */
    cr_assert_eq(count(&of, CLEAVE_ALL_REDUCE, "loss"), 1);
    cr_assert_eq(of.program.n_collectives, 6);
    cr_assert_eq(sent(&of, "loss"), 2 * (P - 1) * 4);
    cr_assert_eq(sent(&of, "g1") + sent(&of, "g2") + sent(&of, "g3"), 0);
    cleave_arena_free(&of.arena);
}

/* Bytes that the all-reduce of w1, 90 floats over four devices, sends from one device to another.
 */
static int64_t sent_between(const lowered *of, int32_t source, int32_t destination) {
    int64_t bytes = 0;
    for (int32_t m = 0; m < of->program.n_messages; m++)
        if (strcmp(of->model.tensors[of->program.messages[m].tensor].name, "w1") == 0 &&
            of->program.messages[m].source == source &&
            of->program.messages[m].destination == destination)
            bytes += of->program.messages[m].bytes;
    return bytes;
}

static void lower_with(lowered *of, cleave_collective_algorithm algorithm, int32_t node_devices) {
    static cleave_collective_rule rule;
    rule = (cleave_collective_rule){.kind = CLEAVE_ALL_REDUCE, .algorithm = algorithm};
    begin(of);
    split(of, "g1", "n");
    of->layout.collectives =
        (cleave_collective_rules){.node_devices = node_devices, .n = 1, .items = &rule};
    lower(of, false);
    cr_assert_eq(count(of, CLEAVE_ALL_REDUCE, "w1"), 1);
    cr_assert_eq(of->program.collectives[0].algorithm, algorithm);
}

/* A tree: 1 -> 0 and 3 -> 2, then 2 -> 0, whole vectors, and the same back. */
Test(lowering, an_all_reduce_by_a_tree_sends_whole_vectors) {
    static lowered of;
    lower_with(&of, CLEAVE_ALGORITHM_TREE, 0);
    cr_expect_eq(sent(&of, "w1"), 2 * (P - 1) * 90 * 4);
    cr_expect_eq(sent_between(&of, 2, 0), 90 * 4);
    cr_expect_eq(sent_between(&of, 0, 2), 90 * 4);
    cr_expect_eq(sent_between(&of, 3, 0), 0);
    cleave_arena_free(&of.arena);
}

/* Nodes {0, 1} and {2, 3}: half the vector within the node, 45 floats, and back; of that half, cut
   into 22 and 23 floats or the like, one goes across and the other comes back complete. */
Test(lowering, an_all_reduce_at_two_levels_sends_a_shard_across) {
    static lowered of;
    lower_with(&of, CLEAVE_ALGORITHM_TWO_LEVEL, 2);
    cr_expect_eq(sent(&of, "w1"), 2 * (P - 1) * 90 * 4);
    cr_expect_eq(sent_between(&of, 0, 1) + sent_between(&of, 1, 0), 2 * 90 * 4);
    cr_expect_eq(sent_between(&of, 0, 2) + sent_between(&of, 1, 3), 90 * 4);
    cr_expect_eq(sent_between(&of, 0, 3) + sent_between(&of, 1, 2), 0);
    cleave_arena_free(&of.arena);
}

Test(lowering, a_column_split_before_a_row_split_needs_no_exchange_between_them) {
    static lowered of;
    begin(&of);
    split(&of, "g1", "k");
    split(&of, "g2", "c");
    lower(&of, false);
    /* The epilogue of g1 lies where g2 reads; only the sum of g2 is exchanged. */
    cr_assert_eq(sent(&of, "g1.z") + sent(&of, "g1"), 0);
    cr_assert_eq(sent(&of, "w1") + sent(&of, "w2"), 0);
    cr_assert_gt(sent(&of, "g2.z"), 0);
    cleave_arena_free(&of.arena);
}

Test(lowering, two_column_splits_emit_an_all_gather_forward_and_a_reduce_scatter_backward) {
    static lowered of;
    begin(&of);
    split(&of, "g1", "k");
    split(&of, "g2", "k");
    lower(&of, false);
    cr_assert_eq(count(&of, CLEAVE_ALL_GATHER, "g1"), 1);
    cr_assert_eq(count(&of, CLEAVE_REDUCE_SCATTER, "g1"), 1);
    /* Each moves (P - 1)/P of the vector of 7 x 10 floats per device. */
    cr_assert_eq(sent(&of, "g1"), 2 * (P - 1) * 7 * 10 * 4);
    cleave_arena_free(&of.arena);
}

Test(lowering, the_symbolic_form_has_the_same_collectives_and_no_messages_of_theirs) {
    static lowered of;
    begin(&of);
    split(&of, "g1", "n");
    split(&of, "g2", "n");
    split(&of, "g3", "n");
    split(&of, "@loss", "n");
    lower(&of, true);
    /* Five parameters and the loss. */
    cr_assert_eq(count(&of, CLEAVE_ALL_REDUCE, NULL), 6);
    cr_assert_eq(
        sent(&of, "w1") + sent(&of, "b1") + sent(&of, "w2") + sent(&of, "b2") + sent(&of, "w3"), 0);
    int joins = 0, awaits = 0;
    for (int32_t i = 0; i < of.program.n_items; i++) {
        joins += of.program.items[i].kind == CLEAVE_ITEM_JOIN;
        awaits += of.program.items[i].kind == CLEAVE_ITEM_AWAIT;
    }
    cr_assert_eq(joins, 6 * P);
    cr_assert_eq(awaits, 6 * P);
    cleave_arena_free(&of.arena);
}

Test(lowering, a_sharded_update_is_a_reduce_scatter_and_an_all_gather) {
    static lowered of;
    begin(&of);
    split(&of, "g1", "n");
    of.layout.sharded[cleave_model_find_tensor(&of.model, "w1")] = true;
    lower(&of, false);
    cr_assert_eq(count(&of, CLEAVE_REDUCE_SCATTER, "w1"), 1);
    cr_assert_eq(count(&of, CLEAVE_ALL_GATHER, "w1"), 1);
    cr_assert_eq(sent(&of, "w1"), 2 * (P - 1) * 90 * 4);
    cleave_arena_free(&of.arena);
}

/* Elements of a piece, in order, that do not follow the one before them at both ends. */
static int64_t count_runs(const cleave_copy_piece *piece) {
    int64_t at[CLEAVE_MAX_RANK] = {0}, runs = 0, to_before = -2, from_before = -2;
    for (;;) {
        int64_t to = 0, from = 0;
        for (int d = 0; d < piece->rank; d++) {
            to += at[d] * piece->destination_stride[d];
            from +=
                at[d] * (piece->source < 0 ? piece->destination_stride : piece->source_stride)[d];
        }
        runs += to != to_before + 1 || from != from_before + 1;
        to_before = to;
        from_before = from;
        int d = piece->rank - 1;
        while (d >= 0 && ++at[d] == piece->extent[d])
            at[d--] = 0;
        if (d < 0)
            return runs;
    }
}

/* What a piece reads twice and writes once, in bytes; 0 where it adds to nothing. */
static int64_t count_summed(const cleave_copy_piece *piece) {
    int64_t elements = 1;
    for (int d = 0; d < piece->rank; d++)
        elements *= piece->extent[d];
    bool adds = piece->mode != CLEAVE_COPY_ASSIGN && piece->mode != CLEAVE_COPY_FILL;
    return adds ? 3 * elements * cleave_type_bytes((cleave_type)piece->type) : 0;
}

Test(lowering, copies_count_their_rows_and_what_is_summed) {
    static lowered of;
    static const char *const axes[] = {"n", "k", "c"};
    int32_t n_short = 0, n_sums = 0;
    for (int a = 0; a < 9; a++) {
        begin(&of);
        split(&of, "g1", axes[a % 3]);
        split(&of, "g2", axes[a / 3]);
        lower(&of, false);
        for (int32_t c = 0; c < of.program.n_copies; c++) {
            const cleave_copy *copy = &of.program.copies[c];
            int64_t runs = 0, summed = 0;
            for (int32_t p = 0; p < copy->n_pieces; p++) {
                runs += count_runs(&of.program.copy_pieces[copy->first_piece + p]);
                summed += count_summed(&of.program.copy_pieces[copy->first_piece + p]);
            }
            cr_expect_eq(copy->summed_bytes, summed);
            n_sums += summed > 0;
            cr_expect_eq(copy->n_rows, runs, "%ld rows, %ld runs", (long)copy->n_rows, (long)runs);
            n_short += runs > copy->n_pieces;
        }
        cleave_arena_free(&of.arena);
    }
    cr_assert_gt(n_short, 0);
    cr_assert_gt(n_sums, 0);
}

/* Copies, pieces, rows and bytes. */
static void add_copies(const cleave_program *program, int64_t sums[4]) {
    sums[0] += program->n_copies;
    sums[1] += program->n_copy_pieces;
    for (int32_t c = 0; c < program->n_copies; c++) {
        sums[2] += program->copies[c].n_rows;
        sums[3] += program->copies[c].bytes;
    }
}

Test(lowering, fragments_count_the_pieces_that_programs_list) {
    static lowered of;
    static const char *const axes[] = {"n", "k", "c"};
    for (int a = 0; a < 18; a++) {
        int64_t listed[4] = {0}, counted[4] = {0};
        cleave_lower_options options = {.training = true, .symbolic_collectives = a < 9};
        cleave_lowerer *lowerer;
        cleave_fragment fragment;
        begin(&of);
        split(&of, "g1", axes[a % 3]);
        split(&of, "g2", axes[a / 3 % 3]);
        lower(&of, options.symbolic_collectives);
        add_copies(&of.program, listed);
        OK(cleave_lowerer_create, &of.model, &of.layout, &options, &lowerer);
        for (int32_t f = 0; f < cleave_lowerer_n_families(lowerer); f++) {
            OK(cleave_lowerer_family, lowerer, f, &fragment);
            add_copies(&fragment.program, counted);
        }
        for (int k = 0; k < 4; k++)
            cr_expect_eq(counted[k], listed[k], "layout %d, sum %d: %ld, not %ld", a, k,
                         (long)counted[k], (long)listed[k]);
        cr_assert_gt(listed[1], 0);
        cleave_lowerer_destroy(lowerer);
        cleave_arena_free(&of.arena);
    }
}

static void expect_same_price(const cleave_program *listed, const cleave_program *counted) {
    int64_t sums[2][4] = {0};
    add_copies(listed, sums[0]);
    add_copies(counted, sums[1]);
    cr_assert_arr_eq(sums[0], sums[1], sizeof sums[0]);
    cr_assert_eq(listed->n_items, counted->n_items);
    cr_assert_eq(listed->n_buffers, counted->n_buffers);
    for (int32_t i = 0; i < listed->n_items; i++)
        cr_assert(listed->items[i].kind == counted->items[i].kind &&
                  listed->items[i].device == counted->items[i].device &&
                  listed->items[i].subject == counted->items[i].subject);
    for (int32_t b = 0; b < listed->n_buffers; b++) {
        const cleave_buffer *x = &listed->buffers[b], *y = &counted->buffers[b];
        cr_assert(x->device == y->device && x->first == y->first && x->last == y->last &&
                      x->lane_first == y->lane_first && x->lane_last == y->lane_last &&
                      x->lane_only == y->lane_only && x->offset == y->offset,
                  "buffer %d lives elsewhere", b);
    }
    for (int32_t d = 0; d < P; d++)
        cr_assert_eq(listed->peak_bytes[d], counted->peak_bytes[d]);
}

/* Drawn layouts with sharded state: in order, lifetimes and memory. */
Test(lowering, a_program_for_its_price_is_the_one_that_lists_its_pieces) {
    static lowered of;
    for (uint64_t seed = 0; seed < 60; seed++) {
        cleave_program counted;
        begin_with(&of, seed % 2 == 0 ? MODEL_CNN : MODEL_MLP);
        OK(cleave_layout_random, &of.model, P, seed, &of.arena, &of.layout);
        for (int32_t t = 0; t < of.model.n_tensors; t++)
            if (of.model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
                of.layout.sharded[t] = (uint8_t)cleave_sharded_as(
                    &of.model.tensors[t], (cleave_sharded)(seed % (CLEAVE_SHARDED_WEIGHT + 1)));
        lower(&of, seed % 3 == 0);
        const cleave_lower_options options = {
            .training = true, .symbolic_collectives = seed % 3 == 0, .for_price = true};
        OK(cleave_lower, &of.model, &of.layout, &options, &of.arena, &counted);
        cr_assert_null(counted.copy_pieces);
        expect_same_price(&of.program, &counted);
        cleave_arena_free(&of.arena);
    }
}

/* Each device adds up its gradient in the memory that the update reads, and that is the vector. */
Test(lowering, an_all_reduce_of_gradients_copies_nothing) {
    static lowered of;
    begin(&of);
    split(&of, "g1", "n");
    lower(&of, true);
    cr_assert_eq(count(&of, CLEAVE_ALL_REDUCE, "w1"), 1);
    for (int32_t i = 0; i < of.program.n_items; i++)
        cr_expect(of.program.items[i].kind != CLEAVE_ITEM_COPY ||
                  of.program.items[i].lane != CLEAVE_LANE_COMMUNICATION);
    cleave_arena_free(&of.arena);
}

/* By themselves two exchange messages; where a library's collectives are known, a gradient is one
   all-reduce, and the same bytes are sent. */
Test(lowering, two_devices_have_collectives_where_a_library_has_them) {
    static lowered of;
    int64_t bytes[2];
    for (int least = 3; least >= 2; least--) {
        const cleave_lower_options options = {.training = true, .least_collective = least};
        begin(&of);
        split_over(&of, 2, "g1", "n");
        split_over(&of, 2, "g2", "n");
        OK(cleave_lower, &of.model, &of.layout, &options, &of.arena, &of.program);
        OK(cleave_program_check, &of.program);
        cr_expect_eq(count(&of, CLEAVE_ALL_REDUCE, "w1"), least == 2 ? 1 : 0);
        bytes[least - 2] = sent(&of, "w1");
        cleave_arena_free(&of.arena);
    }
    cr_expect_eq(bytes[0], bytes[1]);
}

/* The place of the first all-reduce of a tensor, and that of the last compute of backward. */
static int32_t find_joined(const lowered *of, const char *tensor) {
    for (int32_t i = 0; i < of->program.n_items; i++) {
        const cleave_item *item = &of->program.items[i];
        if (item->kind == CLEAVE_ITEM_JOIN &&
            strcmp(of->model.tensors[of->program.collectives[item->subject].tensor].name, tensor) ==
                0)
            return i;
    }
    return -1;
}

static int32_t find_last_compute(const lowered *of) {
    int32_t i = of->program.n_items - 1;
    while (of->program.items[i].kind != CLEAVE_ITEM_COMPUTE)
        i--;
    return i;
}

/* Gradients come as w3, b2, w2, b1, w1, of 352, 32, 320, 40 and 360 bytes.  Vectors of 800 bytes
   have room for all but w1, which sets out at the end of backward, when there is no other that the
   first four could wait for.  With 700 w3 is more than half, and goes as it comes; so does w1, and
   b2, w2 and b1 have waited until then.  A share of a gradient waits for none. */
Test(lowering, gradients_that_go_together_set_out_when_the_last_is_there) {
    static lowered of;
    const char *const names[] = {"w3", "b2", "w2", "b1", "w1"};
    enum { N = 5, ALONE, IN_800, IN_700, SHARDED, N_CASES };
    static const int64_t together[N_CASES] = {[IN_800] = 800, [IN_700] = 700, [SHARDED] = 800};
    for (int which = ALONE; which < N_CASES; which++) {
        begin(&of);
        split(&of, "g1", "n");
        split(&of, "g2", "n");
        split(&of, "g3", "n");
        split(&of, "@loss", "n");
        if (which == SHARDED)
            of.layout.sharded[cleave_model_find_tensor(&of.model, "w3")] = CLEAVE_SHARDED_UPDATE;
        const cleave_lower_options options = {
            .training = true, .symbolic_collectives = true, .together_bytes = together[which]};
        OK(cleave_lower, &of.model, &of.layout, &options, &of.arena, &of.program);
        OK(cleave_program_check, &of.program);
        int32_t last = find_last_compute(&of);
        for (int i = 0; i < N; i++) {
            bool at_once = which == ALONE || (i == 0 && which != IN_800);
            bool is_last = i == N - 1;
            cr_expect_eq(find_joined(&of, names[i]) > last, is_last || !at_once, "%d: %s", which,
                         names[i]);
        }
        cleave_arena_free(&of.arena);
    }
}

/* A gradient of 90 floats: one message there and one back, of all of it, and each adds what comes
   to its own, which it sent from a copy. */
Test(lowering, two_devices_swap_a_small_sum) {
    static lowered of;
    begin(&of);
    split_over(&of, 2, "g1", "n");
    lower(&of, false);
    int32_t n = 0;
    for (int32_t m = 0; m < of.program.n_messages; m++) {
        const cleave_message *message = &of.program.messages[m];
        if (strcmp(of.model.tensors[message->tensor].name, "w1") != 0)
            continue;
        cr_expect_eq(message->bytes, 90 * 4);
        for (int32_t u = 0; u < of.program.n_updates; u++)
            cr_expect_neq(message->source_buffer, of.program.updates[u].gradient);
        n++;
    }
    cr_expect_eq(n, 2, "%d", n);
    cleave_arena_free(&of.arena);
}

/* Backward of c2, which reads what is made of bn: its input's gradient, what bn gives for its
   statistics, then the gradient of its weights, and only then do the statistics read theirs. */
Test(lowering, a_gradient_of_weights_comes_while_statistics_of_the_batch_are_under_way) {
    static lowered of;
    begin_with(&of, MODEL_CNN);
    lower(&of, false);
    int32_t statistics = -1, given = -1, weights = -1, input = -1;
    for (int32_t s = 0; s < of.program.n_slots; s++) {
        const cleave_slot *slot = &of.program.slots[s];
        if (slot->nest < 0 || slot->pass == CLEAVE_PASS_FORWARD)
            continue;
        const cleave_nest *nest = &of.model.nests[slot->nest];
        bool is_c2 = strcmp(of.model.operators[nest->op].name, "c2") == 0 &&
                     nest->kind == CLEAVE_NEST_CONVOLUTION;
        if (slot->pass == CLEAVE_PASS_INPUT_GRADIENT && nest->kind == CLEAVE_NEST_MOMENTS)
            statistics = s;
        else if (slot->pass == CLEAVE_PASS_INPUT_GRADIENT && statistics < 0 &&
                 strcmp(of.model.operators[nest->op].name, "bn") == 0)
            given = s;
        if (is_c2 && slot->pass == CLEAVE_PASS_INPUT_GRADIENT)
            input = s;
        else if (is_c2)
            weights = s;
    }
    cr_expect(input < given && given < weights && weights < statistics, "%d %d %d %d", input, given,
              weights, statistics);
    cr_expect_geq(input, 0);
    cleave_arena_free(&of.arena);
}

Test(lowering, one_device_needs_no_copy_of_an_activation) {
    static lowered of;
    begin(&of);
    lower(&of, false);
    cr_assert_eq(of.program.n_messages, 0);
    /* The seed of backward; of the two gradients of the logits one is added to the other. */
    cr_assert_eq(of.program.n_copies, 1);
    cleave_arena_free(&of.arena);
}

/* The gradient that the statistics give is added to that of what they are taken of, which the nest
   that scales has given just before. */
Test(lowering, statistics_add_to_the_gradient_of_what_is_normalised) {
    static lowered of;
    begin_with(&of, MODEL_CNN);
    lower(&of, false);
    int32_t given = -1, n_added = 0;
    for (int32_t i = 0; i < of.program.n_items; i++) {
        if (of.program.items[i].kind != CLEAVE_ITEM_COMPUTE)
            continue;
        const cleave_compute *compute = &of.program.computes[of.program.items[i].subject];
        const cleave_nest *nest = &of.model.nests[compute->nest];
        if (compute->pass != CLEAVE_PASS_INPUT_GRADIENT)
            continue;
        if (nest->kind == CLEAVE_NEST_MOMENTS) {
            cr_expect_eq(compute->input_gradients[0], given);
            cr_expect_eq(compute->accumulated, 1);
            n_added++;
        }
        given = compute->input_gradients[0];
    }
    cr_expect_eq(n_added, 1);
    cleave_arena_free(&of.arena);
}

/* A layout file says no kind of schedule where there is one stage and one micro-batch, so the
   program must not hang on it: what a search prices is what is read again. */
Test(lowering, one_stage_of_the_whole_batch_is_the_same_by_every_kind) {
    static lowered plain, kind;
    begin(&plain);
    lower(&plain, false);
    for (int k = 0; k < CLEAVE_SCHEDULE_ORDERS; k++) {
        begin(&kind);
        kind.layout.schedule.kind = (cleave_schedule_kind)k;
        OK(cleave_lower, &kind.model, &kind.layout, &(cleave_lower_options){.training = true},
           &kind.arena, &kind.program);
        cr_assert_eq(kind.program.n_slots, plain.program.n_slots);
        for (int32_t i = 0; i < plain.program.n_slots; i++) {
            const cleave_slot *a = &kind.program.slots[i], *b = &plain.program.slots[i];
            cr_expect(a->nest == b->nest && a->pass == b->pass, "%s, slot %d",
                      cleave_schedule_names[k], i);
        }
        cr_expect_arr_eq(kind.program.peak_bytes, plain.program.peak_bytes,
                         P * sizeof *plain.program.peak_bytes, "%s", cleave_schedule_names[k]);
        cleave_arena_free(&kind.arena);
    }
    cleave_arena_free(&plain.arena);
}

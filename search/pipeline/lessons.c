/* Which layouts are tried, in what order, and what each that was tried teaches of the others: how
   far off what is expected of them is, and what does not fit. */
#include "search/pipeline/internal.h"

#include <math.h>
#include <stdlib.h>

/* Of each number of groups no more layouts of baselines than so many are simulated, or, while none
   fits yet, than so many; of plans so many in all, and each again so often where it does not fit.
 */
enum { MOST_TRIED = 6, MOST_TRIED_IN_VAIN = 16, MOST_PLANNED = 8, MOST_AGAIN = 3 };
/* Of few operators on few devices so many plans. */
enum { MOST_PLANNED_OF_SMALL = 64 };
/* What is expected to take so much more than the best may still be the best, so it is simulated,
   too, as long as so many parts are lowered for that. */
static const double doubtful_by = 1.5;
enum { MOST_DOUBTFUL = 1 << 15 };
/* What is planned for memory that is left, and then not quicker by a little, is not tried. */
static const double much_less = 0.99;
/* What is polished afterwards may be expected to take so much more than the best. */
static const double polished_by = 1.5;
/* Of baselines that share operators alike, what they are expected to take is so certain. */
static const double in_doubt = 1.01;
/* What takes so many times what is expected of it hides less than it was to hide. */
static const double far_above = 1.2;
/* The work of a layout as people run it is known so well. */
static const double far_behind = 1.2;

static cleave_status learn(pipeline_finder *f, const pipeline_candidate *of,
                           const cleave_price *price, pipeline_lessons *lessons) {
    const pipeline_lesson lesson = {*of, (double)price->step * 1e-12 / of->least_seconds,
                                    price->peak_bytes};
    return CLEAVE_LIST_PUSH(lessons, lesson) ? CLEAVE_OK
                                             : cleave_fail_memory(f->error, "searching");
}

/* ---- plans ---- */

/* How much two shapes have in common: splits and devices, or how groups take turns, of as many
   stages or, which is half as much, of others. */
static int likeness(const pipeline_candidate *a, const pipeline_candidate *b) {
    bool groups = a->n_groups == b->n_groups && a->arrangement == b->arrangement;
    int splits = a->family == b->family && groups;
    int kind = a->kind == b->kind && groups;
    int turns = kind && a->n_virtual == b->n_virtual;
    return 2 * splits + kind + turns + (a->micro_batches == b->micro_batches);
}

/* What a plan is expected to take, by how far off it was with the one that is most like it of those
   that were simulated; the last of several. */
double pipeline_expect(const pipeline_finder *f, const pipeline_candidate *of) {
    double ratio = 1;
    int best = 2;
    for (int32_t i = 0; i < f->lessons.n; i++) {
        int like = likeness(of, &f->lessons.items[i].of);
        if (like >= best) {
            best = like;
            ratio = f->lessons.items[i].ratio;
        }
    }
    return of->least_seconds * ratio;
}

static int32_t most_promising(const pipeline_finder *f) {
    int32_t best = -1;
    double least = 0;
    for (int32_t i = 0; i < f->planned.n; i++) {
        const pipeline_candidate *of = &f->planned.items[i];
        double seconds = pipeline_expect(f, of);
        if (!of->is_done && !of->is_put_off && (best < 0 || seconds < least)) {
            best = i;
            least = seconds;
        }
    }
    return best;
}

/* Once more for the memory that has turned out to be too much, or to be left: as long as there is a
   plan, which in the latter case has to be quicker.  It waits for its turn. */
static cleave_status plan_again(pipeline_finder *f, const cleave_price *price,
                                pipeline_candidate *of) {
    bool fits = false;
    pipeline_candidate again = *of;
    if (of->tries < MOST_AGAIN)
        CLEAVE_TRY(pipeline_plan_again(f, &again, &fits));
    of->is_done = true;
    if (!fits && price->excess_bytes > 0)
        of->least_seconds = (double)INFINITY;
    if (fits && (price->excess_bytes > 0 || again.least_seconds < of->least_seconds * much_less))
        *of = again;
    return CLEAVE_OK;
}

/* What does not fold does so on no other terms either: where messages of groups meet is no matter
   of kinds and of micro-batches. */
static void leave_out_like(pipeline_finder *f, const pipeline_candidate *of) {
    for (int32_t i = 0; i < f->planned.n; i++)
        if (f->planned.items[i].n_groups == of->n_groups &&
            f->planned.items[i].family == of->family && !f->planned.items[i].is_done) {
            f->planned.items[i].is_done = true;
            f->planned.items[i].least_seconds = (double)INFINITY;
        }
}

/* What gathers or reduces in every micro-batch is lowered for each, and so may be too large where
   what does so once is not.  What has more than is lowered for now may come later. */
static cleave_status leave_out(pipeline_finder *f, pipeline_candidate *of) {
    if (f->lacks_lowering) {
        of->is_put_off = true;
        return CLEAVE_OK;
    }
    of->is_done = true;
    of->least_seconds = (double)INFINITY;
    if (!f->lacks_fold && pipeline_shards_more_than_updates(f, of))
        return pipeline_shard_updates_alone(f, *of);
    if (f->options->only_folds)
        leave_out_like(f, of);
    return CLEAVE_OK;
}

/* What is gathered or reduced in every micro-batch was to go on beside the work, and does not. */
static bool hides_too_little(const pipeline_finder *f, const pipeline_candidate *of,
                             const cleave_price *price) {
    return price->excess_bytes == 0 && of->micro_batches > 1 &&
           (double)price->step * 1e-12 > far_above * of->least_seconds &&
           pipeline_shards_more_than_updates(f, of);
}

static cleave_status try_plan(pipeline_finder *f, pipeline_candidate *of) {
    cleave_price price;
    bool tried;
    CLEAVE_TRY(pipeline_try_candidate(f, of, &tried, &price));
    if (!tried)
        return leave_out(f, of);
    if (price.excess_bytes == 0)
        CLEAVE_TRY(learn(f, of, &price, &f->lessons));
    const pipeline_candidate tried_one = *of; /* planning anew moves it */
    CLEAVE_TRY(plan_again(f, &price, of));
    return hides_too_little(f, &tried_one, &price) ? pipeline_shard_updates_alone(f, tried_one)
                                                   : CLEAVE_OK;
}

/* Always the one that is expected to be quickest, as long as it may be the best. */
cleave_status pipeline_try_planned(pipeline_finder *f) {
    const int32_t most = f->is_small ? MOST_PLANNED_OF_SMALL : MOST_PLANNED, before = f->lessons.n;
    const double behind = f->is_small ? polished_by : in_doubt;
    while (f->lessons.n - before < most && !pipeline_is_over(f)) {
        const cleave_price *best = pipeline_best(f);
        int32_t i = most_promising(f);
        double to_beat =
            best != NULL && best->excess_bytes == 0 ? (double)best->step * 1e-12 : (double)INFINITY;
        if (i < 0 || pipeline_expect(f, &f->planned.items[i]) > to_beat * behind)
            break;
        pipeline_progress(f, (double)(f->lessons.n - before) / most, "simulating stages");
        CLEAVE_TRY(try_plan(f, &f->planned.items[i]));
    }
    return CLEAVE_OK;
}

/* ---- baselines ---- */

static int compare_candidates(const void *a, const void *b) {
    const pipeline_candidate *x = a, *y = b;
    return (x->least_seconds > y->least_seconds) - (x->least_seconds < y->least_seconds);
}

/* Of two baselines: operators are split alike, over groups of as many devices. */
static bool share_alike(const pipeline_candidate *a, const pipeline_candidate *b) {
    return strcmp(a->baseline, b->baseline) == 0 && a->n_groups == b->n_groups &&
           a->tensor == b->tensor && a->expert == b->expert;
}

/* The same devices do the same, too, in the same order of turns. */
static bool are_akin(const pipeline_candidate *a, const pipeline_candidate *b) {
    return share_alike(a, b) && a->n_virtual == b->n_virtual && a->kind == b->kind &&
           a->sooner == b->sooner && a->by_room == b->by_room;
}

/* Did one like it that needs no more not fit?  With twice the micro-batches what is kept for them
   halves at best, and at least the least state is left. */
static bool has_failed(const pipeline_finder *f, const pipeline_candidate *of) {
    for (int32_t i = 0; i < f->failed.n; i++) {
        const pipeline_candidate *other = &f->failed.items[i].of;
        double state = pipeline_least_state(f, of), more = of->micro_batches;
        double rest = fmax(0, (double)f->failed.items[i].peak_bytes - state);
        if (are_akin(other, of) && other->recompute >= of->recompute &&
            other->sharded >= of->sharded &&
            (more <= other->micro_batches ||
             state + rest * other->micro_batches / more > (double)pipeline_memory(f)))
            return true;
    }
    return false;
}

/* Is it slower than the best, by how many times the expected those take at least whose devices
   share operators as it does?  Where there is none, by the least of those of as much sharded state.
 */
static bool is_behind(const pipeline_finder *f, const pipeline_candidate *of, double best) {
    double alike = (double)INFINITY, least = (double)INFINITY;
    for (int32_t i = 0; i < f->known_lessons.n; i++) {
        const pipeline_lesson *lesson = &f->known_lessons.items[i];
        if (share_alike(&lesson->of, of))
            alike = fmin(alike, lesson->ratio);
        if (lesson->of.sharded == of->sharded && lesson->of.recompute == of->recompute)
            least = fmin(least, lesson->ratio);
    }
    if (!isfinite(alike))
        alike = of->sharded != CLEAVE_SHARDED_NOTHING && isfinite(least) ? least : 1;
    return alike * of->least_seconds > best * in_doubt;
}

/* Then so are all that come after it. */
static bool is_hopeless(const pipeline_finder *f, const pipeline_candidate *of) {
    bool is =
        f->options->rival_seconds > 0 && of->least_seconds > far_behind * f->options->rival_seconds;
    if (is && f->found->n == 0)
        f->found->behind_seconds = of->least_seconds;
    return is;
}

/* Of each number of groups, those that were simulated and fit, and those that did not. */
typedef struct known_tries {
    int32_t fit, failed;
} known_tries;

/* So many of those that fit; the others only teach what does not. */
static bool is_enough(const known_tries *tried) {
    return tried->fit >= MOST_TRIED || tried->failed >= MOST_TRIED_IN_VAIN;
}

static bool has_no_room(const pipeline_finder *f, const pipeline_candidate *of) {
    bool matters = pipeline_best(f) != NULL || f->options->only_fitting;
    return has_failed(f, of) || (matters && of->least_bytes > (double)pipeline_memory(f));
}

/* `outcome` is left as it is where it can't be tried. */
static cleave_status try_known(pipeline_finder *f, pipeline_candidate *of, known_tries *outcome) {
    cleave_price price;
    bool is_tried;
    of->is_done = true;
    CLEAVE_TRY(pipeline_try_candidate(f, of, &is_tried, &price));
    if (!is_tried)
        return CLEAVE_OK;
    bool fits = price.excess_bytes == 0;
    *(fits ? &outcome->fit : &outcome->failed) += 1;
    return learn(f, of, &price, fits ? &f->known_lessons : &f->failed);
}

/* In the order of the times that they may take; those that may not be the best are left out. */
cleave_status pipeline_try_known(pipeline_finder *f) {
    known_tries *tried = /* by groups */
        CLEAVE_ARENA_ARRAY(&f->work, known_tries, f->pricer->machine->n_devices + 1);
    if (tried == NULL)
        return cleave_fail_memory(f->error, "searching");
    if (f->known.n > 0)
        qsort(f->known.items, (size_t)f->known.n, sizeof *f->known.items, compare_candidates);
    for (int32_t i = 0; i < f->known.n && !pipeline_is_over(f); i++) {
        pipeline_candidate *of = &f->known.items[i];
        double to_beat = pipeline_seconds_to_beat(f);
        if (of->least_seconds > to_beat || is_hopeless(f, of))
            break;
        if (!of->is_doubtful && !is_enough(&tried[of->n_groups]) && !has_no_room(f, of) &&
            !is_behind(f, of, to_beat))
            CLEAVE_TRY(try_known(f, of, &tried[of->n_groups]));
    }
    return CLEAVE_OK;
}

/* ---- what is in doubt ---- */

/* What groups that take the same turns, of plans or of baselines, have come out to take, the least;
   infinite: none were tried. */
static double expect_known(const pipeline_finder *f, const pipeline_candidate *of) {
    double least = (double)INFINITY;
    for (int32_t i = 0; i < f->lessons.n; i++) {
        const pipeline_candidate *plan = &f->lessons.items[i].of;
        if (plan->n_groups == of->n_groups && plan->n_virtual == of->n_virtual &&
            plan->kind == of->kind && plan->micro_batches == of->micro_batches)
            least = fmin(least, f->lessons.items[i].ratio * plan->least_seconds);
    }
    for (int32_t i = 0; i < f->known_lessons.n; i++)
        if (are_akin(&f->known_lessons.items[i].of, of))
            least = fmin(least, f->known_lessons.items[i].ratio * of->least_seconds);
    return least;
}

static int32_t most_promising_known(const pipeline_finder *f, double *seconds) {
    int32_t best = -1;
    *seconds = (double)INFINITY;
    for (int32_t i = 0; i < f->known.n; i++) {
        const pipeline_candidate *of = &f->known.items[i];
        double expected = of->is_done ? (double)INFINITY : expect_known(f, of);
        if (expected < *seconds && !has_no_room(f, of)) {
            best = i;
            *seconds = expected;
        }
    }
    return best;
}

/* What that teaches of others may have made them promising. */
cleave_status pipeline_try_doubtful(pipeline_finder *f) {
    if (f->is_little)
        CLEAVE_TRY(pipeline_plan_doubtful(f, doubtful_by * pipeline_best_known(f)));
    f->most_lowered = MOST_DOUBTFUL;
    while (f->most_lowered > 0 && !pipeline_is_over(f)) {
        double known_seconds, most = doubtful_by * pipeline_best_known(f);
        int32_t plan = most_promising(f), known = most_promising_known(f, &known_seconds);
        double plan_seconds =
            plan >= 0 ? pipeline_expect(f, &f->planned.items[plan]) : (double)INFINITY;
        known_tries outcome = {0};
        if (fmin(plan_seconds, known_seconds) > most || (plan < 0 && known < 0))
            break;
        pipeline_progress(f, 1 - (double)f->most_lowered / MOST_DOUBTFUL, "simulating stages");
        CLEAVE_TRY(plan_seconds <= known_seconds ? try_plan(f, &f->planned.items[plan])
                                                 : try_known(f, &f->known.items[known], &outcome));
    }
    f->most_lowered = INT64_MAX;
    for (int32_t i = 0; i < f->planned.n; i++)
        f->planned.items[i].is_put_off = false;
    return pipeline_try_planned(f);
}

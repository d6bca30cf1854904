/* The file of a search that can be gone on with: one object with what the search is of, and the
   state of "auto" with every number as it is.  Choices are pairs of numbers, candidate and block,
   which mean what they meant only in the same space: its hash is in the file. */
#include "search/improve/auto.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { STATE_VERSION = 4 };

/* ---- what a state is of ---------------------------------------------------------------------- */

static uint64_t hash_of_space(const cleave_improvement *with) {
    uint64_t hash = cleave_hash_string("space");
    for (int32_t op = 0; op < with->model->n_operators; op++)
        hash = cleave_hash_join(hash, (uint64_t)with->candidates->list_of[op]);
    for (int32_t l = 0; l < with->candidates->n_lists; l++)
        for (int32_t i = 0; i < with->candidates->lists[l].n; i++) {
            const cleave_candidate *c = &with->candidates->lists[l].items[i];
            hash = cleave_hash_join(hash, (uint64_t)c->replicas);
            hash = cleave_hash_join(hash, (uint64_t)c->n_starts);
            hash = cleave_hash_join(hash, (uint64_t)c->picoseconds);
            for (int a = 0; a < CLEAVE_MAX_AXES; a++)
                hash = cleave_hash_join(hash, (uint64_t)c->degree[a]);
            for (int32_t p = 0; p < c->n_parts; p++)
                hash = cleave_hash_join(hash, (uint64_t)c->offsets[p]);
        }
    return hash;
}

/* Everything that decides what is found, as a text for each. */
enum { N_FACTS = 9, FACT_BYTES = 96 };
typedef struct fact {
    const char *name;
    char value[FACT_BYTES];
} fact;

static void list_facts(const cleave_improvement *with, fact *facts) {
    static const char *const names[N_FACTS] = {"model", "machine", "devices",
                                               "space", "seed",    "proposals",
                                               "timed", "memory",  "optimizer"};
    for (int i = 0; i < N_FACTS; i++)
        facts[i].name = names[i];
    snprintf(facts[0].value, FACT_BYTES, "%s", with->model->hash);
    snprintf(facts[1].value, FACT_BYTES, "%s", with->machine->name);
    snprintf(facts[2].value, FACT_BYTES, "%d", with->machine->n_devices);
    snprintf(facts[3].value, FACT_BYTES, "%016" PRIx64, hash_of_space(with));
    snprintf(facts[4].value, FACT_BYTES, "%" PRIu64, with->seed);
    snprintf(facts[5].value, FACT_BYTES, "%" PRId64, with->proposals);
    snprintf(facts[6].value, FACT_BYTES, "%s", with->time_seconds > 0 ? "yes" : "no");
    snprintf(facts[7].value, FACT_BYTES, "%" PRId64 " bytes", with->memory_limit_bytes);
    snprintf(facts[8].value, FACT_BYTES, "%d states%s", with->optimizer_states,
             with->model->squares > 0 ? ", clipped" : "");
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_choices(cleave_json_writer *w, const cleave_model *model, const char *key,
                        const cleave_choices *choices) {
    cleave_json_open_array(w, key, true);
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_json_put_integer(w, choices->of[op].candidate);
        cleave_json_put_integer(w, choices->of[op].start);
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (choices->sharded[t])
            cleave_json_put_integer(w, t);
    cleave_json_end_array(w);
}

static void put_price(cleave_json_writer *w, const cleave_price *price) {
    cleave_json_set_integer(w, "step", price->step);
    cleave_json_set_integer(w, "excess", price->excess_bytes);
    cleave_json_set_number(w, "over", price->over);
}

static void put_task(cleave_json_writer *w, const cleave_model *model,
                     const cleave_refine_state *t) {
    char key[32];
    snprintf(key, sizeof key, "%016" PRIx64, t->random.key);
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, "most_work", t->limits.work);
    cleave_json_set_integer(w, "most_proposals", t->limits.proposals);
    cleave_json_set_integer(w, "patience", t->limits.patience);
    cleave_json_set_integer(w, "whole_sweeps", t->limits.whole_sweeps);
    cleave_json_set_integer(w, "singles", t->limits.singles);
    cleave_json_set_integer(w, "pairs", t->limits.pairs);
    cleave_json_set_integer(w, "lane", t->limits.lane);
    cleave_json_set_integer(w, "lanes", t->limits.n_lanes);
    cleave_json_set_integer(w, "anneals", t->anneals);
    cleave_json_set_string(w, "random", key);
    cleave_json_set_integer(w, "drawn", (int64_t)t->random.counter);
    cleave_json_set_integer(w, "phase", t->phase);
    cleave_json_set_integer(w, "cursor", t->cursor);
    cleave_json_set_integer(w, "since_improved", t->since_improved);
    cleave_json_set_integer(w, "improved", t->improved);
    cleave_json_set_integer(w, "lean", t->lean);
    cleave_json_open_array(w, "spread", true);
    for (int i = 0; i < CLEAVE_REFINE_SPREAD; i++)
        cleave_json_put_integer(w, t->spread[i]);
    cleave_json_end_array(w);
    cleave_json_set_number(w, "annealed_from", t->annealed_from);
    cleave_json_set_number(w, "temperature", t->temperature);
    cleave_json_set_integer(w, "proposals", t->proposals);
    cleave_json_set_integer(w, "accepted", t->accepted);
    cleave_json_set_integer(w, "work", t->work);
    cleave_json_set_integer(w, "local", t->is_local_optimum);
    put_price(w, &t->best_price);
    put_choices(w, model, "current", &t->current);
    put_choices(w, model, "best", &t->best);
    put_choices(w, model, "base", &t->base);
    cleave_json_end_object(w);
}

static void put_state(cleave_json_writer *w, const cleave_improvement *with, const auto_state *a) {
    fact facts[N_FACTS];
    list_facts(with, facts);
    cleave_json_begin_object(w, false);
    cleave_json_set_integer(w, "cleave_search", STATE_VERSION);
    for (int i = 0; i < N_FACTS; i++)
        cleave_json_set_string(w, facts[i].name, facts[i].value);
    cleave_json_set_integer(w, "round", a->round);
    cleave_json_set_integer(w, "made", a->proposals);
    cleave_json_set_integer(w, "accepted", a->accepted);
    cleave_json_set_integer(w, "work", a->work);
    cleave_json_open_array(w, "pool", false);
    for (int32_t i = 0; i < a->n_pool; i++) {
        cleave_json_begin_object(w, false);
        put_price(w, &a->pool[i].price);
        cleave_json_set_integer(w, "local", a->pool[i].is_local_optimum);
        put_choices(w, with->model, "choices", &a->pool[i].choices);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
    cleave_json_open_array(w, "tasks", false);
    for (int32_t i = 0; i < a->n_tasks; i++)
        put_task(w, with->model, &a->tasks[i]);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

cleave_status auto_state_write(const cleave_improvement *with, const auto_state *state,
                               cleave_error *error) {
    cleave_json_writer w = {0};
    put_state(&w, with, state);
    return cleave_json_write_file(&w, with->resume_file, "writing down a search", error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static cleave_status get_count(const cleave_json_cursor *at, const char *key, int64_t *value,
                               cleave_error *error) {
    return cleave_json_get_integer(at, key, 0, INT64_MAX, value, error);
}

static cleave_status get_flag(const cleave_json_cursor *at, const char *key, bool *value,
                              cleave_error *error) {
    int64_t number;
    CLEAVE_TRY(cleave_json_get_integer(at, key, 0, 1, &number, error));
    *value = number != 0;
    return CLEAVE_OK;
}

static cleave_status get_element(const cleave_json_cursor *list, int32_t index, int64_t most,
                                 int64_t *value, cleave_error *error) {
    cleave_json_cursor at = cleave_json_element(list, index);
    return cleave_json_integer(&at, 0, most, value, error);
}

static cleave_status get_choices(const cleave_improvement *with, const cleave_json_cursor *at,
                                 const char *key, cleave_choices *choices, cleave_error *error) {
    const cleave_model *model = with->model;
    cleave_json_cursor list;
    int64_t value;
    CLEAVE_TRY(cleave_json_get_array(at, key, &list, error));
    int32_t n = cleave_json_count(&list);
    if (n < 2 * model->n_operators)
        return cleave_json_fail(&list, error, "%d numbers, but %d operators have two each", n,
                                model->n_operators);
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_candidate_list *of = cleave_list_of(with->candidates, op);
        CLEAVE_TRY(get_element(&list, 2 * op, of->n - 1, &value, error));
        choices->of[op].candidate = (int32_t)value;
        CLEAVE_TRY(get_element(&list, 2 * op + 1, of->items[value].n_starts - 1, &value, error));
        choices->of[op].start = (int32_t)value;
    }
    memset(choices->sharded, 0, (size_t)model->n_tensors * sizeof *choices->sharded);
    for (int32_t i = 2 * model->n_operators; i < n; i++) {
        CLEAVE_TRY(get_element(&list, i, model->n_tensors - 1, &value, error));
        if (model->tensors[value].kind != CLEAVE_TENSOR_PARAMETER)
            return cleave_json_fail(&list, error, "tensor %lld is no parameter", (long long)value);
        choices->sharded[value] = true;
    }
    return CLEAVE_OK;
}

static cleave_status get_price(const cleave_json_cursor *at, cleave_price *price,
                               cleave_error *error) {
    *price = (cleave_price){0};
    CLEAVE_TRY(get_count(at, "step", &price->step, error));
    CLEAVE_TRY(get_count(at, "excess", &price->excess_bytes, error));
    return cleave_json_get_amount(at, "over", false, &price->over, error);
}

static cleave_status get_random(const cleave_json_cursor *at, cleave_random *random,
                                cleave_error *error) {
    cleave_json_cursor member;
    const char *text;
    int64_t drawn;
    char end;
    CLEAVE_TRY(cleave_json_get(at, "random", &member, error));
    CLEAVE_TRY(cleave_json_string(&member, &text, error));
    if (sscanf(text, "%16" SCNx64 "%c", &random->key, &end) != 1)
        return cleave_json_fail(&member, error, "\"%s\" is no key of random numbers", text);
    CLEAVE_TRY(get_count(at, "drawn", &drawn, error));
    random->counter = (uint64_t)drawn;
    return CLEAVE_OK;
}

static cleave_status get_spread(const cleave_json_cursor *at, int64_t *spread,
                                cleave_error *error) {
    cleave_json_cursor list;
    CLEAVE_TRY(cleave_json_get_array(at, "spread", &list, error));
    if (cleave_json_count(&list) != CLEAVE_REFINE_SPREAD)
        return cleave_json_fail(&list, error, "%d numbers, not %d", cleave_json_count(&list),
                                CLEAVE_REFINE_SPREAD);
    for (int32_t i = 0; i < CLEAVE_REFINE_SPREAD; i++)
        CLEAVE_TRY(get_element(&list, i, INT64_MAX >> 8, &spread[i], error));
    return CLEAVE_OK;
}

static cleave_status get_task_numbers(const cleave_json_cursor *at, cleave_refine_state *t,
                                      cleave_error *error) {
    int64_t phase, lane, lanes;
    CLEAVE_TRY(get_count(at, "most_work", &t->limits.work, error));
    CLEAVE_TRY(
        cleave_json_get_integer(at, "most_proposals", -1, INT64_MAX, &t->limits.proposals, error));
    CLEAVE_TRY(get_count(at, "patience", &t->limits.patience, error));
    CLEAVE_TRY(get_flag(at, "whole_sweeps", &t->limits.whole_sweeps, error));
    CLEAVE_TRY(get_flag(at, "singles", &t->limits.singles, error));
    CLEAVE_TRY(get_flag(at, "pairs", &t->limits.pairs, error));
    CLEAVE_TRY(cleave_json_get_integer(at, "lanes", 0, AUTO_MAX_TASKS, &lanes, error));
    CLEAVE_TRY(cleave_json_get_integer(at, "lane", 0, lanes > 0 ? lanes - 1 : 0, &lane, error));
    t->limits.lane = (int32_t)lane;
    t->limits.n_lanes = (int32_t)lanes;
    CLEAVE_TRY(get_flag(at, "anneals", &t->anneals, error));
    CLEAVE_TRY(get_random(at, &t->random, error));
    CLEAVE_TRY(cleave_json_get_integer(at, "phase", 0, CLEAVE_REFINE_DONE, &phase, error));
    t->phase = (cleave_refine_phase)phase;
    CLEAVE_TRY(get_count(at, "cursor", &t->cursor, error));
    CLEAVE_TRY(get_count(at, "since_improved", &t->since_improved, error));
    CLEAVE_TRY(get_flag(at, "improved", &t->improved, error));
    CLEAVE_TRY(get_flag(at, "lean", &t->lean, error));
    CLEAVE_TRY(get_spread(at, t->spread, error));
    CLEAVE_TRY(cleave_json_get_amount(at, "annealed_from", false, &t->annealed_from, error));
    CLEAVE_TRY(cleave_json_get_amount(at, "temperature", false, &t->temperature, error));
    CLEAVE_TRY(get_count(at, "proposals", &t->proposals, error));
    CLEAVE_TRY(get_count(at, "accepted", &t->accepted, error));
    CLEAVE_TRY(get_count(at, "work", &t->work, error));
    return get_flag(at, "local", &t->is_local_optimum, error);
}

static cleave_status get_task(const cleave_improvement *with, const cleave_json_cursor *at,
                              cleave_refine_state *t, cleave_error *error) {
    static const char *const keys[] = {
        "most_work", "most_proposals", "patience", "whole_sweeps",   "anneals",  "random",
        "drawn",     "phase",          "cursor",   "since_improved", "improved", "spread",
        "proposals", "annealed_from",  "accepted", "temperature",    "work",     "local",
        "lean",      "step",           "excess",   "over",           "current",  "best",
        "base",      "singles",        "pairs",    "lane",           "lanes",    NULL};
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(get_task_numbers(at, t, error));
    if (t->anneals && with->time_seconds <= 0 && t->limits.work == 0 && t->limits.proposals == 0)
        return cleave_json_fail(at, error, "annealing without a limit would not end");
    if (with->proposals > 0 && (t->limits.proposals == 0 || t->limits.proposals > with->proposals))
        return cleave_json_fail(at, error, "%lld proposals, but the search makes %lld at most",
                                (long long)t->limits.proposals, (long long)with->proposals);
    CLEAVE_TRY(get_price(at, &t->best_price, error));
    CLEAVE_TRY(get_choices(with, at, "current", &t->current, error));
    CLEAVE_TRY(get_choices(with, at, "best", &t->best, error));
    return get_choices(with, at, "base", &t->base, error);
}

static cleave_status get_entry(const cleave_improvement *with, const cleave_json_cursor *at,
                               auto_entry *entry, cleave_error *error) {
    static const char *const keys[] = {"step", "excess", "over", "local", "choices", NULL};
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(get_price(at, &entry->price, error));
    CLEAVE_TRY(get_flag(at, "local", &entry->is_local_optimum, error));
    return get_choices(with, at, "choices", &entry->choices, error);
}

/* A list of at most so many. */
static cleave_status get_list(const cleave_json_cursor *at, const char *key, int32_t most,
                              cleave_json_cursor *list, int32_t *n, cleave_error *error) {
    CLEAVE_TRY(cleave_json_get_array(at, key, list, error));
    *n = cleave_json_count(list);
    if (*n > most)
        return cleave_json_fail(list, error, "%d of them, but there are %d at most", *n, most);
    return CLEAVE_OK;
}

static cleave_status check_facts(const cleave_improvement *with, const cleave_json_cursor *at,
                                 cleave_error *error) {
    fact facts[N_FACTS];
    list_facts(with, facts);
    for (int i = 0; i < N_FACTS; i++) {
        cleave_json_cursor member;
        const char *value;
        CLEAVE_TRY(cleave_json_get(at, facts[i].name, &member, error));
        CLEAVE_TRY(cleave_json_string(&member, &value, error));
        if (strcmp(value, facts[i].value) != 0)
            return cleave_json_fail(&member, error,
                                    "the state is of another search: \"%s\", now \"%s\"", value,
                                    facts[i].value);
    }
    return CLEAVE_OK;
}

static cleave_status get_state(const cleave_improvement *with, const cleave_json_cursor *at,
                               auto_state *a, cleave_error *error) {
    static const char *const keys[] = {
        "cleave_search", "model",     "machine", "devices",   "space", "seed",
        "timed",         "proposals", "memory",  "optimizer", "round", "made",
        "accepted",      "work",      "pool",    "tasks",     NULL};
    int64_t number;
    cleave_json_cursor list;
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(
        cleave_json_get_integer(at, "cleave_search", STATE_VERSION, STATE_VERSION, &number, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(check_facts(with, at, error));
    CLEAVE_TRY(cleave_json_get_integer(at, "round", 0, INT32_MAX - 1, &number, error));
    a->round = (int32_t)number;
    CLEAVE_TRY(get_count(at, "made", &a->proposals, error));
    CLEAVE_TRY(get_count(at, "accepted", &a->accepted, error));
    CLEAVE_TRY(get_count(at, "work", &a->work, error));
    CLEAVE_TRY(get_list(at, "pool", AUTO_MAX_POOL, &list, &a->n_pool, error));
    if (a->n_pool == 0 && a->round > 0)
        return cleave_json_fail(&list, error, "nothing was found in %d rounds", a->round);
    for (int32_t i = 0; i < a->n_pool; i++) {
        cleave_json_cursor element = cleave_json_element(&list, i);
        CLEAVE_TRY(get_entry(with, &element, &a->pool[i], error));
    }
    CLEAVE_TRY(get_list(at, "tasks", AUTO_MAX_TASKS, &list, &a->n_tasks, error));
    for (int32_t i = 0; i < a->n_tasks; i++) {
        cleave_json_cursor element = cleave_json_element(&list, i);
        CLEAVE_TRY(get_task(with, &element, &a->tasks[i], error));
    }
    return CLEAVE_OK;
}

cleave_status auto_state_read(const cleave_improvement *with, auto_state *state, bool *found,
                              cleave_error *error) {
    cleave_json *document;
    *found = with->resume_file != NULL && access(with->resume_file, F_OK) == 0;
    if (!*found)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_read(with->resume_file, &document, error));
    cleave_json_cursor root = cleave_json_root(document);
    cleave_status status = get_state(with, &root, state, error);
    cleave_json_free(document);
    return status;
}

/* Rules are few and looked at in order: the first that fits a collective decides. */
#include "graph/model/collective_rules.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_KINDS = 3, MAX_RULES = 4096 };

static const char *const kind_names[N_KINDS] = {"all-reduce", "reduce-scatter", "all-gather"};
static const char *const algorithm_names[CLEAVE_N_ALGORITHMS] = {
    "default", "ring", "halving-doubling", "tree", "two-level", "direct"};

/* The members of a group that each node has, if all those that it lies in have as many, else 0; and
   the number of these nodes. */
static int32_t node_members_of(int32_t node_devices, int32_t n, const int32_t *devices,
                               int32_t *n_nodes) {
    int32_t members = 0, in_node = 0;
    *n_nodes = 0;
    if (node_devices < 1)
        return 0;
    bool even = true;
    for (int32_t i = 0; i < n; i++) {
        bool first = i == 0 || devices[i] / node_devices != devices[i - 1] / node_devices;
        if (first && i > 0) {
            even = even && (*n_nodes == 1 || in_node == members);
            members = in_node;
        }
        *n_nodes += first;
        in_node = first ? 1 : in_node + 1;
    }
    even = even && (*n_nodes == 1 || in_node == members);
    return even ? in_node : 0;
}

int32_t cleave_collective_rules_find(const cleave_collective_rules *rules,
                                     cleave_collective_kind kind, int32_t n, const int32_t *devices,
                                     int64_t bytes) {
    int32_t n_nodes;
    node_members_of(rules->node_devices, n, devices, &n_nodes);
    for (int32_t r = 0; r < rules->n; r++) {
        const cleave_collective_rule *rule = &rules->items[r];
        if (rule->kind == kind && (rule->n_devices == 0 || rule->n_devices == n) &&
            (rule->n_nodes == 0 || rule->n_nodes == n_nodes) &&
            (rule->up_to_bytes == 0 || bytes <= rule->up_to_bytes))
            return r;
    }
    return -1;
}

cleave_collective_algorithm cleave_collective_rules_choose(const cleave_collective_rules *rules,
                                                           cleave_collective_kind kind, int32_t n,
                                                           const int32_t *devices, int64_t bytes,
                                                           int32_t *node_members) {
    int32_t n_nodes;
    int32_t members = node_members_of(rules->node_devices, n, devices, &n_nodes);
    int32_t rule = cleave_collective_rules_find(rules, kind, n, devices, bytes);
    cleave_collective_algorithm found =
        rule >= 0 ? rules->items[rule].algorithm : CLEAVE_ALGORITHM_DEFAULT;
    if (found == CLEAVE_ALGORITHM_DEFAULT || !cleave_collective_has_plan(kind, found, n, members))
        found = cleave_collective_default(n);
    *node_members = found == CLEAVE_ALGORITHM_TWO_LEVEL ? members : 1;
    return found;
}

cleave_status cleave_collective_rules_check(const cleave_collective_rules *rules,
                                            cleave_error *error) {
    if (rules->node_devices < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "a node of %d devices", rules->node_devices);
    for (int32_t r = 0; r < rules->n; r++) {
        const cleave_collective_rule *rule = &rules->items[r];
        if ((int)rule->kind < 0 || (int)rule->kind >= N_KINDS || (int)rule->algorithm < 0 ||
            rule->algorithm >= CLEAVE_ALGORITHM_DIRECT || rule->n_devices < 0 ||
            rule->n_nodes < 0 || rule->up_to_bytes < 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "rule %d of the collectives is out of range: kind %d, algorithm %d",
                               r, (int)rule->kind, (int)rule->algorithm);
    }
    return CLEAVE_OK;
}

cleave_status cleave_collective_rules_copy(const cleave_collective_rules *rules,
                                           cleave_arena *arena, cleave_collective_rules *copy,
                                           cleave_error *error) {
    cleave_collective_rules made = *rules;
    made.items = CLEAVE_ARENA_ARRAY(arena, cleave_collective_rule, rules->n);
    if (made.items == NULL)
        return cleave_fail_memory(error, "copying a layout");
    if (rules->n > 0)
        memcpy(made.items, rules->items, (size_t)rules->n * sizeof *made.items);
    *copy = made;
    return CLEAVE_OK;
}

/* For each kind one rule for small vectors and one for the rest; nodes of 1 to 4 devices. */
cleave_status cleave_collective_rules_random(cleave_random *random, cleave_arena *arena,
                                             cleave_collective_rules *rules, cleave_error *error) {
    cleave_collective_rules made = {.direct = cleave_random_below(random, 5) == 0};
    made.items = CLEAVE_ARENA_ARRAY(arena, cleave_collective_rule, 2 * N_KINDS);
    if (made.items == NULL)
        return cleave_fail_memory(error, "drawing a layout");
    made.node_devices = (int32_t)cleave_random_below(random, 5);
    for (int k = 0; k < N_KINDS && !made.direct; k++)
        for (int large = 0; large < 2; large++)
            made.items[made.n++] = (cleave_collective_rule){
                .kind = (cleave_collective_kind)k,
                .up_to_bytes = large ? 0 : 1 + cleave_random_below(random, 512),
                .algorithm = (cleave_collective_algorithm)cleave_random_below(
                    random, CLEAVE_ALGORITHM_DIRECT)};
    *rules = made;
    return CLEAVE_OK;
}

/* ---- the file ---- */

static cleave_status read_algorithm(const cleave_json_cursor *at,
                                    cleave_collective_algorithm *algorithm, cleave_error *error) {
    int which;
    CLEAVE_TRY(cleave_json_word(at, algorithm_names, CLEAVE_N_ALGORITHMS, &which, error));
    *algorithm = (cleave_collective_algorithm)which;
    return CLEAVE_OK;
}

static cleave_status read_count(const cleave_json_cursor *at, const char *key, int32_t *count,
                                cleave_error *error) {
    cleave_json_cursor member;
    int64_t value = 0;
    if (cleave_json_find(at, key, &member))
        CLEAVE_TRY(cleave_json_integer(&member, 1, INT32_MAX, &value, error));
    *count = (int32_t)value;
    return CLEAVE_OK;
}

static cleave_status read_rule(const cleave_json_cursor *at, cleave_collective_rule *rule,
                               cleave_error *error) {
    static const char *const keys[] = {"devices", "nodes", "up_to", "algorithm", NULL};
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(read_count(at, "devices", &rule->n_devices, error));
    CLEAVE_TRY(read_count(at, "nodes", &rule->n_nodes, error));
    if (cleave_json_find(at, "up_to", &member)) {
        double bytes;
        CLEAVE_TRY(cleave_json_quantity(&member, CLEAVE_UNIT_BYTES, &bytes, error));
        if (!(bytes >= 1 && bytes < 0x1p62))
            return cleave_json_fail(&member, error, "%g bytes are not in range", bytes);
        rule->up_to_bytes = (int64_t)bytes;
    }
    CLEAVE_TRY(cleave_json_get(at, "algorithm", &member, error));
    CLEAVE_TRY(read_algorithm(&member, &rule->algorithm, error));
    return rule->algorithm != CLEAVE_ALGORITHM_DIRECT
               ? CLEAVE_OK
               : cleave_json_fail(&member, error, "\"direct\" is for all collectives or none");
}

/* The rules of one kind, or, where `items` is null, their number. */
static cleave_status read_kind(const cleave_json_cursor *at, cleave_collective_kind kind,
                               cleave_collective_rules *rules, bool counting, cleave_error *error) {
    bool one = cleave_json_type_of(at) == CLEAVE_JSON_STRING;
    if (!one)
        CLEAVE_TRY(cleave_json_expect_array(at, error));
    int32_t n = one ? 1 : cleave_json_count(at);
    if (n > MAX_RULES)
        return cleave_json_fail(at, error, "%d rules are more than %d", n, MAX_RULES);
    for (int32_t r = 0; r < n && !counting; r++) {
        cleave_collective_rule *rule = &rules->items[rules->n + r];
        cleave_json_cursor element;
        *rule = (cleave_collective_rule){.kind = kind};
        if (one) {
            CLEAVE_TRY(read_algorithm(at, &rule->algorithm, error));
            if (rule->algorithm == CLEAVE_ALGORITHM_DIRECT && kind != CLEAVE_ALL_REDUCE)
                return cleave_json_fail(at, error, "\"direct\" is said of \"all-reduce\", for all");
            continue;
        }
        element = cleave_json_element(at, r);
        CLEAVE_TRY(read_rule(&element, rule, error));
    }
    rules->n += n;
    return CLEAVE_OK;
}

cleave_status cleave_collective_rules_read(const cleave_json_cursor *at, cleave_arena *arena,
                                           cleave_collective_rules *rules, cleave_error *error) {
    static const char *const keys[] = {"node", "all-reduce", "reduce-scatter", "all-gather", NULL};
    cleave_collective_rules made = {0};
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(read_count(at, "node", &made.node_devices, error));
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            made.items = CLEAVE_ARENA_ARRAY(arena, cleave_collective_rule, made.n);
            if (made.items == NULL)
                return cleave_fail_memory(error, "reading a layout");
            made.n = 0;
        }
        for (int k = 0; k < N_KINDS; k++)
            if (cleave_json_find(at, kind_names[k], &member))
                CLEAVE_TRY(read_kind(&member, (cleave_collective_kind)k, &made, pass == 0, error));
    }
    if (made.n > 0 && made.items[0].algorithm == CLEAVE_ALGORITHM_DIRECT) {
        if (made.n > 1)
            return cleave_json_fail(at, error, "\"direct\" leaves nothing for other rules");
        made.direct = true;
        made.n = 0;
    }
    *rules = made;
    return CLEAVE_OK;
}

static bool is_for_all(const cleave_collective_rule *rule) {
    return rule->n_devices == 0 && rule->n_nodes == 0 && rule->up_to_bytes == 0;
}

/* In the largest unit that has it as a whole number. */
static void put_size(cleave_json_writer *w, int64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; unit < 4 && bytes % 1024 == 0; unit++)
        bytes /= 1024;
    char text[32];
    snprintf(text, sizeof text, "%lld %s", (long long)bytes, units[unit]);
    cleave_json_put_string(w, text);
}

static void write_rule(cleave_json_writer *w, const cleave_collective_rule *rule) {
    cleave_json_begin_object(w, true);
    if (rule->n_devices > 0)
        cleave_json_set_integer(w, "devices", rule->n_devices);
    if (rule->n_nodes > 0)
        cleave_json_set_integer(w, "nodes", rule->n_nodes);
    if (rule->up_to_bytes > 0) {
        cleave_json_key(w, "up_to");
        put_size(w, rule->up_to_bytes);
    }
    cleave_json_set_string(w, "algorithm", algorithm_names[rule->algorithm]);
    cleave_json_end_object(w);
}

static void write_kind(cleave_json_writer *w, const cleave_collective_rules *rules, int kind) {
    int32_t n = 0, last = 0;
    for (int32_t r = 0; r < rules->n; r++)
        if ((int)rules->items[r].kind == kind) {
            last = r;
            n++;
        }
    if (n == 0)
        return;
    cleave_json_key(w, kind_names[kind]);
    if (n == 1 && is_for_all(&rules->items[last])) {
        cleave_json_put_string(w, algorithm_names[rules->items[last].algorithm]);
        return;
    }
    cleave_json_begin_array(w, false);
    for (int32_t r = 0; r < rules->n; r++)
        if ((int)rules->items[r].kind == kind)
            write_rule(w, &rules->items[r]);
    cleave_json_end_array(w);
}

void cleave_collective_rules_write(cleave_json_writer *w, const cleave_collective_rules *rules) {
    bool plain = true;
    for (int32_t r = 0; r < rules->n; r++)
        plain = plain && is_for_all(&rules->items[r]);
    cleave_json_begin_object(w, plain);
    if (rules->node_devices > 0)
        cleave_json_set_integer(w, "node", rules->node_devices);
    if (rules->direct)
        cleave_json_set_string(w, kind_names[CLEAVE_ALL_REDUCE],
                               algorithm_names[CLEAVE_ALGORITHM_DIRECT]);
    for (int k = 0; k < N_KINDS; k++)
        write_kind(w, rules, k);
    cleave_json_end_object(w);
}

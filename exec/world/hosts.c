/* Hosts: of files, and of batch systems. */
#include "exec/world/hosts.h"

#include "base/file.h"
#include "base/list.h"

#include <stdlib.h>
#include <string.h>

typedef CLEAVE_LIST(cleave_host) host_list;

static const char name_characters[] =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";

/* Where in a text we are, and what to say of it. */
typedef struct source {
    const char *from;
    int32_t line; /* 0: it has none */
    cleave_arena *arena;
    cleave_error *error;
} source;

static cleave_status fail_at(const source *s, const char *what, const char *word, size_t n) {
    char line[24] = "";
    if (s->line > 0)
        snprintf(line, sizeof line, "line %d: ", s->line);
    return cleave_fail(s->error, CLEAVE_BAD_INPUT, "%s: %s\"%.*s\" %s", s->from, line,
                       n < 100 ? (int)n : 100, word, what);
}

/* Digits alone, 1 .. CLEAVE_MOST_SLOTS. */
static bool read_slots(const char *text, size_t n, int32_t *slots) {
    int64_t value = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || n > 9)
            return false;
        value = 10 * value + (text[i] - '0');
    }
    *slots = (int32_t)value;
    return n > 0 && value >= 1 && value <= CLEAVE_MOST_SLOTS;
}

/* Copies the hosts into the arena, those of one name as one. */
static cleave_status finish(const host_list *list, const source *s, cleave_hosts *hosts) {
    cleave_host *items = CLEAVE_ARENA_ARRAY(s->arena, cleave_host, list->n + 1);
    int32_t n = 0;
    if (items == NULL)
        return cleave_fail_memory(s->error, "reading hosts");
    for (int32_t i = 0; i < list->n; i++) {
        int32_t at = n > 0 && strcmp(items[n - 1].name, list->items[i].name) == 0 ? n - 1 : 0;
        while (at < n && strcmp(items[at].name, list->items[i].name) != 0)
            at++;
        if (at == n)
            items[n++] = (cleave_host){.name = list->items[i].name};
        if (items[at].slots > CLEAVE_MOST_SLOTS - list->items[i].slots)
            return fail_at(s, "has too many slots", items[at].name, strlen(items[at].name));
        items[at].slots += list->items[i].slots;
    }
    if (n == 0)
        return cleave_fail(s->error, CLEAVE_BAD_INPUT, "%s: has no host", s->from);
    *hosts = (cleave_hosts){.from = s->from, .n = n, .items = items};
    return CLEAVE_OK;
}

static cleave_status add(host_list *list, const source *s, const char *name, size_t n,
                         int32_t slots) {
    if (n == 0 || n > CLEAVE_MOST_HOST_NAME || strspn(name, name_characters) < n || name[0] == '-')
        return fail_at(s, "is no name of a host", name, n);
    if (list->n == CLEAVE_MOST_HOSTS)
        return fail_at(s, "is one host too many", name, n);
    const cleave_host host = {.name = cleave_arena_printf(s->arena, "%.*s", (int)n, name),
                              .slots = slots};
    return host.name != NULL && CLEAVE_LIST_PUSH(list, host)
               ? CLEAVE_OK
               : cleave_fail_memory(s->error, "reading hosts");
}

/* ---- host files --------------------------------------------------------------------------------
 */

static const char blanks[] = " \t\r\v\f";

/* "slots=4" sets them; "max_slots=8" says nothing that we would not keep. */
static bool take_word(const char *word, size_t n, int32_t *slots) {
    static const char *const keys[] = {"slots=", "max_slots=", "max-slots="};
    int32_t most;
    for (int k = 0; k < 3; k++) {
        size_t length = strlen(keys[k]);
        if (n > length && strncmp(word, keys[k], length) == 0)
            return read_slots(word + length, n - length, k == 0 ? slots : &most);
    }
    return false;
}

static cleave_status parse_line(const char *line, const source *s, host_list *list) {
    const char *host = line + strspn(line, blanks);
    size_t n = strcspn(host, blanks), n_name = strcspn(host, ": \t\r\v\f");
    int32_t slots = 1;
    if (n == 0)
        return CLEAVE_OK;
    if (n_name < n && !read_slots(host + n_name + 1, n - n_name - 1, &slots))
        return fail_at(s, "is no host with its slots, such as alpha:4", host, n);
    for (const char *word = host + n; *(word += strspn(word, blanks)) != '\0';) {
        size_t n_word = strcspn(word, blanks);
        if (!take_word(word, n_word, &slots))
            return fail_at(s, "is not known: a line is such as alpha:4 or alpha slots=4", word,
                           n_word);
        word += n_word;
    }
    return add(list, s, host, n_name, slots);
}

cleave_status cleave_hosts_parse(const char *text, size_t bytes, const char *from,
                                 cleave_arena *arena, cleave_hosts *hosts, cleave_error *error) {
    source s = {.from = from, .arena = arena, .error = error};
    host_list list = {0};
    char line[1024];
    cleave_status status = CLEAVE_OK;
    for (size_t at = 0, n; at < bytes && status == CLEAVE_OK; at += n + 1) {
        for (n = 0; at + n < bytes && text[at + n] != '\n';)
            n++;
        s.line++;
        snprintf(line, sizeof line, "%.*s", n < sizeof line ? (int)n : (int)sizeof line, text + at);
        if (n >= sizeof line)
            status = fail_at(&s, "begins a line that is too long", line, 20);
        line[strcspn(line, "#")] = '\0';
        if (status == CLEAVE_OK)
            status = parse_line(line, &s, &list);
    }
    s.line = 0;
    if (status == CLEAVE_OK)
        status = finish(&list, &s, hosts);
    CLEAVE_LIST_FREE(&list);
    return status;
}

/* ---- Slurm -------------------------------------------------------------------------------------
 */

/* A number of a range, with the zeros before it: "007" is 7 in three digits. */
typedef struct numeral {
    int64_t value;
    int width;
} numeral;

static bool read_numeral(const char **at, numeral *read) {
    size_t n = strspn(*at, "0123456789");
    *read = (numeral){.width = (int)n};
    for (size_t i = 0; i < n && n <= 9; i++)
        read->value = 10 * read->value + ((*at)[i] - '0');
    *at += n;
    return n > 0 && n <= 9;
}

/* What one name of the list stands for: [n] literal text, then brackets, and so on.  `name` has
   what is known of it so far. */
static cleave_status expand(const char *at, const char *end, char *name, const source *s,
                            host_list *list);

/* "01-03,07]..." behind a bracket: the rest of the name for each number of each range. */
static cleave_status expand_ranges(const char *at, const char *end, char *name, const source *s,
                                   host_list *list) {
    const char *close = memchr(at, ']', (size_t)(end - at)), *begin = at;
    size_t n = strlen(name);
    while (close != NULL && at < close) {
        numeral first, last;
        if (!read_numeral(&at, &first))
            break;
        last = first;
        if (*at == '-' && (at++, !read_numeral(&at, &last)))
            break;
        if ((at < close && *at != ',') || last.value < first.value)
            break;
        for (int64_t i = first.value; i <= last.value; i++) {
            size_t room = CLEAVE_MOST_HOST_NAME + 1 - n;
            if ((size_t)snprintf(name + n, room, "%0*lld", first.width, (long long)i) >= room)
                return fail_at(s, "is too long for a host", name, strlen(name));
            CLEAVE_TRY(expand(close + 1, end, name, s, list));
        }
        if (at == close)
            return CLEAVE_OK;
        at++;
    }
    return fail_at(s, "are no numbers of nodes, such as 01-03,07 in brackets", begin,
                   (size_t)((close != NULL ? close : end) - begin));
}

static cleave_status expand(const char *at, const char *end, char *name, const source *s,
                            host_list *list) {
    size_t n = strlen(name), n_text = 0;
    while (at + n_text < end && at[n_text] != '[')
        n_text++;
    if (n + n_text > CLEAVE_MOST_HOST_NAME)
        return fail_at(s, "is too long for a host", name, n);
    memcpy(name + n, at, n_text);
    name[n + n_text] = '\0';
    cleave_status status = at + n_text == end ? add(list, s, name, strlen(name), 1)
                                              : expand_ranges(at + n_text + 1, end, name, s, list);
    name[n] = '\0';
    return status;
}

/* Up to the comma that is in no bracket. */
static size_t name_length(const char *at) {
    size_t n = 0;
    for (bool inside = false; at[n] != '\0' && (inside || at[n] != ','); n++)
        inside = at[n] == '[' || (inside && at[n] != ']');
    return n;
}

/* "4(x2),3" */
static cleave_status take_tasks(const char *tasks, const source *s, host_list *list) {
    const char *at = tasks;
    int32_t node = 0;
    for (;;) {
        numeral slots, times = {.value = 1};
        bool is_read = read_numeral(&at, &slots) && slots.value >= 1;
        if (is_read && node == 0 && *at == '\0') /* one number for all */
            times.value = list->n;
        if (is_read && strncmp(at, "(x", 2) == 0)
            is_read = (at += 2, read_numeral(&at, &times)) && *at++ == ')';
        if (!is_read || (*at != ',' && *at != '\0') || slots.value > CLEAVE_MOST_SLOTS)
            return fail_at(s, "is no number of tasks for each node, such as 4(x2),3", tasks,
                           strlen(tasks));
        if (times.value > list->n - node)
            break;
        for (int64_t i = 0; i < times.value; i++)
            list->items[node++].slots = (int32_t)slots.value;
        if (*at++ == '\0')
            break;
    }
    return node == list->n && at[-1] == '\0'
               ? CLEAVE_OK
               : fail_at(s, "has tasks for another number of nodes than there are", tasks,
                         strlen(tasks));
}

cleave_status cleave_hosts_parse_slurm(const char *nodes, const char *tasks, const char *from,
                                       cleave_arena *arena, cleave_hosts *hosts,
                                       cleave_error *error) {
    const source s = {.from = from, .arena = arena, .error = error};
    host_list list = {0};
    cleave_status status = CLEAVE_OK;
    for (const char *at = nodes; status == CLEAVE_OK;) {
        char name[CLEAVE_MOST_HOST_NAME + 1] = "";
        size_t n = name_length(at);
        status = expand(at, at + n, name, &s, &list);
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    if (status == CLEAVE_OK && tasks != NULL)
        status = take_tasks(tasks, &s, &list);
    if (status == CLEAVE_OK)
        status = finish(&list, &s, hosts);
    CLEAVE_LIST_FREE(&list);
    return status;
}

/* ---- the batch system --------------------------------------------------------------------------
 */

/* The first of some variables that is set and not empty, or null. */
static const char *variable(const char *const *names) {
    for (; *names != NULL; names++) {
        const char *value = getenv(*names);
        if (value != NULL && value[0] != '\0')
            return value;
    }
    return NULL;
}

cleave_status cleave_hosts_find(cleave_arena *arena, cleave_hosts *hosts, cleave_error *error) {
    static const char *const slurm_nodes[] = {"SLURM_JOB_NODELIST", "SLURM_NODELIST", NULL},
                             *const slurm_tasks[] = {"SLURM_TASKS_PER_NODE",
                                                     "SLURM_NTASKS_PER_NODE",
                                                     "SLURM_JOB_CPUS_PER_NODE", NULL},
                             *const pbs_file[] = {"PBS_NODEFILE", NULL};
    const char *nodes = variable(slurm_nodes), *file = variable(pbs_file);
    char *text;
    size_t bytes;
    *hosts = (cleave_hosts){0};
    if (nodes != NULL)
        return cleave_hosts_parse_slurm(nodes, variable(slurm_tasks), "Slurm's allocation", arena,
                                        hosts, error);
    if (file == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_file_read(file, arena, &text, &bytes, error));
    return cleave_hosts_parse(text, bytes, file, arena, hosts, error);
}

/* Stages and micro-batches as torch.distributed.pipelining has them: ranks are G groups, alike
   meshes of neighbours, and stage s is on group s mod G; or one stage on all ranks.

   A stage begins where a module is called: functions before it, which the layout may have in that
   stage, are done where the stage before ends.  A parameter that several stages read each of their
   groups has. */
#include "graph/export/make.h"

#include <string.h>

/* Does the call of a module say where it is, as one that is called once does? */
static bool is_place(const cleave_planned_operator *planned) {
    return planned->name.named == CLEAVE_NAMED_MODULE && planned->name.first_call < 0 &&
           !planned->in_layer;
}

/* The first operator from `op` on, before `end`, that is such a module; `end`: there is none. */
static int32_t find_module(const cleave_export_plan *plan, int32_t op, int32_t end) {
    while (op < end && !is_place(&plan->operators[op]))
        op++;
    return op;
}

/* Is every operator on devices of its stage's group alone, groups equal runs of devices? */
static bool are_in_groups(const cleave_layout *layout, const int32_t *group, int32_t n_groups) {
    int32_t width = layout->n_devices / n_groups;
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        int32_t stage = cleave_schedule_stage_of(&layout->schedule, op);
        for (int32_t part = 0; part < split->n_parts; part++)
            if (split->devices[part] / width != group[stage])
                return false;
    }
    return layout->n_devices % n_groups == 0;
}

/* Why PyTorch has no such groups, or null. */
static const char *find_objection(const cleave_export_maker *make, const int32_t *group,
                                  int32_t n_groups) {
    const cleave_layout *layout = make->layout;
    const cleave_schedule *schedule = &layout->schedule;
    for (int32_t s = 0; s < schedule->n_stages; s++)
        if (group[s] != s % n_groups)
            return "stages do not go round the groups of devices in order";
    if (schedule->n_stages % n_groups != 0)
        return "groups of devices have different numbers of stages";
    if (schedule->n_stages > n_groups && schedule->micro_batches % n_groups != 0)
        return "micro-batches are no multiple of the groups of devices";
    if (schedule->n_stages > 1 && !are_in_groups(layout, group, n_groups))
        return "groups are no equal runs of devices, the first of the first";
    return NULL;
}

/* Where stages begin: with modules. false: one has none. */
static bool place_stages(cleave_export_maker *make, int32_t *first, const char **begins) {
    const cleave_schedule *asked = &make->layout->schedule;
    for (int32_t s = 1; s < asked->n_stages; s++) {
        int32_t end =
            s + 1 < asked->n_stages ? asked->first_operator[s + 1] : make->model->n_operators;
        first[s] = find_module(make->plan, asked->first_operator[s], end);
        if (first[s] == end)
            return false;
        begins[s] = make->plan->operators[first[s]].name.module;
    }
    begins[0] = "";
    return true;
}

/* The operator that writes each base tensor and hangs on parameters, or -1, [n_tensors]. */
static void find_writers(const cleave_export_maker *make, int32_t *writer) {
    const cleave_model *model = make->model;
    for (int32_t t = 0; t < model->n_tensors; t++)
        writer[t] = -1;
    for (int32_t i = 0; i < model->n_nests; i++) {
        const cleave_nest *nest = &model->nests[i];
        bool hangs = make->plan->operators[nest->op].frame.n_parameters > 0;
        for (int k = 0; k < nest->n_inputs; k++)
            hangs = hangs || writer[cleave_tensor_base(model, nest->inputs[k].tensor)] >= 0;
        if (hangs)
            writer[nest->output.tensor] = nest->op;
    }
}

static bool reads(const cleave_export_maker *make, int32_t op, int32_t base) {
    const cleave_model *model = make->model;
    for (int32_t i = 0; i < model->n_nests; i++)
        for (int k = 0; k < model->nests[i].n_inputs && model->nests[i].op == op; k++)
            if (cleave_tensor_base(model, model->nests[i].inputs[k].tensor) == base)
                return true;
    return false;
}

/* A nest of this stage or a later one that needs more of earlier ones than what the stage's module
   is given; its operator, or -1. */
static int32_t find_crossing(const cleave_export_maker *make, int32_t first,
                             const int32_t *writer) {
    const cleave_model *model = make->model;
    int32_t known = -1; /* most read one tensor of before: that is asked about once */
    for (int32_t i = 0; i < model->n_nests; i++)
        for (int k = 0; k < model->nests[i].n_inputs && model->nests[i].op >= first; k++) {
            int32_t base = cleave_tensor_base(model, model->nests[i].inputs[k].tensor);
            if (base == known || writer[base] < 0 || writer[base] >= first)
                continue;
            if (!reads(make, first, base))
                return model->nests[i].op;
            known = base;
        }
    return -1;
}

/* How many tensors cross the border before an operator, as differences. */
static void note_crossing(int32_t *change, int32_t writer, int32_t last) {
    if (last > writer) {
        change[writer + 1]++;
        change[last + 1]--;
    }
}

/* Crossings of all activations that hang on parameters, [n_operators + 1]; `first`, `last`: the
   operators that write a base tensor, and are the last to read it. */
static void count_crossings(const cleave_export_maker *make, int32_t *first, int32_t *last,
                            int32_t *crossing) {
    const cleave_model *model = make->model;
    find_writers(make, first);
    for (int32_t t = 0; t < model->n_tensors; t++)
        last[t] = -1;
    for (int32_t i = 0; i < model->n_nests; i++)
        for (int k = 0; k < model->nests[i].n_inputs; k++) {
            int32_t base = cleave_tensor_base(model, model->nests[i].inputs[k].tensor);
            if (model->nests[i].op > last[base])
                last[base] = model->nests[i].op;
        }
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (first[t] >= 0)
            note_crossing(crossing, first[t], last[t]);
    for (int32_t op = 1; op < model->n_operators; op++)
        crossing[op] += crossing[op - 1];
}

/* Of what crosses the border before an operator, what it reads itself. */
static int32_t count_given(const cleave_export_maker *make, int32_t op, const int32_t *first) {
    const cleave_operator *of = &make->model->operators[op];
    int32_t seen[CLEAVE_MAX_INPUTS], n = 0;
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &make->model->nests[of->nests[i]];
        for (int k = 0; k < nest->n_inputs && n < CLEAVE_MAX_INPUTS; k++) {
            int32_t base = cleave_tensor_base(make->model, nest->inputs[k].tensor), at = 0;
            while (at < n && seen[at] != base)
                at++;
            if (at == n && first[base] >= 0 && first[base] < op)
                seen[n++] = base;
        }
    }
    return n;
}

cleave_status cleave_export_find_begins(const cleave_export_maker *make, cleave_sayable *sayable,
                                        cleave_error *error) {
    cleave_arena scratch = {0};
    int32_t n = make->model->n_operators;
    int32_t *first = CLEAVE_ARENA_ARRAY(&scratch, int32_t, make->model->n_tensors);
    int32_t *last = CLEAVE_ARENA_ARRAY(&scratch, int32_t, make->model->n_tensors);
    int32_t *crossing = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n + 1);
    bool ready = first != NULL && last != NULL && crossing != NULL;
    if (ready)
        count_crossings(make, first, last, crossing);
    for (int32_t op = n - 1; op >= 0 && ready; op--) {
        sayable[op].begins = is_place(&make->plan->operators[op])
                                 ? crossing[op] == count_given(make, op, first)
                                 : op + 1 < n && sayable[op + 1].begins;
    }
    cleave_arena_free(&scratch);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "finding what can be exported");
}

static void list_moved(cleave_export_maker *make, const cleave_schedule *schedule) {
    for (int32_t s = 1; s < schedule->n_stages; s++)
        for (int32_t op = make->layout->schedule.first_operator[s];
             op < schedule->first_operator[s]; op++)
            cleave_export_lose(make, op, -1, "stage",
                               "a stage begins with a module, and this is called before it");
}

/* Does the operator read what others have made of parameters? */
static bool hangs_on_others(const cleave_export_maker *make, int32_t op, const int32_t *writer) {
    const cleave_operator *of = &make->model->operators[op];
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &make->model->nests[of->nests[i]];
        for (int k = 0; k < nest->n_inputs; k++) {
            int32_t base = cleave_tensor_base(make->model, nest->inputs[k].tensor);
            if (writer[base] >= 0 && writer[base] != op)
                return true;
        }
    }
    return false;
}

/* The first operator that reads what an earlier one of its stage has read and trains, one of the
   two beside what the stage is given, as a table that is the head, too; -1: none does.  `reader`:
   scratch, [n_tensors]. */
static int32_t find_second_reader(const cleave_export_maker *make, const cleave_schedule *schedule,
                                  const int32_t *writer, int32_t *reader) {
    const cleave_model *model = make->model;
    for (int32_t t = 0; t < model->n_tensors; t++)
        reader[t] = -1;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_frame *frame = &make->plan->operators[op].frame;
        for (int32_t p = 0; p < frame->n_parameters; p++) {
            int32_t t = frame->parameters[p].tensor, first = reader[t];
            if (first >= 0 && !model->tensors[t].frozen &&
                cleave_schedule_stage_of(schedule, first) ==
                    cleave_schedule_stage_of(schedule, op) &&
                !(hangs_on_others(make, first, writer) && hangs_on_others(make, op, writer)))
                return op;
            reader[t] = op;
        }
    }
    return -1;
}

enum { ON_NOTHING, ON_PARAMETERS, ON_GIVEN };

/* What the gradient of what an operator writes goes on to: what its stage is given, or, of what
   hangs on none of that, what it trains; `on`: by tensor of its stage. */
static int32_t find_hanging(const cleave_export_maker *make, const cleave_schedule *schedule,
                            int32_t op, const int32_t *writer, const int32_t *on) {
    const cleave_model *model = make->model;
    const cleave_frame *frame = &make->plan->operators[op].frame;
    const cleave_operator *of = &model->operators[op];
    int32_t stage = cleave_schedule_stage_of(schedule, op), found = ON_NOTHING;
    for (int32_t p = 0; p < frame->n_parameters; p++)
        if (!model->tensors[frame->parameters[p].tensor].frozen)
            found = ON_PARAMETERS;
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &model->nests[of->nests[i]];
        for (int k = 0; k < nest->n_inputs; k++) {
            int32_t base = cleave_tensor_base(model, nest->inputs[k].tensor);
            int32_t there = writer[base] < 0                                           ? ON_NOTHING
                            : cleave_schedule_stage_of(schedule, writer[base]) < stage ? ON_GIVEN
                                                                                       : on[base];
            found = there > found ? there : found;
        }
    }
    return found;
}

/* The first operator, after the first stage, that reads what another of its stage has read and
   hangs on parameters and not on what the stage is given, as a bias of positions does that all
   layers add; -1: none does.  `on`, `reader`: scratch, [n_tensors]. */
static int32_t find_second_use(const cleave_export_maker *make, const cleave_schedule *schedule,
                               const int32_t *writer, int32_t *on, int32_t *reader) {
    const cleave_model *model = make->model;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        on[t] = ON_NOTHING;
        reader[t] = -1;
    }
    for (int32_t op = schedule->n_stages > 1 ? schedule->first_operator[1] : model->n_operators;
         op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t hangs = find_hanging(make, schedule, op, writer, on);
        for (int32_t i = 0; i < of->n_nests; i++) {
            const cleave_nest *nest = &model->nests[of->nests[i]];
            for (int k = 0; k < nest->n_inputs; k++) {
                int32_t base = cleave_tensor_base(model, nest->inputs[k].tensor);
                bool own = writer[base] >= 0 && writer[base] != op && on[base] == ON_PARAMETERS;
                if (own && reader[base] >= 0 && reader[base] != op &&
                    cleave_schedule_stage_of(schedule, reader[base]) ==
                        cleave_schedule_stage_of(schedule, op))
                    return op;
                reader[base] = op;
            }
            on[nest->output.tensor] = hangs;
        }
    }
    return -1;
}

/* What PyTorch makes of the kind.  `table`, `use`: operators that read again what their stage has
   read, or -1. */
static void choose_kind(cleave_export_maker *make, int32_t n_groups, cleave_schedule *schedule,
                        int32_t table, int32_t use) {
    const cleave_schedule *asked = &make->layout->schedule;
    bool one = schedule->n_stages == 1, many = schedule->n_stages > n_groups;
    bool has_none =
        asked->kind == CLEAVE_SCHEDULE_ORDERS || asked->kind == CLEAVE_SCHEDULE_ZB_INTERLEAVED;
    if (has_none || (one && cleave_schedule_parts_weights(asked))) {
        schedule->kind = many ? CLEAVE_SCHEDULE_INTERLEAVED : CLEAVE_SCHEDULE_1F1B;
        cleave_export_lose(make, -1, -1, "order",
                           many  ? "blocks come in the order of PyTorch's ScheduleInterleaved1F1B"
                           : one ? "micro-batches come one after the other"
                                 : "blocks come in the order of PyTorch's Schedule1F1B");
    }
    int32_t rounds = schedule->micro_batches / n_groups;
    if (schedule->kind == CLEAVE_SCHEDULE_ZB_H1 && rounds > 1 &&
        schedule->micro_batches % rounds != 0) {
        schedule->kind = CLEAVE_SCHEDULE_1F1B;
        cleave_export_lose(make, -1, -1, "order",
                           "PyTorch's ScheduleInterleavedZeroBubble has rounds of micro-batches, "
                           "and these are no multiple of theirs");
    }
    /* On a mesh of several devices each module has parts of its own. */
    if (schedule->kind == CLEAVE_SCHEDULE_ZB_H1 && n_groups == make->layout->n_devices &&
        table >= 0) {
        schedule->kind = CLEAVE_SCHEDULE_1F1B;
        cleave_export_lose(make, table, -1, "order",
                           "PyTorch's ScheduleInterleavedZeroBubble can't put off the gradient of "
                           "a table that its stage reads elsewhere, too");
    }
    if (schedule->kind == CLEAVE_SCHEDULE_ZB_H1 && use >= 0) {
        schedule->kind = CLEAVE_SCHEDULE_1F1B;
        cleave_export_lose(make, use, -1, "order",
                           "PyTorch's ScheduleInterleavedZeroBubble can't put off the gradient of "
                           "what its stage uses at several places and hangs on parameters, and not "
                           "on what the stage is given");
    }
    if (asked->in_flight != NULL && !one)
        cleave_export_lose(make, -1, -1, "in flight",
                           "PyTorch's schedules have as many as keep all stages busy");
    if (schedule->kind == CLEAVE_SCHEDULE_ZB_H1 && asked->sooner > 0)
        cleave_export_lose(make, -1, -1, "sooner",
                           "PyTorch's ScheduleInterleavedZeroBubble puts gradients of weights off "
                           "by as many blocks as there are groups before");
}

static cleave_status take_stages(cleave_export_maker *make, const int32_t *group, int32_t n_groups,
                                 cleave_arena *arena, cleave_error *error) {
    const cleave_schedule *asked = &make->layout->schedule;
    cleave_schedule schedule = {
        .micro_batches = asked->micro_batches, .n_stages = asked->n_stages, .kind = asked->kind};
    const char **begins = CLEAVE_ARENA_ARRAY(arena, const char *, schedule.n_stages);
    int32_t *writer = CLEAVE_ARENA_ARRAY(arena, int32_t, make->model->n_tensors), crossing = -1;
    int32_t *reader = CLEAVE_ARENA_ARRAY(arena, int32_t, make->model->n_tensors);
    int32_t *on = CLEAVE_ARENA_ARRAY(arena, int32_t, make->model->n_tensors);
    schedule.first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, schedule.n_stages);
    if (begins == NULL || writer == NULL || reader == NULL || on == NULL ||
        schedule.first_operator == NULL)
        return cleave_fail_memory(error, "exporting stages");
    const char *why = find_objection(make, group, n_groups);
    bool placed = why == NULL && place_stages(make, schedule.first_operator, begins);
    if (why == NULL && !placed)
        why = "a stage has no module with a name";
    if (why == NULL)
        find_writers(make, writer);
    for (int32_t s = 1; why == NULL && s < schedule.n_stages && crossing < 0; s++)
        crossing = find_crossing(make, schedule.first_operator[s], writer);
    if (crossing >= 0)
        why = "it needs more of earlier stages than what the module is given with which its own "
              "begins";
    if (why != NULL) {
        cleave_export_lose(make, crossing, -1, "schedule", why);
        return CLEAVE_OK;
    }
    list_moved(make, &schedule);
    int32_t table = find_second_reader(make, &schedule, writer, reader);
    choose_kind(make, n_groups, &schedule, table,
                find_second_use(make, &schedule, writer, on, reader));
    make->plan->schedule = schedule;
    make->plan->n_groups = n_groups;
    make->plan->begins = begins;
    return CLEAVE_OK;
}

static const char *const one_stage[1] = {""};

cleave_status cleave_export_stages(cleave_export_maker *make, cleave_arena *arena,
                                   cleave_error *error) {
    const cleave_layout *layout = make->layout;
    make->plan->schedule = (cleave_schedule){.micro_batches = 1, .n_stages = 1};
    make->plan->n_groups = 1;
    make->plan->begins = one_stage;
    if (cleave_schedule_is_plain(&layout->schedule))
        return CLEAVE_OK;
    if (make->plan->target != CLEAVE_TARGET_TORCH) {
        cleave_export_lose(make, -1, -1, "schedule",
                           "the whole batch is one stage and one micro-batch");
        return CLEAVE_OK;
    }
    int32_t *group, one = 0, n_groups = 1;
    CLEAVE_TRY(cleave_layout_groups(layout, arena, &group, error));
    if (layout->schedule.n_stages == 1)
        group = &one; /* all devices, whichever the operators are on */
    for (int32_t s = 0; s < layout->schedule.n_stages; s++)
        n_groups = group[s] >= n_groups ? group[s] + 1 : n_groups;
    return take_stages(make, group, n_groups, arena, error);
}

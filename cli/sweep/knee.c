/* The knees of a sweep's curves. */
#include "cli/sweep/knee.h"

#include <math.h>
#include <stdio.h>

/* How far apart in the list two points are that are neighbours along an axis. */
bool sweep_knee_find(const sweep *of, int32_t axis, int32_t first, sweep_knee *knee) {
    const sweep_axis *along = &of->plan.axes[axis];
    int32_t stride = sweep_plan_stride(&of->plan, axis), best = -1, next = -1, n = 0;
    double most = 0;
    for (int32_t i = 0; i < along->n && !along->is_words; i++) {
        double x = along->numbers[i], rate = sweep_throughput(of, first + i * stride);
        if (x <= 0 || rate <= 0)
            continue;
        n++;
        if (best < 0 || rate * rate / x > most) {
            best = i;
            next = -1;
            most = rate * rate / x;
        } else if (next < 0) {
            next = i;
        }
    }
    if (n < 2)
        return false;
    *knee = (sweep_knee){.axis = axis, .first = first, .knee = first + best * stride, .next = -1};
    if (next >= 0) {
        knee->next = first + next * stride;
        knee->gain = log(sweep_throughput(of, knee->next) / sweep_throughput(of, knee->knee)) /
                     log(along->numbers[next] / along->numbers[best]);
    }
    return true;
}

bool sweep_knee_next(const sweep *of, sweep_knee *knee) {
    int32_t first = knee->axis < 0 ? 0 : knee->first + 1;
    for (int32_t axis = knee->axis < 0 ? 0 : knee->axis; axis < of->plan.n_axes; axis++, first = 0)
        for (; first < of->plan.n_points; first++)
            if (of->plan.points[first].at[axis] == 0 && sweep_knee_find(of, axis, first, knee))
                return true;
    return false;
}

void sweep_knees_put(const sweep *of, cleave_json_writer *w) {
    for (sweep_knee knee = {.axis = -1}; sweep_knee_next(of, &knee);) {
        const sweep_plan *plan = &of->plan;
        const sweep_axis *along = &plan->axes[knee.axis];
        char at[256];
        sweep_plan_describe(plan, &plan->points[knee.knee], knee.axis, at, sizeof at);
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "along", along->name);
        cleave_json_set_string(w, "at", at);
        sweep_axis_put(along, plan->points[knee.knee].at[knee.axis], "knee", w);
        if (knee.next >= 0) {
            sweep_axis_put(along, plan->points[knee.next].at[knee.axis], "next", w);
            cleave_json_set_number(w, "gain", knee.gain);
        }
        cleave_json_end_object(w);
    }
}

void sweep_knee_describe(const sweep *of, const sweep_knee *knee, char *text, size_t bytes) {
    const sweep_plan *plan = &of->plan;
    const sweep_axis *along = &plan->axes[knee->axis];
    const sweep_point *point = &plan->points[knee->knee];
    char at[256], where[300] = "";
    sweep_plan_describe(plan, point, knee->axis, at, sizeof at);
    if (at[0] != '\0')
        snprintf(where, sizeof where, " at %s", at);
    const char *name = along->name, *value = along->texts[point->at[knee->axis]];
    const char *next = knee->next < 0 ? "" : along->texts[plan->points[knee->next].at[knee->axis]];
    if (knee->next < 0)
        snprintf(text, bytes, "%s%s: no knee up to %s.", name, where, value);
    else if (knee->gain <= 0)
        snprintf(text, bytes, "%s%s: the knee is at %s: more of it, up to %s, brings nothing.",
                 name, where, value, next);
    else
        snprintf(text, bytes,
                 "%s%s: the knee is at %s: more of it, up to %s, brings %.0f %% of its share.",
                 name, where, value, next, 100 * knee->gain);
}

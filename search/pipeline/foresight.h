/* What a step in stages is foreseen to take, before anything of it is simulated: all micro-batches
   of the slowest group, and before and after them one micro-batch of the others; what is sent on;
   and what happens once. */
#ifndef CLEAVE_SEARCH_PIPELINE_FORESIGHT_H
#define CLEAVE_SEARCH_PIPELINE_FORESIGHT_H

#include "search/pipeline/joint.h"

#include <math.h>

/* Of a micro-batch its backward, which hides what parameters take once, and the gradients of
   weights in it. */
static const double pipeline_backward_share = 0.6, pipeline_weights_share = 0.3;
/* What hides what is gathered, reduced and sent in it; and what of these never is hidden. */
static const double pipeline_hides = 0.8, pipeline_never_hidden = 0.1;
/* Plans are expected to take what they take but for so much. */
static const double pipeline_in_doubt = 1.1;

/* What is left of so much, beside which there is so much to hide it. */
static inline double pipeline_left_of(double time, double hidden) {
    return fmax(time - hidden, pipeline_never_hidden * time);
}

/* Micro-batches that a group keeps at most of one that is cut into so many: of virtual stages the
   share of one. */
double pipeline_in_flight(const cleave_joint_shape *shape, int32_t micro_batches, int32_t group);

/* No kind leaves less of a bubble than this share of what 1F1B leaves: with gradients of weights
   apart, and four virtual stages where groups can take turns. */
static inline double pipeline_least_bubble(int32_t n_groups, int32_t micro_batches) {
    return micro_batches % n_groups == 0 ? 1.0 / 12 : 1.0 / 3;
}

/* The bubble of a kind is that of 1F1B, by so many.  Of forward, gradients of inputs and of weights
   it has two, and the third less what is put off; see cleave_schedule of `sooner`. */
double pipeline_turns_of(const cleave_joint_shape *shape, int32_t sooner);

/* Of a group's time in a micro-batch what goes by from where it posts a receive, a block before the
   one that reads it, until that begins: a forward before a backward; before a forward a backward,
   or the gradients of weights. */
double pipeline_hides_gradients(const cleave_joint_shape *shape);
double pipeline_hides_inputs(const cleave_joint_shape *shape);

/* What a group waits for the other's part of a gradient where a stage ends with each operator,
   [n_operators], in the unit of `work`.  Where a tensor is read on both sides of a cut, so are
   parts of its gradient, which come together when the first reader has given its own: that group
   has to come round to it, which may take a forward pass of a stage, and does the backward of all
   from there to the cut, but both take no more than that of a stage.  `joined`: see
   cleave_stage_joined; null: of a forward pass. */
void pipeline_count_waits(int32_t n_operators, int32_t n_stages, const int32_t *joined,
                          const int64_t *work, int64_t *waits);

/* Picoseconds. */
typedef struct pipeline_step {
    const cleave_joint_shape *shape;
    int32_t micro_batches, sooner;
    bool is_alike;       /* all groups are */
    const double *time;  /* [n_groups] of a micro-batch */
    double pace;         /* micro-batches follow each other no quicker in any group */
    const double *sends; /* [n_stages] of a message behind each */
    double left;         /* of what happens once, what nothing hides */
} pipeline_step;

/* Seconds. */
double pipeline_foresee(const pipeline_step *step);

#endif

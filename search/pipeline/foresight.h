/* Shares by which formulas foresee a micro-batch, before anything of it is simulated. */
#ifndef CLEAVE_SEARCH_PIPELINE_FORESIGHT_H
#define CLEAVE_SEARCH_PIPELINE_FORESIGHT_H

/* Its backward, which hides what parameters take once, and the gradients of weights in it. */
static const double pipeline_backward_share = 0.6, pipeline_weights_share = 0.3;
/* What hides what is gathered, reduced and sent in it; and what of these never is hidden. */
static const double pipeline_hides = 0.8, pipeline_never_hidden = 0.1;
/* No kind leaves less of a bubble than this share of what 1F1B leaves: that is four virtual stages
   with gradients of weights apart. */
static const double pipeline_least_bubble = 1.0 / 12;
/* Plans are expected to take what they take but for so much. */
static const double pipeline_in_doubt = 1.1;

#endif

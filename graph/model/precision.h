/* What lies in which precision: the one rule, of a tensor's kind and of the role in which a buffer
   holds it.  Under precision f32 everything is f32 (and ids of 64 bits); under bf16

     values of activations that a gradient goes through (or would, were        bf16
     nothing frozen), and copies of parameters that are computed with and sent
     gradients of activations                                                  bf16
     partial results (a part has some of a sum), of values and of gradients    f32; of activations
                                                   but attention's as they are sent
   (reduce_precision) statistics, the loss, running statistics                                  f32
     statistics of rows of attention (graph/model/attention.h)                 two f32
     what no gradient goes through: data, constants, masks, numbers of places  f32
     gradients of parameters, their masters, the optimizer's state             f32

   f16 is as bf16.  Under f8 values are bf16, but for activations that nothing but products with
   parameters reads (and not what attention writes, which its backward reads): those are f8, as
   those products take them, and their gradients are bf16.

   Statistics are what moments and reductions give and what is computed from these alone.  What no
   gradient goes through may be integers, of which bf16 has those up to 256 alone.  Products take
   what lies there and add up in f32.  Several readers each give a whole gradient of an activation:
   those are values, and added two at a time, rounded.  Conversions are copies, in the movement of a
   tensor, and the update, which writes a parameter's master and its copy. */
#ifndef CLEAVE_GRAPH_MODEL_PRECISION_H
#define CLEAVE_GRAPH_MODEL_PRECISION_H

#include "graph/model/model.h"
#include "graph/model/part.h"

/* Chooses the precision of a finished model: F32, BF16, F16 or F8; partial sums are sent in
   `reduce_precision`.  Fills in what is stored how, and what can run in place. */
void cleave_model_set_precision(cleave_model *model, cleave_type precision,
                                cleave_type reduce_precision);

/* Bytes of an element of a value of the tensor. */
static inline int64_t cleave_stored_bytes(const cleave_tensor *tensor) {
    return cleave_type_bytes(tensor->stored);
}

/* What a part writes of its nest's output: its value, or a partial result. */
cleave_type cleave_output_type(const cleave_model *model, const cleave_nest *nest,
                               const cleave_part *part);

/* Of the gradient of a value of the tensor. */
static inline cleave_type cleave_value_gradient_type(const cleave_tensor *tensor) {
    return tensor->stored == CLEAVE_F8 ? CLEAVE_BF16 : tensor->stored;
}

/* What a part's backward writes as the gradient of an input. */
cleave_type cleave_gradient_type(const cleave_model *model, const cleave_nest *nest,
                                 const cleave_part *part, int input);

/* Of a parameter's gradient, master and state. */
static inline cleave_type cleave_exact_type(const cleave_tensor *tensor) { return tensor->type; }

/* Bytes of a parameter's element that stay from step to step: the copy that is computed with and,
   where it is trained, a master beside it, and the states of the optimizer. */
int64_t cleave_lasting_bytes(const cleave_tensor *parameter, int optimizer_states);

/* In which type partial results of a tensor, which are of `type` where they arise, are sent. */
cleave_type cleave_reduce_type(const cleave_model *model, int32_t tensor, cleave_type type);

/* Does an update keep a master of the parameter beside the copy that is computed with? */
static inline bool cleave_has_master(const cleave_tensor *tensor) {
    return tensor->kind == CLEAVE_TENSOR_PARAMETER && tensor->needs_gradient &&
           tensor->stored != tensor->type;
}

/* The same by names, "f32", "bf16", "fp16" or "fp8", null: f32; one that is given is asked for.
   Partial sums may be "mixed", too: short of activations, and f32 of gradients of parameters.
   BAD_INPUT for another name, and for sums that are less exact than values. */
cleave_status cleave_model_choose_precision(cleave_model *model, const char *precision,
                                            const char *reduce_precision, cleave_error *error);
const char *cleave_precision_name(cleave_type precision);
bool cleave_precision_is_known(const char *name);
const char *cleave_reduce_precision_name(const cleave_model *model);

/* BAD_INPUT where the model is of a precision that has a price alone. */
cleave_status cleave_model_check_runs(const cleave_model *model, cleave_error *error);

#endif

/* The work of one compute item: its name for cost tables, its flops and its bytes. */
#ifndef CLEAVE_GRAPH_PROGRAM_WORK_H
#define CLEAVE_GRAPH_PROGRAM_WORK_H

#include "graph/model/model.h"
#include "graph/model/part.h"
#include "graph/program/eager.h"

enum { CLEAVE_WORK_KEY_BYTES = 256 };

/* What sort of work it is, as peaks are reached. */
typedef enum cleave_work_sort {
    CLEAVE_WORK_OTHER,
    CLEAVE_WORK_PRODUCT, /* of two matrices, many of them at a time where axes are in all operands
                          */
    CLEAVE_WORK_GROUPED_PRODUCT, /* such where each has a weight of its own, as of experts */
    CLEAVE_WORK_ATTENTION,
    CLEAVE_WORK_LOSS /* over classes */
} cleave_work_sort;

extern const char *const cleave_nest_kind_names[];    /* by cleave_nest_kind: "convolution" */
bool cleave_nest_is_grouped(const cleave_nest *nest); /* a convolution in groups */

typedef struct cleave_work {
    char key[CLEAVE_WORK_KEY_BYTES]; /* equal keys: the same kernel on the same local shapes.  Such
                                        as "convolution forward n=32 k=64 h=55 w=55 c=3 r=11 s=11 /
                                        stride 4 ..." */
    char family[64];  /* operator kind and pass, for predictions from neighbours: "convolution
                         forward" */
    cleave_type type; /* F32 or BF16, in which products multiply */
    cleave_work_sort sort;
    cleave_pass pass;
    double smallest; /* of a product, of the rows, columns and what is summed over */
    double flops;    /* floating-point operations: 2 per multiply-add */
    double
        bytes; /* least memory traffic: each operand box read once and each result written once */
    bool has_kernels;                                      /* it is of a nest, and these are set: */
    cleave_framework_kernels kernels[CLEAVE_N_FRAMEWORKS]; /* what frameworks make of it */
} cleave_work;

/* The work of a pass of a nest over a part. */
void cleave_work_describe(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                          const cleave_part *part, cleave_work *work);

/* The same without the key and the family, which take most of the time. */
void cleave_work_measure(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                         const cleave_part *part, cleave_work *work);

/* All that the time of a kernel can depend on; keys that are too long end in a hash of it.  Longer
   than any of a legal nest: 9 operands of 8 dimensions and 32 instructions. */
typedef struct cleave_work_text {
    char bytes[16384];
    size_t n;
} cleave_work_text;
/* Appends it. */
void cleave_work_write(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                       const cleave_part *part, cleave_work_text *text);

/* Into how many pieces long work is cut, with a poll of the communication lane between them: MPI
   moves nothing large unless it is called.  A piece has 2^29 flops of a product, 2^27 of any other
   nest, or 32 MiB of memory traffic: some milliseconds, long beside a poll and short beside a large
   message.  1 or more, of the key, and the same for all who ask; a kernel makes fewer where its
   shapes don't allow so many. */
int32_t cleave_work_pieces(const cleave_model *model, const cleave_nest *nest, cleave_pass pass,
                           const cleave_part *part);
/* The same for an update that moves `bytes`, read plus written. */
int32_t cleave_work_pieces_of_bytes(double bytes);
/* Those of a copy that moves so many bytes (read plus written): far shorter ones, since messages
   mostly are under way while copies run, and asking for them costs nothing beside. */
int32_t cleave_work_pieces_of_copy(int64_t bytes);

/* The work of moving `bytes` (read plus written, together) that is no nest's: family "copy"
   (packing, unpacking and local copies), "sum" (combining partial results: both are read, one is
   written), "load" (data from outside) or "update" (the
   optimizer).  bytes_of_update gives an update's bytes: parameter and states read and written,
   gradient read. */
void cleave_work_describe_bytes(const char *family, double bytes, cleave_work *work);
/* A copy in rows that are not contiguous with each other, which takes longer the shorter they are:
   family "copy rows", whose flops are rows. */
void cleave_work_describe_rows(double bytes, double n_rows, cleave_work *work);
double cleave_work_bytes_of_update(int64_t parameter_bytes, int n_states);

#endif

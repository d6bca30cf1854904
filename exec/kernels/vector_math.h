/* Elementary functions over arrays, in code that the compiler vectorises.

   Each element is computed by the same branch-free polynomial, so a result depends on the argument
   alone: not on its place in the array, on the array's length or on what lies beside it.  Relative
   errors are below 4e-7 (erf: absolute below 2e-7); zeros, infinities, what is out of range and NaN
   give what the C library gives, but results below the smallest normal float may be off by one
   subnormal step, or flushed to zero.

   y may be x itself; other overlaps are not allowed. */
#ifndef CLEAVE_EXEC_KERNELS_VECTOR_MATH_H
#define CLEAVE_EXEC_KERNELS_VECTOR_MATH_H

void cleave_vector_exp(int n, const float *x, float *y);
void cleave_vector_log(int n, const float *x, float *y);
void cleave_vector_log1p(int n, const float *x, float *y);
void cleave_vector_tanh(int n, const float *x, float *y);
void cleave_vector_sigmoid(int n, const float *x, float *y);
void cleave_vector_erf(int n, const float *x, float *y);
/* The derivative of erf: 2 / sqrt(pi) exp(-x x). */
void cleave_vector_erf_slope(int n, const float *x, float *y);

#endif

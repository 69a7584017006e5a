// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "lockstep/nn.h"

typedef struct fans {
  double in, out;
} fans;

static fans fans_of(ls_shape shape) {
  double all = 1;
  for (int i = 0; i < shape.rank; ++i)
    all *= (double)shape.dim[i];
  if (shape.rank < 2) return (fans){all, all};
  const double in = (double)shape.dim[shape.rank - 2];
  const double out = (double)shape.dim[shape.rank - 1];
  if (all == 0) return (fans){1, 1};  // Nothing will be drawn.
  return (fans){all / out, all / in};
}

ls_tensor ls_glorot_uniform(ls_dtype dtype, ls_shape shape,
                            const ls_random_options *random) {
  const fans f = fans_of(shape);
  const double limit = sqrt(6.0 / (f.in + f.out));
  return ls_random_uniform(dtype, shape, -limit, limit, random);
}

ls_tensor ls_he_normal(ls_dtype dtype, ls_shape shape,
                       const ls_random_options *random) {
  return ls_random_normal(dtype, shape, 0, sqrt(2.0 / fans_of(shape).in),
                          random);
}

ls_tensor ls_zeros(ls_dtype dtype, ls_shape shape,
                   const ls_random_options *random) {
  (void)random;
  return ls_fill(dtype, shape, 0);
}

ls_tensor ls_ones(ls_dtype dtype, ls_shape shape,
                  const ls_random_options *random) {
  (void)random;
  return ls_fill(dtype, shape, 1);
}

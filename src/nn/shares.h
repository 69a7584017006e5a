// SPDX-License-Identifier: Apache-2.0
// What the replicas' parts of a batch make together. Each part counts by its
// examples; one without any counts nothing, whatever its value is.
#ifndef LS_NN_SHARES_H_
#define LS_NN_SHARES_H_

#include "lockstep/replica.h"

// This replica's share in the batch of all.
typedef struct ls_shares {
  int32_t replicas;
  bool differ;      // Parts may have different numbers of examples:
  ls_tensor count;  // this one's,
  ls_tensor total;  // and that of all.
} ls_shares;

// Asks where it stands; may add ops.
ls_shares ls_shares_find(void);
// The mean over all examples of a value that is a mean over this part's.
ls_tensor ls_shares_mean(const ls_shares *shares, ls_tensor x);
// The sum over replicas that have examples.
ls_tensor ls_shares_sum(const ls_shares *shares, ls_tensor x);

#endif  // LS_NN_SHARES_H_

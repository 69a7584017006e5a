// SPDX-License-Identifier: Apache-2.0
#include "lockstep/trunk.h"

int32_t ls_trunk_first(const ls_trunk *self, int32_t rank, int32_t replicas) {
  return (int32_t)((int64_t)replicas * rank / self->ranks);
}

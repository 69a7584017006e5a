// SPDX-License-Identifier: Apache-2.0
#include "lockstep/communicator.h"

int32_t ls_communicator_first(const ls_communicator *self, int32_t rank,
                              int32_t replicas) {
  return (int32_t)((int64_t)replicas * rank / self->ranks);
}

ls_status ls_communicator_exchange(ls_communicator *self,
                                   const ls_exchange_name *name,
                                   const ls_exchange_piece *pieces,
                                   size_t count) {
  ls_exchange exchange = {.name = *name, .pieces = pieces, .count = count};
  LS_RETURN_IF_ERROR(self->start(self, &exchange));
  return self->wait(self, &exchange);
}

ls_status ls_communicator_gather(ls_communicator *self,
                                 const ls_exchange_name *name, void *all,
                                 size_t size) {
  const ls_exchange_piece piece = {all, size, LS_EACH_RANK, LS_EACH_RANK};
  return ls_communicator_exchange(self, name, &piece, 1);
}

ls_status ls_communicator_broadcast(ls_communicator *self,
                                    const ls_exchange_name *name, int32_t from,
                                    void *data, size_t size) {
  const ls_exchange_piece piece = {data, size, from, LS_EACH_RANK};
  return ls_communicator_exchange(self, name, &piece, 1);
}

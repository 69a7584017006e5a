// SPDX-License-Identifier: Apache-2.0
//
// Initial values of variables on several ranks: all take the chief's, because a
// rank's own may come from what only this rank has.
#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "distribute/variables/variable.h"
#include "lockstep/communicator.h"
#include "runtime/program.h"
#include "runtime/store.h"

// Returns the chief's bytes, of the type of `own`.
static ls_status take_bytes(ls_communicator *communicator, const char *name,
                            const ls_array *own, ls_array **out_array) {
  LS_OWN(ls_array, array) = NULL;
  LS_RETURN_IF_ERROR(ls_array_create_copy(
      ls_array_dtype(own), ls_array_shape(own), ls_array_data(own), &array));
  // A name that no program uses.
  const ls_exchange_name exchange = {
      .program = {ls_hash(name, strlen(name), 0), 0},
      .merge = UINT32_MAX - 5,
  };
  LS_RETURN_IF_ERROR(ls_communicator_broadcast(communicator, &exchange, 0,
                                               ls_array_mutable_data(array),
                                               ls_array_size(array)));
  *out_array = ls_give(&array);
  return ls_ok();
}

ls_status ls_chief_array(const ls_strategy *strategy, const char *name,
                         const ls_array *own, ls_array **out_array) {
  ls_communicator *communicator = ls_strategy_communicator(strategy);
  *out_array = NULL;
  if (!strategy->follows_chief || communicator == NULL || own == NULL)
    return ls_ok();
  return take_bytes(communicator, name != NULL ? name : "", own, out_array);
}

ls_status ls_chief_value(const ls_strategy *strategy, ls_variable *component) {
  ls_runtime_state *state = NULL;
  LS_OWN(ls_array, own) = NULL;
  LS_OWN(ls_array, value) = NULL;
  if (!strategy->follows_chief || ls_strategy_communicator(strategy) == NULL ||
      component->graph != NULL)
    return ls_ok();
  LS_RETURN_IF_ERROR(ls_runtime_state_get(component->runtime, &state));
  LS_RETURN_IF_ERROR(ls_store_read(state->store, component, &own));
  LS_RETURN_IF_ERROR(ls_chief_array(strategy, component->name, own, &value));
  return ls_store_write(state->store, component, value);
}

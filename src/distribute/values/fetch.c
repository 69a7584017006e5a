// SPDX-License-Identifier: Apache-2.0
//
// Fetching: a value of one device on another one.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/context/context.h"
#include "lockstep/strategy_extended.h"
#include "runtime/eager/eager.h"

// What is fetched, and the device where `fn` runs on it.
static ls_status fetch_source(ls_strategy *strategy, ls_nest value,
                              const char *destination, ls_nest *out_source,
                              ls_device_name *out_device) {
  if (ls_distributed_is_on(value, destination)) {
    strcpy(out_device->text, destination);
    return ls_distributed_get(value, destination, out_source);
  }
  for (int32_t i = 0; i < strategy->num_replicas; ++i) {
    const char *device = ls_strategy_device(strategy, i);
    if (!ls_distributed_is_on(value, device)) continue;
    strcpy(out_device->text, device);
    return ls_distributed_get(value, device, out_source);
  }
  return ls_distributed_get(value, destination, out_source);  // Says why not.
}

ls_status ls_mirrored_fetch(ls_strategy *strategy, ls_nest value,
                            const char *destination, ls_callback fn, void *user,
                            ls_nest *out_value) {
  LS_OWN(ls_nest, source) = ls_none();
  LS_OWN(ls_nest, made) = ls_none();
  ls_device_name device;
  const ls_variable *variable = ls_nest_as_variable(value);
  ls_status status = ls_ok();
  if (variable != NULL && variable->num_components > 0 &&
      !ls_is_mirrored(value)) {
    strcpy(device.text, destination);
    {
      LS_DEVICE_SCOPE(destination);
      source = ls_leaf(ls_variable_read(ls_nest_as_variable(value)));
    }
    status = ls_made_status(source.as.tensor);
  } else if (ls_is_mirrored(value)) {
    status = fetch_source(strategy, value, destination, &source, &device);
  } else {
    char text[200];
    status = ls_invalid_argument("fetch of %s: a mirrored value or a "
                                 "distributed variable can be fetched",
                                 ls_nest_print(value, text, sizeof(text)));
  }
  LS_RETURN_IF_ERROR(status);
  ls_tensor tensor = ls_failed_tensor();
  {
    LS_DEVICE_SCOPE(device.text);
    made = fn != NULL ? fn(source, user) : ls_nest_retain(source);
    status = ls_nest_status(made);
    if (ls_status_is_ok(status))
      status = ls_distributed_as_tensor(made, &tensor);
  }
  if (ls_status_is_ok(status)) {
    {
      LS_DEVICE_SCOPE(destination);
      *out_value = ls_leaf(ls_identity(tensor));
    }
    status = ls_made_status(out_value->as.tensor);
  }
  return status;
}

ls_status ls_strategy_fetch(ls_strategy *strategy, ls_nest value,
                            const char *destination, ls_callback fn, void *user,
                            ls_nest *out_value) {
  LS_REQUIRE_OUT(out_value);
  LS_REQUIRE(strategy);
  ls_device_name name;
  if (destination != NULL && destination[0] == '\0')
    return ls_invalid_argument("the destination of a fetch is one device, got "
                               "an empty name");
  LS_RETURN_IF_ERROR(ls_device_canonical(
      destination != NULL ? destination : "/device:CPU:0", NULL, &name));
  ls_crossing crossing;
  LS_RETURN_IF_ERROR(ls_cross_replica_begin(&crossing, strategy, "fetch"));
  const ls_status status =
      strategy->kind->fetch(strategy, value, name.text, fn, user, out_value);
  return ls_cross_replica_end(&crossing, status, out_value);
}

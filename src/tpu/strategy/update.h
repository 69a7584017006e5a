// SPDX-License-Identifier: Apache-2.0
//
// Updates of TPU strategies, of their class.
#ifndef LS_TPU_STRATEGY_UPDATE_H_
#define LS_TPU_STRATEGY_UPDATE_H_

#include "distribute/variables/update.h"

ls_status ls_tpu_class_update(const ls_update_call *call, ls_variable *variable,
                              ls_nest *out_value);
ls_status ls_tpu_class_update_non_slot(const ls_update_call *call,
                                       const char *const *devices,
                                       size_t num_devices, ls_nest *out_value);
ls_status ls_tpu_class_non_slot_devices(const ls_strategy *strategy,
                                        ls_variable *const *variables,
                                        size_t num_variables,
                                        const char **devices, size_t capacity,
                                        size_t *out_count);

#endif  // LS_TPU_STRATEGY_UPDATE_H_

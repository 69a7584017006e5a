// SPDX-License-Identifier: Apache-2.0
//
// Values of TPU strategies: what is put together and given out where a
// mirrored strategy would do it otherwise.
#ifndef LS_TPU_STRATEGY_VALUES_H_
#define LS_TPU_STRATEGY_VALUES_H_

#include "distribute/base/class.h"

// The cross-device ops of a TPU strategy: values are put together on its host.
ls_status ls_tpu_cross_device_create(const char *host,
                                     ls_cross_device **out_ops);

// Of its class.
ls_status ls_tpu_class_reduce(ls_strategy *strategy, ls_reduce_op op,
                              ls_nest value, const ls_reduce_options *options,
                              ls_nest *out_value);
ls_status ls_tpu_class_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                 ls_nest value, ls_destinations where,
                                 ls_nest *out_value);
ls_status ls_tpu_class_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                       const ls_nest *values,
                                       const ls_destinations *where,
                                       size_t count, ls_nest *results);
ls_status ls_tpu_class_broadcast_to(ls_strategy *strategy, ls_nest value,
                                    ls_destinations where, ls_nest *out_value);
ls_status ls_tpu_class_gather(ls_strategy *strategy, ls_nest value, int axis,
                              ls_nest *out_value);

#endif  // LS_TPU_STRATEGY_VALUES_H_

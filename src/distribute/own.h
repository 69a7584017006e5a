// SPDX-License-Identifier: Apache-2.0
// Releases that LS_OWN uses for types of distribute and of lower layers.
#ifndef LS_DISTRIBUTE_OWN_H_
#define LS_DISTRIBUTE_OWN_H_

#include "data/own.h"
#include "lockstep/cross_device.h"
#include "lockstep/distribute_input.h"
#include "lockstep/strategy.h"
#include "lockstep/summary.h"
#include "lockstep/table.h"

LS_OWNED_POINTER(ls_cross_device, ls_cross_device_release)
LS_OWNED_POINTER(ls_distributed_iterator, ls_distributed_iterator_release)
LS_OWNED_POINTER(ls_strategy, ls_strategy_release)
LS_OWNED_POINTER(ls_summary_writer, ls_summary_writer_release)
LS_OWNED_POINTER(ls_table, ls_table_release)

#endif  // LS_DISTRIBUTE_OWN_H_

// SPDX-License-Identifier: Apache-2.0
// Releases that LS_OWN uses for types of estimator and of lower layers.
#ifndef LS_ESTIMATOR_OWN_H_
#define LS_ESTIMATOR_OWN_H_

#include "lockstep/estimator.h"
#include "lockstep/estimator_config.h"
#include "lockstep/estimator_spec.h"
#include "lockstep/train_and_evaluate.h"
#include "train/own.h"

LS_OWNED_POINTER(ls_estimator, ls_estimator_destroy)
LS_OWNED_POINTER(ls_estimator_spec, ls_estimator_spec_release)
LS_OWNED_POINTER(ls_exporter, ls_exporter_destroy)
LS_OWNED_POINTER(ls_run_config, ls_run_config_release)

#endif  // LS_ESTIMATOR_OWN_H_

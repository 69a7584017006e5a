// SPDX-License-Identifier: Apache-2.0
// Config: config.json, from one table of its entries.
#ifndef LS_TRAIN_CONFIG_H_
#define LS_TRAIN_CONFIG_H_

#include "base/text.h"
#include "lockstep/train.h"

// Appends the file's text.
void ls_train_config_print(const ls_train_config *config, ls_text *text);

#endif  // LS_TRAIN_CONFIG_H_

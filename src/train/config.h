// SPDX-License-Identifier: Apache-2.0
// config.json: written and read by one table of entries, with a checksum at its
// end. Checkpoints keep a copy of the text, which is used if the file is
// damaged; a file without a checksum was written by hand and is used as it is.
#ifndef LS_TRAIN_CONFIG_H_
#define LS_TRAIN_CONFIG_H_

#include "base/text.h"
#include "lockstep/train.h"

// Names of the checkpoint state and entry that keep the text.
#define LS_CONFIG_STATE "run"
#define LS_CONFIG_ENTRY "config"

// Appends the text of config.json.
void ls_train_config_print(const ls_train_config *config, ls_text *text);

#endif  // LS_TRAIN_CONFIG_H_

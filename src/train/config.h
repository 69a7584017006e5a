// SPDX-License-Identifier: Apache-2.0
// Config: config.json, from one table of its entries, with a checksum at its
// end. Checkpoints keep its text, which counts where the file is not as it was
// written; one without a checksum, as somebody made it, is taken as it is.
#ifndef LS_TRAIN_CONFIG_H_
#define LS_TRAIN_CONFIG_H_

#include "base/text.h"
#include "lockstep/train.h"

// The state of a checkpoint that keeps the text, and what it is called there.
#define LS_CONFIG_STATE "run"
#define LS_CONFIG_ENTRY "config"

// Appends the file's text.
void ls_train_config_print(const ls_train_config *config, ls_text *text);

#endif  // LS_TRAIN_CONFIG_H_

// SPDX-License-Identifier: Apache-2.0
// Elements of data sets, for people.
#ifndef LS_CLI_DATA_DATA_SHOW_H_
#define LS_CLI_DATA_DATA_SHOW_H_

#include "cli/cli.h"

// Prints the first elements of a data set to standard output: images drawn,
// with their labels above, numbers and texts cut to lines.
ls_status cli_show_elements(ls_runtime *runtime, ls_dataset *dataset);

#endif  // LS_CLI_DATA_DATA_SHOW_H_

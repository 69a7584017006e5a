// SPDX-License-Identifier: Apache-2.0
#include "lockstep/version.h"

const char *ls_version(void) { return LS_VERSION; }

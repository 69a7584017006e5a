// SPDX-License-Identifier: Apache-2.0
// Tables that shared libraries export, private part.
#ifndef LS_MODELS_LIBRARY_H_
#define LS_MODELS_LIBRARY_H_

#include "lockstep/models.h"

// A kind of table; its rows begin with a name.
typedef struct ls_table_kind {
  const char *noun, *symbol;
  uint32_t version;
  size_t type_size;
  // Return the name of a field that a row lacks, or sets though it may not; or
  // NULL. Both may be NULL.
  const char *(*lacks)(const void *row);
  const char *(*oversteps)(const void *row);
} ls_table_kind;

// Finds a library's table of this kind, and checks it and its rows. A missing
// table counts as empty.
ls_status ls_library_table(const ls_model_library *library,
                           const ls_table_kind *kind,
                           const void *const **out_types, size_t *out_count);

#endif  // LS_MODELS_LIBRARY_H_

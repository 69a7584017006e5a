// SPDX-License-Identifier: Apache-2.0
// Names that are chosen by patterns, and what others call them.
#ifndef LS_STATE_NAMES_H_
#define LS_STATE_NAMES_H_

#include "base/memory/arena.h"
#include "lockstep/saver.h"

// All is lent.
typedef struct ls_name_choice {
  const char *const *only;  // NULL: all.
  size_t num_only;
  const char *const *except;
  size_t num_except;
  const ls_name_map *maps;
  size_t num_maps;
  bool back;         // Names are those of `to`: asked for is what is in `from`.
  const char *what;  // "variable": what the names are of, for messages.
} ls_name_choice;

// OK if each pattern and each map fits one of these names at least.
//   LS_INVALID_ARGUMENT  says which does not, or is none.
LS_MUST_USE ls_status ls_name_choice_check(const ls_name_choice *choice,
                                           const char *const *names,
                                           size_t count);
// Whether a name is among those that are wanted.
bool ls_name_is_chosen(const ls_name_choice *choice, const char *name);
// What a name is on the other side: by the first map that fits, else itself.
// NULL: no memory.
const char *ls_name_map_to(const ls_name_choice *choice, ls_arena *arena,
                           const char *name);

#endif  // LS_STATE_NAMES_H_

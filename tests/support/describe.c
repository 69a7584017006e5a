// SPDX-License-Identifier: Apache-2.0
#include "support/describe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lockstep/graph_ops.h"
#include "lockstep/variable.h"
#include "support/expect.h"

// The text without the ops' numbers, of which some may be left out.
void drop_numbers(char *text) {
  char *to = text;
  for (const char *from = text; *from != '\0';) {
    *to++ = *from;
    if (*from++ == '%')
      while (*from >= '0' && *from <= '9')
        ++from;
  }
  *to = '\0';
}

char *describe(const ls_graph *graph) {
  static const char *const names[] = {"losses", LS_COLLECTION_GLOBAL_VARIABLES,
                                      LS_COLLECTION_TRAINABLE_VARIABLES};
  LS_OWN(printed, text) = NULL;
  char *all = NULL;
  expect_ok(ls_graph_verify(graph));
  expect_ok(ls_graph_print(graph, &text));
  drop_numbers(text);
  char lists[2000] = "";
  for (size_t i = 0; i < 3; ++i) {
    ls_nest leaves[40];
    const size_t count = ls_graph_collection(graph, names[i], leaves, 40);
    for (size_t k = 0; k < count; ++k) {
      const size_t at = strlen(lists);
      const ls_variable *variable = ls_nest_as_variable(leaves[k]);
      snprintf(lists + at, sizeof(lists) - at, "%s: %s\n", names[i],
               variable != NULL ? ls_variable_name(variable)
                                : ls_tensor_name(ls_nest_tensor(leaves[k], 0)));
    }
  }
  const size_t size = strlen(text) + strlen(lists) + 100;
  all = malloc(size);
  snprintf(all, size, "%s%sloss: %s", text, lists,
           ls_graph_loss_reduction(graph));
  return all;
}

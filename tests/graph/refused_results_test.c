// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/gradients.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/slices.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"
#include "support/refused.h"

TEST(refused_calls_of_gradients_leave_nothing) {
  REFUSED(ls_nest, ls_gradients(NULL, 0, NULL, 1, NULL, &out));
}

TEST(refused_calls_of_graph_leave_nothing) {
  REFUSED_MEMORY(ls_graph *, ls_graph_create(NULL, &out));
  REFUSED(ls_op, ls_graph_lookup_op(NULL, NULL, &out));
  REFUSED(ls_graph *, ls_graph_parse(NULL, NULL, 0, &out));
  REFUSED(char *, ls_graph_print(NULL, &out));
  REFUSED(char *, ls_graph_print_dot(NULL, &out));
  REFUSED(char *, ls_graph_print_gathered(NULL, &out));
  REFUSED(const ls_attr *, ls_op_attr((ls_op){0}, NULL, &out));
}

TEST(refused_calls_of_slices_leave_nothing) {
  REFUSED(ls_slices_parts, ls_slices_parts_of(ls_none(), &out));
}

TEST(refused_calls_of_variable_leave_nothing) {
  REFUSED(ls_variable *, ls_creator_create(NULL, NULL, &out));
  REFUSED_TWO(ls_variable *, ls_tensor, ls_get_variable(NULL, &out, &second));
  REFUSED(ls_variable *, ls_variable_create(NULL, &out));
}

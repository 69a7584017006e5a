// SPDX-License-Identifier: Apache-2.0
//
// Attributes by name, as users write them: LS_ATTR_I("axis", 1).
#ifndef LS_TESTS_SUPPORT_ATTRS_H_
#define LS_TESTS_SUPPORT_ATTRS_H_

#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"

#define LS_ATTR_I(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_INT, .as.i = (v)})
#define LS_ATTR_F(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_FLOAT, .as.f = (v)})
#define LS_ATTR_B(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_BOOL, .as.i = (v)})
#define LS_ATTR_S(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_STRING, .as.string = (v)})
#define LS_ATTR_T(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_DTYPE, .as.dtype = (v)})
#define LS_ATTR_SH(n, v)                                                       \
  ((ls_attr){.name = (n), .kind = LS_ATTR_SHAPE, .as.shape = (v)})
#define LS_ATTR_IS(n, v, c)                                                    \
  ((ls_attr){.name = (n),                                                      \
             .kind = LS_ATTR_INTS,                                             \
             .as.ints = {.items = (v), .count = (c)}})
#define LS_ATTR_SZ(n, v, c)                                                    \
  ((ls_attr){.name = (n),                                                      \
             .kind = LS_ATTR_SIZES,                                            \
             .as.sizes = {.items = (v), .count = (c)}})
#define LS_ATTR_A(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_ARRAY, .as.array = (v)})
#define LS_ATTR_O(n, v)                                                        \
  ((ls_attr){.name = (n), .kind = LS_ATTR_OBJECT, .as.object = (v)})

#endif  // LS_TESTS_SUPPORT_ATTRS_H_

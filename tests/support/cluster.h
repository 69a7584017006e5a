// SPDX-License-Identifier: Apache-2.0
//
// A flow as a replicated computation has one, and no more of it than what it
// asks of the door into a graph: its ops are marked, banned from feed and fetch
// and tied to a pivot, wait for nothing outside, and lie in a part ("outside
// compilation") where somebody says so, with their gradients.
#ifndef LS_TESTS_SUPPORT_CLUSTER_H_
#define LS_TESTS_SUPPORT_CLUSTER_H_

#include "graph/flow.h"

// The marks: the cluster's name, and the part's.
#define CLUSTER_MARK "_cluster"
#define CLUSTER_PART "_part"

enum { CLUSTER_ROOM = 64 };

typedef struct cluster {
  ls_flow flow;
  const char *name;
  int replicas;        // Feed and fetch: only of parts, and of one replica.
  ls_op pivot;         // Id 0: there is none yet.
  uint16_t refused;    // A type of op that it does not admit.
  char part[128];      // "": in none.
  const char *around;  // The device outside of the cluster.
  // What its ops were to wait for outside and gives no value.
  ls_op outside[CLUSTER_ROOM];
  size_t num_outside;
  // Gradients: what was entered, and which of them has opened the part.
  ls_op entered[CLUSTER_ROOM];
  size_t num_entered, most_entered;
  ls_op opener;
} cluster;

cluster cluster_of(const char *name, int replicas);
// Makes the pivot: the first op.
void cluster_make_pivot(cluster *self);

// The mark of an op; "" without it.
const char *mark_of(ls_op op, const char *name);
#define EXPECT_MARK(op, name, mark) assert_string_equal(mark_of(op, name), mark)

#endif  // LS_TESTS_SUPPORT_CLUSTER_H_

// SPDX-License-Identifier: Apache-2.0
//
// Hosts: whose input each host reads, and where it goes.
//
// A map is made of nothing but the device of each replica (of several cores the
// first), so that every kind of strategy has one. Hosts stand in the order in
// which replicas first name them. Values are numbered host by host, within a
// host in the order of its devices; value i is replica i's.
#ifndef LS_DISTRIBUTE_BASE_HOSTS_H_
#define LS_DISTRIBUTE_BASE_HOSTS_H_

#include "base/memory/own.h"
#include "lockstep/status.h"
#include "lockstep/trunk.h"

typedef struct ls_input_host {
  char *name;      // Canonical: its CPU.
  char **devices;  // Canonical, one a value of this host.
  size_t count;
  size_t first;   // Its first value's number.
  bool is_other;  // Of another rank, which reads for it.
} ls_input_host;

typedef struct ls_host_map {
  ls_allocator *allocator;
  ls_input_host *hosts;
  size_t num_hosts, num_values;
} ls_host_map;

// Makes a map of the canonical devices of all replicas. `to_hosts`: each stands
// for its host, once a replica. Deinit also after a failure; zeroed is fine.
LS_MUST_USE ls_status ls_host_map_init(ls_host_map *map,
                                       ls_allocator *allocator,
                                       const char *const *devices, size_t count,
                                       bool to_hosts);
// The same where ranks share the replicas: each rank with replicas is a host.
LS_MUST_USE ls_status ls_host_map_init_ranks(ls_host_map *map,
                                             ls_allocator *allocator,
                                             const char *const *devices,
                                             size_t count, bool to_hosts,
                                             const ls_trunk *trunk);

// Some devices of a worker.
typedef struct ls_worker_list {
  const char *worker;
  const char *const *devices;
  size_t count;
} ls_worker_list;
// Makes a map of a caller's lists, worker by worker.
//   LS_INVALID_ARGUMENT  a device twice under one worker, one of another
//                        worker, a worker twice or without devices.
LS_MUST_USE ls_status ls_host_map_init_lists(ls_host_map *map,
                                             ls_allocator *allocator,
                                             const ls_worker_list *lists,
                                             size_t count);
void ls_host_map_deinit(ls_host_map *map);
LS_OWNED_STRUCT(ls_host_map, ls_host_map_deinit)

// Returns the number of the host that reads a value.
size_t ls_host_map_find(const ls_host_map *map, size_t value);

// As many values on each, or INVALID_ARGUMENT with both numbers.
LS_MUST_USE ls_status ls_host_map_check_even(const ls_host_map *map);

#endif  // LS_DISTRIBUTE_BASE_HOSTS_H_

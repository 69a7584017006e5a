// SPDX-License-Identifier: Apache-2.0
//
// Maps of hosts: which host reads the input of which replica.
//
// A map is made from the device of each replica (the first of several cores),
// so that every kind of strategy has a map. Hosts are in the order in which
// replicas first name them. Values are numbered host by host, and within a host
// in the order of its devices; value i is for replica i.
#ifndef LS_DISTRIBUTE_BASE_HOSTS_H_
#define LS_DISTRIBUTE_BASE_HOSTS_H_

#include "base/memory/own.h"
#include "lockstep/communicator.h"
#include "lockstep/status.h"

typedef struct ls_input_host {
  char *name;      // Canonical name of its CPU.
  char **devices;  // Canonical names, one per value of this host.
  size_t count;
  size_t first;   // Number of the host's first value.
  bool is_other;  // True if another rank reads the host's input.
} ls_input_host;

typedef struct ls_host_map {
  ls_allocator *allocator;
  ls_input_host *hosts;
  size_t num_hosts, num_values;
} ls_host_map;

// Makes a map from the canonical devices of all replicas. `to_hosts`: values go
// to the devices' hosts. Deinit it even after a failure; it may be zeroed.
LS_MUST_USE ls_status ls_host_map_init(ls_host_map *map,
                                       ls_allocator *allocator,
                                       const char *const *devices, size_t count,
                                       bool to_hosts);
// Makes a map of ranks, if several ranks share the replicas: the replicas that
// a rank has of a host are a host. Hosts that are whole on their ranks are thus
// numbered as in one process.
LS_MUST_USE ls_status ls_host_map_init_ranks(
    ls_host_map *map, ls_allocator *allocator, const char *const *devices,
    size_t count, bool to_hosts, const ls_communicator *communicator);
void ls_host_map_deinit(ls_host_map *map);
LS_OWNED_STRUCT(ls_host_map, ls_host_map_deinit)

// Returns the index of the host that reads a value.
size_t ls_host_map_find(const ls_host_map *map, size_t value);

// Checks that all hosts have equal numbers of values; INVALID_ARGUMENT names
// two that differ.
LS_MUST_USE ls_status ls_host_map_check_even(const ls_host_map *map);

#endif  // LS_DISTRIBUTE_BASE_HOSTS_H_

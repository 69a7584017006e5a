// SPDX-License-Identifier: Apache-2.0
#include "distribute/base/strategy.h"

#include <string.h>

#include "lockstep/device_name.h"

void ls_host_map_deinit(ls_host_map *map) {
  for (size_t h = 0; map->hosts != NULL && h < map->num_hosts; ++h) {
    ls_input_host *host = &map->hosts[h];
    for (size_t i = 0; host->devices != NULL && i < host->count; ++i)
      ls_release(map->allocator, host->devices[i]);
    ls_release(map->allocator, host->devices);
    ls_release(map->allocator, host->name);
  }
  ls_release(map->allocator, map->hosts);
  *map = (ls_host_map){0};
}

static char *hosts_copy(const ls_host_map *map, const char *text) {
  return ls_copy_text(map->allocator, text, strlen(text));
}

// Allocates arrays that are large enough for any map of these replicas.
static ls_status hosts_init(ls_host_map *map, ls_allocator *allocator,
                            size_t hosts) {
  *map = (ls_host_map){.allocator = allocator};
  map->hosts = ls_new_array(allocator, ls_input_host, hosts);
  return map->hosts == NULL ? ls_out_of_memory() : ls_ok();
}

static ls_status add_host(ls_host_map *map, const char *name, size_t room,
                          ls_input_host **out_host) {
  ls_input_host *host = &map->hosts[map->num_hosts++];
  host->name = hosts_copy(map, name);
  host->devices = ls_new_array(map->allocator, char *, room);
  *out_host = host;
  return host->name == NULL || host->devices == NULL ? ls_out_of_memory()
                                                     : ls_ok();
}

static ls_status add_device(ls_host_map *map, ls_input_host *host,
                            const char *device) {
  host->devices[host->count] = hosts_copy(map, device);
  return host->devices[host->count++] == NULL ? ls_out_of_memory() : ls_ok();
}

static void number_values(ls_host_map *map) {
  for (size_t h = 0; h < map->num_hosts; ++h) {
    map->hosts[h].first = map->num_values;
    map->num_values += map->hosts[h].count;
  }
}

static ls_input_host *find_host(const ls_host_map *map, const char *name) {
  for (size_t h = 0; h < map->num_hosts; ++h)
    if (strcmp(map->hosts[h].name, name) == 0) return &map->hosts[h];
  return NULL;
}

ls_status ls_host_map_init(ls_host_map *map, ls_allocator *allocator,
                           const char *const *devices, size_t count,
                           bool to_hosts) {
  LS_RETURN_IF_ERROR(hosts_init(map, allocator, count));
  for (size_t i = 0; i < count; ++i) {
    ls_device_name name;
    LS_RETURN_IF_ERROR(ls_device_host(devices[i], &name));
    ls_input_host *host = find_host(map, name.text);
    if (host == NULL)
      LS_RETURN_IF_ERROR(add_host(map, name.text, count, &host));
    LS_RETURN_IF_ERROR(
        add_device(map, host, to_hosts ? host->name : devices[i]));
  }
  number_values(map);
  return ls_ok();
}

// Adds the replicas `first` to `end` of a rank, by host.
static ls_status add_rank(ls_host_map *map, const char *const *devices,
                          size_t first, size_t end, bool to_hosts,
                          bool is_other) {
  const size_t before = map->num_hosts;
  for (size_t i = first; i < end; ++i) {
    ls_device_name name;
    ls_input_host *host =
        map->num_hosts > before ? &map->hosts[map->num_hosts - 1] : NULL;
    LS_RETURN_IF_ERROR(ls_device_host(devices[i], &name));
    if (host == NULL || strcmp(host->name, name.text) != 0)
      LS_RETURN_IF_ERROR(add_host(map, name.text, end - i, &host));
    host->is_other = is_other;
    LS_RETURN_IF_ERROR(
        add_device(map, host, to_hosts ? host->name : devices[i]));
  }
  return ls_ok();
}

ls_status ls_host_map_init_ranks(ls_host_map *map, ls_allocator *allocator,
                                 const char *const *devices, size_t count,
                                 bool to_hosts,
                                 const ls_communicator *communicator) {
  LS_RETURN_IF_ERROR(hosts_init(map, allocator, count));
  for (int32_t k = 0; k < communicator->ranks; ++k)
    LS_RETURN_IF_ERROR(add_rank(
        map, devices,
        (size_t)ls_communicator_first(communicator, k, (int32_t)count),
        (size_t)ls_communicator_first(communicator, k + 1, (int32_t)count),
        to_hosts, k != communicator->rank));
  number_values(map);
  return ls_ok();
}

size_t ls_host_map_find(const ls_host_map *map, size_t value) {
  size_t host = 0;
  while (value >= map->hosts[host].first + map->hosts[host].count)
    ++host;
  return host;
}

ls_status ls_host_map_check_even(const ls_host_map *map) {
  if (map->num_values % map->num_hosts != 0)
    return ls_invalid_argument(
        "%zu replicas on %zu hosts: batches are split over hosts with the same "
        "number of replicas each",
        map->num_values, map->num_hosts);
  for (size_t h = 1; h < map->num_hosts; ++h)
    if (map->hosts[h].count != map->hosts[0].count)
      return ls_invalid_argument(
          "host '%s' has %zu of the %zu replicas on %zu hosts, '%s' %zu: "
          "batches are split over hosts with the same number of replicas each",
          map->hosts[h].name, map->hosts[h].count, map->num_values,
          map->num_hosts, map->hosts[0].name, map->hosts[0].count);
  return ls_ok();
}

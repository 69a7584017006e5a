// SPDX-License-Identifier: Apache-2.0
// Clusters: the addresses of a system's workers.
#include <stdio.h>
#include <stdlib.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "tpu/system/resolver.h"

enum { DEFAULT_PORT = 8470, MAX_PORT = 65535 };
static const char prefix[] = "grpc://";

// ---- Addresses -------------------------------------------------------------
static ls_status bad_address(const char *name, const char *address,
                             size_t length, const char *why) {
  return ls_invalid_argument(
      "TPU name '%s': address '%.*s' %s; accepted is grpc://HOST[:PORT],...",
      name, (int)length, address, why);
}

// Returns the colon before the port, NULL if there is none. IPv6 addresses are
// in brackets.
static const char *find_port(const char *address, size_t length) {
  for (size_t i = length; i > 0 && address[i - 1] != ']'; --i)
    if (address[i - 1] == ':') return address + i - 1;
  return NULL;
}

// Returns true for a name, or an IPv6 address in brackets.
static bool is_host(const char *host, size_t length) {
  const bool is_ipv6 = length > 2 && host[0] == '[' && host[length - 1] == ']';
  for (size_t i = is_ipv6; i < length - is_ipv6; ++i)
    if (host[i] == ' ' || strchr(is_ipv6 ? "[]" : "[]:", host[i]) != NULL)
      return false;
  return length > 0;
}

static ls_status add_address(ls_arena *arena, const char *name,
                             const char *address, size_t length,
                             const char **out) {
  if (length >= strlen(prefix) &&
      strncmp(address, prefix, strlen(prefix)) == 0) {
    address += strlen(prefix);
    length -= strlen(prefix);
  }
  const char *port = find_port(address, length);
  const size_t host = port == NULL ? length : (size_t)(port - address);
  if (!is_host(address, host))
    return bad_address(name, address, length,
                       "has no host: a name, or an IPv6 address in brackets");
  long number = DEFAULT_PORT;
  if (port != NULL) {
    char *end = NULL;
    number = strtol(port + 1, &end, 10);
    if (end != address + length || port[1] < '0' || port[1] > '9' ||
        number < 1 || number > MAX_PORT)
      return bad_address(name, address, length, "has no port of 1 to 65535");
  }
  *out = ls_arena_format(arena, "%.*s:%ld", (int)host, address, number);
  return *out != NULL ? ls_ok() : ls_out_of_memory();
}

ls_status ls_tpu_split_addresses(ls_arena *arena, const char *name,
                                 const char *const **out_addresses,
                                 size_t *out_count) {
  size_t count = 1;
  for (const char *at = name; *at != '\0'; ++at)
    count += *at == ',';
  LS_ARENA_ARRAY_OR_RETURN(arena, const char *, addresses, count);
  const char *at = name;
  for (size_t i = 0; i < count; ++i) {
    const size_t length = strcspn(at, ",");
    LS_RETURN_IF_ERROR(add_address(arena, name, at, length, &addresses[i]));
    at += length + 1;
  }
  *out_addresses = addresses;
  *out_count = count;
  return ls_ok();
}

// ---- Look up ---------------------------------------------------------------
static ls_status ask_lookup(const ls_tpu_resolver *resolver, ls_tpu_node *out) {
  const ls_tpu_resolver_options *options = &resolver->options;
  const char *name = resolver->name;
  if (options->lookup == NULL)
    return ls_invalid_argument(
        "TPU '%s' is unknown: nothing looks names up; known are \"\", local, "
        "virtual:AxB[xC][,cores=N][,hosts=H] and grpc://HOST[:PORT],...",
        name);
  ls_status status = options->lookup(options->user, name, resolver->zone,
                                     resolver->project, out);
  if (ls_status_code(status) == LS_NOT_FOUND) {
    const ls_status unknown = ls_invalid_argument(
        "TPU '%s' is unknown: %s", name, ls_status_message(status));
    ls_status_free(status);
    return unknown;
  }
  return ls_status_annotate(status, "looking up TPU '%s'", name);
}

static ls_status cluster_look_up(const ls_tpu_resolver *resolver,
                                 ls_tpu_node *out) {
  const char *name = resolver->name;
  LS_RETURN_IF_ERROR(ask_lookup(resolver, out));
  const char *state = out->state != NULL ? out->state : "";
  if (strcmp(state, "READY") != 0)
    return ls_failed_precondition("TPU '%s' is in state %s, not READY", name,
                                  state[0] != '\0' ? state : "(none)");
  if (out->num_endpoints > 0 && out->endpoints == NULL)
    return ls_invalid_argument("TPU '%s' was found with %zu endpoints at NULL",
                               name, out->num_endpoints);
  if (out->num_endpoints == 0 && out->single.address == NULL)
    return ls_invalid_argument("TPU '%s' is READY and has no address", name);
  return ls_ok();
}

ls_status ls_tpu_resolver_is_lost(const ls_tpu_resolver *resolver,
                                  bool *out_lost, const char **out_state) {
  ls_tpu_node node = {0};
  *out_lost = false;
  *out_state = "";
  if (resolver->kind != LS_TPU_NAMED) return ls_ok();
  LS_RETURN_IF_ERROR(ask_lookup(resolver, &node));
  static const char *const lost[] = {"TERMINATED", "PREEMPTED"};
  for (size_t i = 0; node.state != NULL && i < LS_COUNT_OF(lost); ++i)
    if (strcmp(node.state, lost[i]) == 0) {
      *out_lost = true;
      *out_state = lost[i];
    }
  return ls_ok();
}

static ls_status list_workers(const ls_tpu_resolver *resolver, ls_arena *arena,
                              const char *const **out_addresses,
                              size_t *out_count) {
  if (resolver->kind == LS_TPU_ADDRESSES)
    return ls_tpu_split_addresses(arena, resolver->name, out_addresses,
                                  out_count);
  ls_tpu_node node = {0};
  LS_RETURN_IF_ERROR(cluster_look_up(resolver, &node));
  const bool is_single = node.num_endpoints == 0;
  const ls_tpu_endpoint *endpoints = is_single ? &node.single : node.endpoints;
  const size_t count = is_single ? 1 : node.num_endpoints;
  LS_ARENA_ARRAY_OR_RETURN(arena, const char *, addresses, count);
  for (size_t i = 0; i < count; ++i) {
    const char *host = endpoints[i].address;
    const int port = endpoints[i].port != 0 ? endpoints[i].port : DEFAULT_PORT;
    if (host == NULL || !is_host(host, strlen(host)) || port < 1 ||
        port > MAX_PORT)
      return ls_invalid_argument(
          "TPU '%s' was found with address '%s' and port %d of endpoint %zu: "
          "expected a host and a port of 1 to 65535",
          resolver->name, host != NULL ? host : "NULL", port, i);
    addresses[i] = ls_arena_format(arena, "%s:%d", host, port);
    if (addresses[i] == NULL) return ls_out_of_memory();
  }
  *out_addresses = addresses;
  *out_count = count;
  return ls_ok();
}

// ---- Specs -----------------------------------------------------------------
static ls_status fill_spec(const ls_tpu_resolver *resolver, ls_arena *arena,
                           ls_cluster_spec *out) {
  if (ls_tpu_is_pod(resolver)) return ls_ok();
  ls_cluster_job *jobs = ls_arena_new_array(arena, ls_cluster_job, 2);
  const char **coordinator = ls_arena_new(arena, const char *);
  if (jobs == NULL || coordinator == NULL) return ls_out_of_memory();
  out->jobs = jobs;
  jobs[0].name = ls_arena_string(arena, resolver->job);
  if (jobs[0].name == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(list_workers(resolver, arena, &jobs[0].addresses,
                                  &jobs[0].num_addresses));
  out->num_jobs = 1;
  if (resolver->coordinator_address == NULL) return ls_ok();
  jobs[1].name = ls_arena_string(arena, resolver->coordinator);
  *coordinator = ls_arena_string(arena, resolver->coordinator_address);
  if (jobs[1].name == NULL || *coordinator == NULL) return ls_out_of_memory();
  jobs[1].addresses = coordinator;
  jobs[1].num_addresses = 1;
  out->num_jobs = 2;
  return ls_ok();
}

ls_status ls_tpu_resolver_cluster_spec(const ls_tpu_resolver *resolver,
                                       ls_cluster_spec **out_spec) {
  LS_REQUIRE_OUT(out_spec, resolver);
  ls_cluster_spec spec = {0};
  LS_OWN(ls_arena, arena) = {.allocator = resolver->arena.allocator};
  LS_RETURN_IF_ERROR(fill_spec(resolver, &arena, &spec));
  return ls_cluster_spec_copy(&spec, out_spec);
}

// ---- Masters ---------------------------------------------------------------
static ls_status set_master(const char *before, const char *text,
                            ls_master *out) {
  const int length =
      snprintf(out->text, sizeof(out->text), "%s%s", before, text);
  if (length < (int)sizeof(out->text)) return ls_ok();
  out->text[0] = '\0';
  return ls_invalid_argument(
      "the master '%s%.80s...' is longer than %d characters", before, text,
      LS_MAX_MASTER - 1);
}

static ls_status find_master(const ls_cluster_spec *spec, const char *type,
                             long long id, ls_master *out) {
  for (size_t i = 0; i < spec->num_jobs; ++i) {
    const ls_cluster_job *job = &spec->jobs[i];
    if (strcmp(job->name, type) != 0) continue;
    if (id >= 0 && id < (long long)job->num_addresses)
      return set_master(prefix, job->addresses[id], out);
    return ls_invalid_argument("there is no task %lld of job '%s': it has %zu",
                               id, type, job->num_addresses);
  }
  return ls_invalid_argument("no worker has job '%s': the workers' is '%s'",
                             type, spec->jobs[0].name);
}

ls_status ls_tpu_resolver_master(const ls_tpu_resolver *resolver,
                                 const char *task_type, ls_opt task_id,
                                 ls_master *out_master) {
  LS_REQUIRE_OUT(out_master, resolver);
  if (resolver->kind == LS_TPU_LOCAL) return ls_ok();
  if (resolver->kind == LS_TPU_VIRTUAL)
    return set_master("", resolver->name, out_master);
  LS_OWN(ls_cluster_spec, spec) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_cluster_spec(resolver, &spec));
  return find_master(spec, task_type != NULL ? task_type : resolver->task_type,
                     task_id.set ? task_id.value : resolver->task_id,
                     out_master);
}

ls_status ls_tpu_placement_job(const char *master, const ls_cluster_spec *spec,
                               const char **out_job) {
  LS_REQUIRE_OUT(out_job, master);
  if (master[0] == '\0' || strcmp(master, "local") == 0) return ls_ok();
  if (spec == NULL) {
    *out_job = "tpu_worker";
    return ls_ok();
  }
  LS_REQUIRE_ITEMS(spec->jobs, spec->num_jobs);
  const char *others = NULL;
  size_t num_others = 0;
  for (size_t i = 0; i < spec->num_jobs; ++i) {
    const char *name = spec->jobs[i].name;
    if (name == NULL)
      return ls_invalid_argument("a job of a cluster has no name");
    if (strcmp(name, "tpu_worker") == 0)
      return ls_invalid_argument("a cluster has a job 'tpu_worker', which is "
                                 "the name of one without a cluster");
    if (spec->num_jobs > 1 && strcmp(name, "coordinator") == 0) continue;
    others = name;
    ++num_others;
  }
  if (num_others != 1 || spec->num_jobs > 2)
    return ls_invalid_argument(
        "in a cluster of %zu jobs the TPUs' job is ambiguous: use one job, or "
        "one besides 'coordinator'",
        spec->num_jobs);
  *out_job = others;
  return ls_ok();
}

ls_status ls_tpu_check_reachable(const ls_tpu_resolver *resolver) {
  if (ls_tpu_is_pod(resolver) || resolver->options.query != NULL)
    return ls_ok();
  LS_OWN(ls_cluster_spec, spec) = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_resolver_cluster_spec(resolver, &spec));
  return ls_unimplemented(
      "connecting to the TPU worker at %s: supported are virtual pods "
      "(virtual:AxB), the local one, and ranks of the job; a resolver's query "
      "can ask systems of other kinds",
      spec->jobs[0].addresses[0]);
}

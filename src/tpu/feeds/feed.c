// SPDX-License-Identifier: Apache-2.0
// Infeed and outfeed ops: their state, and how they find their queues.
#include "tpu/feeds/feed.h"

#include <inttypes.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"

const char *ls_feed_kind_name(ls_feed_kind kind) {
  return ls_feed_kernel(kind)->name;
}

// ---- Feeds -----------------------------------------------------------------
static void destroy_feed(ls_object *object) {
  ls_feed_state *feed = (ls_feed_state *)object;
  ls_feed_calls_destroy(feed);
  for (ls_feed_targets *targets = feed->targets; targets != NULL;) {
    ls_feed_targets *before = targets->before;
    ls_object_release(targets->pod);
    ls_release(feed->allocator, targets);
    targets = before;
  }
  ls_device_assignment_release(feed->assignment);
  ls_object_release(feed->system);
  ls_mutex_deinit(&feed->lock);
  ls_release(feed->allocator, feed->types);
  ls_release(feed->allocator, feed->parts);
  ls_release(feed->allocator, feed);
}

static bool same_device(const ls_device_parts *a, const ls_device_parts *b) {
  return strcmp(a->job, b->job) == 0 && strcmp(a->type, b->type) == 0 &&
         a->replica == b->replica && a->task == b->task && a->index == b->index;
}

static bool same_types(const ls_feed_state *a, const ls_feed_state *b) {
  if (a->count != b->count || a->is_declared != b->is_declared ||
      (a->parts == NULL) != (b->parts == NULL))
    return false;
  for (size_t i = 0; i < a->count && a->parts != NULL; ++i)
    if (!ls_shape_equal(a->parts[i], b->parts[i])) return false;
  for (size_t i = 0; i < a->count; ++i)
    if (a->types[i].dtype != b->types[i].dtype ||
        !ls_shape_equal(a->types[i].shape, b->types[i].shape))
      return false;
  return true;
}

static bool same_feed(const ls_object *a, const ls_object *b) {
  const ls_feed_state *x = (const ls_feed_state *)a,
                      *y = (const ls_feed_state *)b;
  return x->kind == y->kind && x->ordinal == y->ordinal &&
         x->is_conditional == y->is_conditional &&
         ls_system_id_equal(x->system, y->system) &&
         x->assignment == y->assignment && x->logical_core == y->logical_core &&
         same_device(&x->device, &y->device) && same_types(x, y);
}

static const ls_object_type feed_type = {
    .name = "feed", .destroy = destroy_feed, .equal = same_feed};

// Reads the core's position from the device of an op on a core. Only a TPU
// device names a core: replicas of a CPU strategy use the system's first cores.
static ls_status set_device(ls_feed_state *feed, const char *device) {
  LS_RETURN_IF_ERROR(ls_device_parse(device, &feed->device));
  ls_device_parts *parts = &feed->device;
  if (ls_feed_is_on_host(feed->kind)) return ls_ok();
  if (strcmp(parts->type, "TPU_REPLICATED_CORE") == 0 &&
      parts->index != LS_LEFT_OUT)
    feed->logical_core = parts->index;
  if (strcmp(parts->type, "TPU") != 0) {
    ls_device_parts job = {
        .replica = LS_LEFT_OUT, .task = LS_LEFT_OUT, .index = LS_LEFT_OUT};
    memcpy(job.job, parts->job, sizeof(job.job));
    *parts = job;
  }
  return ls_ok();
}

static ls_status set_types(ls_feed_state *feed,
                           const ls_feed_options *options) {
  feed->count = options->count;
  LS_SET_ARRAY_OR_RETURN(feed->allocator, ls_type, feed->types, options->count);
  memcpy(feed->types, options->types, options->count * sizeof(*options->types));
  if (options->parts == NULL) return ls_ok();
  LS_SET_ARRAY_OR_RETURN(feed->allocator, ls_shape, feed->parts,
                         options->count);
  memcpy(feed->parts, options->parts, options->count * sizeof(*options->parts));
  feed->num_cores =
      ls_device_assignment_num_cores_per_replica(options->assignment);
  return ls_ok();
}

ls_status ls_feed_create(const ls_feed_options *options,
                         ls_feed_state **out_feed) {
  *out_feed = NULL;
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_feed_state, feed);
  ls_object_init(&feed->object, &feed_type);
  feed->allocator = allocator;
  feed->kind = options->kind;
  feed->ordinal = options->ordinal;
  feed->is_declared = options->types != NULL;
  feed->is_conditional = options->is_conditional;
  feed->num_cores = 1;
  feed->system = ls_object_retain(options->system);
  if (options->assignment != NULL)
    feed->assignment = ls_device_assignment_retain(
        (ls_device_assignment *)(uintptr_t)options->assignment);
  LS_RETURN_IF_ERROR(ls_mutex_init(&feed->lock));
  LS_RETURN_IF_ERROR(set_device(feed, options->device));
  if (options->types != NULL) LS_RETURN_IF_ERROR(set_types(feed, options));
  return ls_hand_over(&feed, out_feed);
}

bool ls_feed_uses(const ls_feed_state *feed, int64_t core) {
  ls_piece piece;
  if (feed->parts == NULL) return true;
  for (size_t i = 0; i < feed->count; ++i)
    if (ls_piece_of(feed->types[i].shape, feed->parts[i], core, &piece))
      return true;
  return false;
}

// ---- Find the pod ----------------------------------------------------------
// Finds the pod of the feed's system. A feed made before any system existed
// uses the system that is current now. NULL if the feed's own system is gone;
// the caller releases the pod.
static ls_status feed_find_pod(const ls_feed_state *feed, ls_runtime *runtime,
                               ls_pod **out_pod) {
  const char *job = feed->device.job;
  *out_pod = ls_pod_of_id(runtime, feed->system);
  if (feed->system != NULL) return ls_ok();
  *out_pod = ls_pod_of_job(runtime, strcmp(job, "localhost") == 0 ? "" : job);
  if (*out_pod == NULL && job[0] == '\0') {
    ls_system_id *id = NULL;
    LS_RETURN_IF_ERROR(
        ls_system_here(runtime, ls_feed_kind_name(feed->kind), job, &id));
    *out_pod = ls_pod_of_id(runtime, id);
    ls_object_release(id);
  }
  return *out_pod != NULL
             ? ls_ok()
             : ls_pod_refuse_job(runtime, ls_feed_kind_name(feed->kind), job);
}

static ls_status check_pod(const ls_feed_state *feed, const ls_pod *pod) {
  const ls_system_id *own = feed->system;
  if (pod != NULL && ls_pod_is_initialized(pod)) return ls_ok();
  return ls_failed_precondition(
      "%s: the TPU system '%s' of job %s is not initialized",
      ls_feed_kind_name(feed->kind), own != NULL ? own->name : pod->name,
      ls_job_text(own != NULL ? own->job : feed->device.job));
}

ls_status ls_feed_ordinal(const ls_feed_state *feed, int64_t *out_ordinal) {
  *out_ordinal = feed->ordinal;
  if (feed->ordinal >= 0) return ls_ok();
  const bool is_on_core = strcmp(feed->device.type, "TPU") == 0;
  *out_ordinal = feed->device.index == LS_LEFT_OUT ? 0 : feed->device.index;
  return is_on_core
             ? ls_ok()
             : ls_invalid_argument(
                   "%s ops must specify a device_ordinal when placed on CPU",
                   ls_feed_kind_name(feed->kind));
}

static ls_status no_core(const ls_feed_state *feed, const ls_pod *pod,
                         int64_t host, int64_t ordinal) {
  if (host < 0 || host >= pod->num_hosts)
    return ls_not_found(
        "%s: there is no task %" PRId64 ": the TPU system '%s' has %d",
        ls_feed_kind_name(feed->kind), host, pod->name, pod->num_hosts);
  return ls_invalid_argument("%s: there is no TPU with ordinal %" PRId64
                             " on task %" PRId64 ": it has %d",
                             ls_feed_kind_name(feed->kind), ordinal, host,
                             pod->cores_per_host);
}

// Finds the host and ordinal of a replica's core.
static ls_status feed_place_of(const ls_feed_state *feed, const ls_pod *pod,
                               int64_t index, int64_t *out_host,
                               int64_t *out_ordinal) {
  const int64_t replica = index / feed->num_cores;
  const int32_t core = feed->logical_core + (int32_t)(index % feed->num_cores);
  *out_host = replica / pod->cores_per_host;
  *out_ordinal = replica % pod->cores_per_host;
  if (feed->assignment == NULL) {
    if (replica == 0 && feed->device.task != LS_LEFT_OUT)
      *out_host = feed->device.task;
    if (replica == 0 && feed->device.index != LS_LEFT_OUT)
      *out_ordinal = feed->device.index;
    return ls_ok();
  }
  ls_coordinate place;
  int32_t task = 0, ordinal = 0;
  const ls_topology *topology = ls_device_assignment_topology(feed->assignment);
  LS_RETURN_IF_ERROR(ls_device_assignment_place(
      feed->assignment, (int32_t)replica, core, &place));
  LS_RETURN_IF_ERROR(ls_topology_task_at(topology, place, &task));
  LS_RETURN_IF_ERROR(ls_topology_ordinal_at(topology, place, &ordinal));
  *out_host = task;
  *out_ordinal = ordinal;
  return ls_ok();
}

static ls_status find_queue(const ls_feed_state *feed, ls_pod *pod,
                            int64_t index, ls_core_queue **out_queue) {
  int64_t host = feed->device.task == LS_LEFT_OUT ? 0 : feed->device.task;
  int64_t ordinal = index;
  if (!ls_feed_is_on_host(feed->kind))
    LS_RETURN_IF_ERROR(feed_place_of(feed, pod, index, &host, &ordinal));
  ls_core *core = ls_pod_core(pod, host, ordinal);
  if (core == NULL) return no_core(feed, pod, host, ordinal);
  return ls_core_queue_of(core, ls_feed_is_outfeed(feed->kind), out_queue);
}

// Adds a larger table of targets and keeps the earlier ones, which calls may
// still use. Requires the lock.
static ls_status make_targets(ls_feed_state *feed, ls_pod *pod, size_t least) {
  size_t count = 1;
  while (count < least)
    count *= 2;
  ls_feed_targets *made = ls_allocate_zeroed(
      feed->allocator, 1, sizeof(*made) + count * sizeof(made->queues[0]));
  if (made == NULL) return ls_out_of_memory();
  made->pod = ls_object_retain(pod);
  made->generation = ls_pod_generation(pod);
  made->count = count;
  made->before = feed->targets;
  feed->targets = made;
  return ls_ok();
}

static bool is_current(const ls_feed_targets *targets, size_t least) {
  return targets != NULL && targets->count >= least &&
         ls_pod_generation(targets->pod) == targets->generation &&
         targets->generation > 0;
}

// Looks up the queues that are not known yet; makes a table for `pod` if there
// is none. Requires the lock.
static ls_status feed_find_all(ls_feed_state *feed, ls_pod *pod, size_t first,
                               size_t count) {
  if (!is_current(feed->targets, first + count)) {
    LS_RETURN_IF_ERROR(check_pod(feed, pod));
    if (first + count > (size_t)ls_pod_num_cores(pod))
      return ls_feed_is_on_host(feed->kind)
                 ? no_core(feed, pod, 0, (int64_t)first)
                 : ls_invalid_argument("%s: replica %zu has no core: the TPU "
                                       "system '%s' has %d",
                                       ls_feed_kind_name(feed->kind),
                                       first + count - 1, pod->name,
                                       ls_pod_num_cores(pod));
    LS_RETURN_IF_ERROR(make_targets(feed, pod, first + count));
  }
  ls_feed_targets *targets = feed->targets;
  for (size_t i = first; i < first + count; ++i)
    if (targets->queues[i] == NULL)
      LS_RETURN_IF_ERROR(
          find_queue(feed, targets->pod, (int64_t)i, &targets->queues[i]));
  return ls_ok();
}

// Looks the system up before taking the lock, because the lookup takes the
// runtime's lock.
ls_status ls_feed_find(ls_feed_state *feed, ls_runtime *runtime, int64_t first,
                       size_t count, ls_feed_targets **out_targets) {
  if (first < 0)
    return ls_invalid_argument("%s: there is no TPU with ordinal %" PRId64,
                               ls_feed_kind_name(feed->kind), first);
  ls_status status = ls_ok();
  // True if the system was initialized again since the queues were found.
  bool is_known = false, is_lost = false;
  do {
    ls_mutex_lock(&feed->lock);
    is_known = is_current(feed->targets, (size_t)first + count);
    ls_mutex_unlock(&feed->lock);
    ls_pod *pod = NULL;
    if (!is_known) LS_RETURN_IF_ERROR(feed_find_pod(feed, runtime, &pod));
    ls_mutex_lock(&feed->lock);
    is_lost = is_known && !is_current(feed->targets, (size_t)first + count);
    if (!is_lost) status = feed_find_all(feed, pod, (size_t)first, count);
    *out_targets = feed->targets;
    ls_mutex_unlock(&feed->lock);
    ls_object_release(pod);
  } while (is_lost);
  return status;
}

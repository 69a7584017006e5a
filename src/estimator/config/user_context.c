// SPDX-License-Identifier: Apache-2.0
//
// The context that user functions receive.
#include "base/require.h"
#include "estimator/config/config.h"
#include "estimator/config/plan.h"

// ---- Contexts as parameters ------------------------------------------------
static void user_context_destroy(ls_object *object) {
  ls_release(((ls_user_context *)(void *)object)->allocator, object);
}

static const ls_object_type user_context_type = {
    .name = "context", .destroy = user_context_destroy};

ls_nest ls_user_context_leaf(const ls_user_context *like) {
  ls_allocator *allocator = ls_current_allocator();
  ls_user_context *self = ls_new(allocator, ls_user_context);
  if (self == NULL) return ls_fail(ls_out_of_memory());
  *self = *like;
  self->allocator = allocator;
  ls_object_init(&self->object, &user_context_type);
  return ls_nest_object(LS_KIND_OBJECT, &self->object);
}

const ls_user_context *ls_params_context(ls_nest params) {
  const ls_nest leaf = params.kind == LS_KIND_DICT
                           ? ls_nest_find(params, LS_PARAM_CONTEXT)
                           : ls_none();
  const ls_object *object = leaf.kind == LS_KIND_OBJECT ? leaf.as.ref : NULL;
  return object != NULL && object->type == &user_context_type ? leaf.as.ref
                                                              : NULL;
}

// ---- Properties ------------------------------------------------------------
static ls_status refuse_model(const ls_user_context *user, const char *noun) {
  return user->is_input ? ls_ok()
                        : ls_failed_precondition(
                              "%s must not be called from model_fn", noun);
}

ls_status ls_user_context_deployment(const ls_user_context *user,
                                     ls_input_deployment *out) {
  LS_REQUIRE_OUT(out, user);
  LS_RETURN_IF_ERROR(refuse_model(user, "current_input_fn_deployment"));
  const ls_estimator_input *input = &user->plan->input;
  // If each core is fed separately, the input function is called for each core.
  const bool per_core = input->way == LS_FEED_CORES;
  const int64_t calls = per_core ? input->replicas_per_feeder : 1;
  *out = (ls_input_deployment){.host = user->host,
                               .invocation = user->invocation,
                               .num_invocations = input->num_feeders * calls,
                               .num_replicas =
                                   per_core ? 1 : input->replicas_per_feeder};
  return ls_ok();
}

ls_status ls_user_context_host(const ls_user_context *user,
                               ls_device_name *out_host) {
  LS_REQUIRE_OUT(out_host, user);
  LS_RETURN_IF_ERROR(refuse_model(user, "current_host"));
  *out_host = user->host;
  return ls_ok();
}

ls_status ls_user_context_assignment(const ls_user_context *user,
                                     ls_device_assignment **out_assignment) {
  LS_REQUIRE_OUT(out_assignment, user);
  if (user->is_input)
    return ls_failed_precondition(
        "device_assignment must not be called from input_fn");
  *out_assignment = user->plan->system->assignment;
  return ls_ok();
}

ls_status ls_user_context_replicas_per_host(const ls_user_context *user,
                                            int64_t *out_count) {
  LS_REQUIRE_OUT(out_count, user);
  if (ls_plan_is_model_parallel(user->plan))
    return ls_invalid_argument("num_of_replicas_per_host is not known where "
                               "replicas have several cores");
  *out_count = user->plan->system->replicas_per_host;
  return ls_ok();
}

ls_status ls_user_context_num_replicas(const ls_user_context *user,
                                       int64_t *out_count) {
  LS_REQUIRE_OUT(out_count, user);
  *out_count = user->plan->system->num_replicas;
  return ls_ok();
}

ls_status ls_user_context_num_hosts(const ls_user_context *user,
                                    int64_t *out_count) {
  LS_REQUIRE_OUT(out_count, user);
  *out_count = user->plan->system->num_hosts;
  return ls_ok();
}

static ls_status check_replica(const ls_user_context *user, int64_t replica) {
  const int64_t count = user->plan->system->num_replicas;
  return replica >= 0 && replica < count
             ? ls_ok()
             : ls_invalid_argument("replica %lld of %lld", (long long)replica,
                                   (long long)count);
}

ls_status ls_user_context_device_for_replica(const ls_user_context *user,
                                             int64_t replica,
                                             ls_device_name *out_host,
                                             int64_t *out_ordinal) {
  LS_REQUIRE_OUT(out_host);
  LS_REQUIRE_OUT(out_ordinal, user);
  LS_RETURN_IF_ERROR(check_replica(user, replica));
  *out_host = ls_plan_replica_host(user->plan, replica);
  *out_ordinal = user->plan->system->replicas[replica].ordinal;
  return ls_ok();
}

ls_status ls_user_context_place_host(const ls_user_context *user, ls_opt host,
                                     ls_opt replica, ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name, user);
  if (host.set && replica.set)
    return ls_failed_precondition(
        "the device of a host is requested by host %lld and by replica %lld",
        (long long)host.value, (long long)replica.value);
  if (replica.set) LS_RETURN_IF_ERROR(check_replica(user, replica.value));
  *out_name = ls_plan_host(
      user->plan, replica.set ? user->plan->system->replicas[replica.value].host
                              : host.value);
  return ls_ok();
}

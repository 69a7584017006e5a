// SPDX-License-Identifier: Apache-2.0
//
// The context that users' functions are given.
#include "base/require.h"
#include "estimator/config/context.h"
#include "estimator/config/params.h"

// ---- An object among the parameters ----------------------------------------
static void destroy(ls_object *object) {
  ls_release(ls_current_allocator(), object);
}

static const ls_object_type user_context_type = {.name = "context",
                                                 .destroy = destroy};

ls_nest ls_user_context_leaf(const ls_user_context *like) {
  ls_user_context *self = ls_new(ls_current_allocator(), ls_user_context);
  if (self == NULL) return ls_fail(ls_out_of_memory());
  *self = *like;
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

// ---- What it says ----------------------------------------------------------
static ls_status refuse_model(const ls_user_context *user, const char *what) {
  return user->is_input ? ls_ok()
                        : ls_failed_precondition(
                              "%s must not be called from model_fn", what);
}

ls_status ls_user_context_deployment(const ls_user_context *user,
                                     ls_input_deployment *out) {
  LS_REQUIRE_OUT(out);
  LS_REQUIRE(user);
  LS_RETURN_IF_ERROR(refuse_model(user, "current_input_fn_deployment"));
  ls_estimator_input input;
  int64_t hosts = 0, replicas = 0, each = 0;
  LS_RETURN_IF_ERROR(ls_estimator_input_of(user->context, &input));
  LS_RETURN_IF_ERROR(ls_estimator_num_hosts(user->context, &hosts));
  LS_RETURN_IF_ERROR(ls_estimator_num_replicas(user->context, &replicas));
  LS_RETURN_IF_ERROR(ls_estimator_replicas_per_host(user->context, &each));
  out->host = user->host;
  out->invocation = user->invocation;
  if (input.per_core) {
    out->num_invocations = hosts * each;
    out->num_replicas = 1;
  } else if (input.broadcast) {
    out->num_invocations = 1;
    out->num_replicas = replicas;
  } else if (input.replica_across_hosts) {
    out->num_invocations = replicas;
    out->num_replicas = 1;
  } else {
    out->num_invocations = hosts;
    out->num_replicas = each;
  }
  return ls_ok();
}

ls_status ls_user_context_host(const ls_user_context *user,
                               ls_device_name *out_host) {
  LS_REQUIRE_OUT(out_host);
  LS_REQUIRE(user);
  LS_RETURN_IF_ERROR(refuse_model(user, "current_host"));
  *out_host = user->host;
  return ls_ok();
}

ls_status ls_user_context_assignment(const ls_user_context *user,
                                     ls_device_assignment **out_assignment) {
  LS_REQUIRE_OUT(out_assignment);
  LS_REQUIRE(user);
  return user->is_input
             ? ls_failed_precondition("device_assignment must not be called "
                                      "from input_fn")
             : ls_estimator_assignment(user->context, out_assignment);
}

ls_status ls_user_context_replicas_per_host(const ls_user_context *user,
                                            int64_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(user);
  return ls_estimator_is_model_parallel(user->context)
             ? ls_invalid_argument(
                   "num_of_replicas_per_host is not known where "
                   "replicas have several cores")
             : ls_estimator_replicas_per_host(user->context, out_count);
}

ls_status ls_user_context_num_replicas(const ls_user_context *user,
                                       int64_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(user);
  return ls_estimator_num_replicas(user->context, out_count);
}

ls_status ls_user_context_num_hosts(const ls_user_context *user,
                                    int64_t *out_count) {
  LS_REQUIRE_OUT(out_count);
  LS_REQUIRE(user);
  return ls_estimator_num_hosts(user->context, out_count);
}

ls_status ls_user_context_device_for_replica(const ls_user_context *user,
                                             int64_t replica,
                                             ls_device_name *out_host,
                                             int64_t *out_ordinal) {
  LS_REQUIRE_OUT(out_host);
  LS_REQUIRE_OUT(out_ordinal);
  LS_REQUIRE(user);
  return ls_estimator_device_for_replica(user->context, replica, out_host,
                                         out_ordinal);
}

ls_status ls_user_context_place_host(const ls_user_context *user, ls_opt host,
                                     ls_opt replica, ls_device_name *out_name) {
  LS_REQUIRE_OUT(out_name);
  LS_REQUIRE(user);
  return ls_estimator_place_host(user->context, host, replica, out_name);
}

// SPDX-License-Identifier: Apache-2.0
// Converts a TPU spec to a plain spec for CPUs: each run then includes the host
// calls.
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "estimator/spec/calls.h"
#include "lockstep/summary_ops.h"
#include "lockstep/tensor_tracer.h"
#include "train/hooks/hook.h"

// ---- Host call hook --------------------------------------------------------
// A hook that fetches the host call's results, and initializes and flushes the
// graph's summary writers.
typedef struct host_call {
  ls_nest fetches;
  // Ops that initialize and flush the writers; set when the hook begins.
  ls_nest initializers, flushers;
} host_call;

static void drop_writers(host_call *self) {
  ls_nest_release(self->initializers);
  ls_nest_release(self->flushers);
  self->initializers = self->flushers = ls_none();
}

static ls_status find_writers(void *state) {
  host_call *self = state;
  drop_writers(self);
  return ls_file_writers_of(ls_graph_current(), &self->initializers,
                            &self->flushers);
}

static ls_status plain_spec_run_all(const ls_run_context *context,
                                    ls_nest ops) {
  if (ls_nest_count(ops) == 0) return ls_ok();
  LS_OWN(ls_nest, nothing) = ls_none();
  return ls_session_run(context->session, ops, NULL, 0, &nothing);
}

static ls_status initialize_writers(void *state, ls_run_context *context) {
  return plain_spec_run_all(context, ((const host_call *)state)->initializers);
}

static ls_status flush_writers(void *state, ls_run_context *context) {
  return plain_spec_run_all(context, ((const host_call *)state)->flushers);
}

static ls_status add_to_run(void *state, ls_run_context *context,
                            ls_run_wish *wish) {
  (void)context;
  wish->fetches = ((host_call *)state)->fetches;
  return ls_ok();
}

static void plain_spec_destroy(void *state) {
  drop_writers(state);
  ls_nest_release(((host_call *)state)->fetches);
}

static const ls_hook_type host_call_type = {.name = "host call",
                                            .size = sizeof(host_call),
                                            .needs_session = true,
                                            .begin = find_writers,
                                            .after_create_session =
                                                initialize_writers,
                                            .before_run = add_to_run,
                                            .end = flush_writers,
                                            .destroy = plain_spec_destroy};

// ---- The spec --------------------------------------------------------------
// Appends a hook to a list.
static ls_status plain_spec_append(ls_arena *memory, ls_hook *const **hooks,
                                   size_t *count, ls_hook *hook) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_hook *, longer, *count + 1);
  for (size_t i = 0; i < *count; ++i)
    longer[i] = (*hooks)[i];
  longer[(*count)++] = hook;
  *hooks = longer;
  return ls_ok();
}

static ls_status add_hook(ls_estimator_spec_options *o, ls_arena *memory,
                          ls_hook *hook) {
  LS_RETURN_IF_ERROR(plain_spec_append(memory, &o->training_hooks,
                                       &o->num_training_hooks, hook));
  LS_RETURN_IF_ERROR(plain_spec_append(memory, &o->evaluation_hooks,
                                       &o->num_evaluation_hooks, hook));
  return plain_spec_append(memory, &o->prediction_hooks,
                           &o->num_prediction_hooks, hook);
}

// Most hooks: one for the host calls' results and one for the tracer.
enum { MOST_HOOKS = 2 };
typedef struct host_hooks {
  ls_hook *items[MOST_HOOKS];
  size_t count;
} host_hooks;

static void host_hooks_deinit(host_hooks *hooks) {
  for (size_t i = 0; i < hooks->count; ++i)
    ls_hook_release(hooks->items[i]);
}
LS_OWNED_STRUCT(host_hooks, host_hooks_deinit)

static ls_status call_host(const ls_host_function *function, const char *name,
                           host_hooks *hooks) {
  if (function->call == NULL) return ls_ok();
  host_call self = {.fetches = ls_none()};
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_host_function_call(function, name), &self.fetches));
  LS_RETURN_IF_ERROR(
      ls_hook_make(&host_call_type, &self, &hooks->items[hooks->count]));
  ++hooks->count;
  return ls_ok();
}

// Calls the host functions; the caller releases the hooks.
static ls_status call_functions(const ls_estimator_spec_options *from,
                                bool keeps_metrics, ls_nest *out_metrics,
                                host_hooks *hooks) {
  if (from->eval_metrics.call != NULL && !keeps_metrics) {
    *out_metrics = ls_host_function_call(&from->eval_metrics, "eval_metrics");
    LS_RETURN_IF_ERROR(ls_nest_status(*out_metrics));
    LS_RETURN_IF_ERROR(ls_made_metrics_check(*out_metrics));
  }
  LS_RETURN_IF_ERROR(call_host(&from->host_call, "host_call", hooks));
  // Traces the spec's tensors and all ops they need.
  if (!ls_tensor_tracer_is_on()) return ls_ok();
  const bool has_loss = !ls_tensor_is_failed(from->loss);
  LS_OWN(ls_nest, fetches) =
      LS_LIST(has_loss ? ls_leaf(from->loss) : ls_none(),
              from->train_op.id != 0 ? ls_nest_op(from->train_op) : ls_none(),
              ls_nest_retain(from->predictions));
  LS_RETURN_IF_ERROR(ls_nest_status(fetches));
  ls_host_function call = {.tensors = ls_none()};
  ls_status status = ls_trace_cpu(fetches, &call);
  if (ls_status_is_ok(status))
    status = call_host(&call, "tensor_tracer", hooks);
  ls_trace_cpu_end(&call);
  return status;
}

static ls_status make_plain(const ls_estimator_spec_options *from,
                            ls_nest metrics, const host_hooks *hooks,
                            ls_arena *memory, ls_estimator_spec **out_plain) {
  ls_estimator_spec_options o = *from;
  ls_scaffold scaffold = {0};
  o.eval_metrics = o.host_call = (ls_host_function){0};
  o.scaffold_fn = NULL;
  o.cache = NULL;
  o.cache_size = 0;
  o.eval_metric_ops = metrics;
  o.scaffold = &scaffold;
  for (size_t i = 0; i < hooks->count; ++i)
    LS_RETURN_IF_ERROR(add_hook(&o, memory, hooks->items[i]));
  if (from->scaffold_fn != NULL)
    LS_RETURN_IF_ERROR(from->scaffold_fn(from->scaffold_user, &scaffold));
  return ls_estimator_spec_create(&o, out_plain);
}

ls_status ls_spec_make_plain(ls_estimator_spec *spec, bool keeps_metrics,
                             ls_estimator_spec **out_plain) {
  const ls_estimator_spec_options *from = &spec->options;
  if (!spec->is_tpu) {
    *out_plain = ls_estimator_spec_retain(spec);
    return ls_ok();
  }
  LS_OWN(ls_nest, metrics) = ls_none();
  LS_OWN(host_hooks, hooks) = {.count = 0};
  LS_OWN(ls_arena, memory) = {.allocator = ls_current_allocator()};
  LS_RETURN_IF_ERROR(call_functions(from, keeps_metrics, &metrics, &hooks));
  LS_RETURN_IF_ERROR(make_plain(from, metrics, &hooks, &memory, out_plain));
  if (!keeps_metrics) return ls_ok();
  ls_host_function *kept = &(*out_plain)->options.eval_metrics;
  *kept = from->eval_metrics;
  kept->tensors = ls_nest_retain(kept->tensors);
  return ls_ok();
}

ls_status ls_estimator_spec_as_plain(ls_estimator_spec *spec,
                                     ls_estimator_spec **out_plain) {
  LS_REQUIRE_OUT(out_plain, spec);
  return ls_spec_make_plain(spec, false, out_plain);
}

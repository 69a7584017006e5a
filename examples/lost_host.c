// SPDX-License-Identifier: Apache-2.0
// A pod loses one of its hosts in the middle of a training. The estimator
// continues in a new session from its newest checkpoint, data included, and
// ends with the bytes of an undisturbed training.
#define _XOPEN_SOURCE 700
#include <ftw.h>
#include <stdio.h>
#include <string.h>

#include "lockstep/full.h"

enum { PIXELS = 49, CLASSES = 4, BATCH = 64, SAVE_STEPS = 8, STEPS = 40 };
static const char name[] = "virtual:2x2,hosts=2";

static ls_nest input(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 1024, .shape = LS_SHAPE(PIXELS), .num_classes = CLASSES});
  data = ls_dataset_repeat(data, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", BATCH)}));
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out_spec) {
  ls_bag bag = {0};
  ls_optimizer *optimizer = NULL;
  (void)user;
  ls_dense_layer *out = ls_dense_layer_in(&bag, .name = "out", .inputs = PIXELS,
                                          .units = CLASSES);
  ls_optimizer *adam = ls_adam_in(&bag, .learning_rate = 0.05);
  ls_status status = ls_bag_take_error(&bag);
  if (ls_status_is_ok(status))
    status = ls_cross_shard_create(&(ls_cross_shard_options){.optimizer = adam},
                                   &optimizer);
  if (ls_status_is_ok(status)) {
    const ls_tensor loss = ls_mean_softmax_cross_entropy(
        ls_dense_layer_apply(out, call->features.as.tensor),
        call->labels.as.tensor);
    status = ls_tpu_estimator_spec_create(
        &(ls_estimator_spec_options){.mode = call->mode,
                                     .loss = loss,
                                     .train_op = ls_train_op(optimizer, loss)},
        out_spec);
  }
  ls_optimizer_release(optimizer);
  ls_bag_empty(&bag);
  return status;
}

// ---- The accident ----------------------------------------------------------
// State of the hook of one training.
typedef struct watch {
  int64_t lose_at;            // Host 1 is lost in this step; 0: never.
  ls_tpu_resolver *resolver;  // Resolver of the pod.
  int sessions;
} watch;

static ls_status lose_host(void *user, ls_run_context *context) {
  watch *w = user;
  (void)context;
  if (++w->sessions > 1 || w->lose_at == 0) return ls_ok();
  ls_pod *pod = NULL;
  LS_RETURN_IF_ERROR(ls_tpu_pod(w->resolver, &pod));
  const ls_status status =
      ls_pod_inject(pod, &(ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED,
                                         .host = 1,
                                         .at_step = w->lose_at});
  ls_pod_release(pod);
  return status;
}

static ls_status train(ls_estimator *estimator, watch *w) {
  ls_hook *hook = NULL;
  ls_training_end end = {0};
  LS_RETURN_IF_ERROR(ls_hook_create(
      &(ls_hook_options){
          .name = "watch", .user = w, .after_create_session = lose_host},
      &hook));
  const ls_status status =
      ls_estimator_train(estimator,
                         &(ls_estimator_training){.input = {.call = input},
                                                  .max_steps = LS_SOME(STEPS),
                                                  .hooks = &hook,
                                                  .num_hooks = 1},
                         &end);
  printf("%lld steps in %d sessions, loss %.4f %s\n", (long long)end.step,
         w->sessions, end.loss, ls_status_message(status));
  ls_hook_release(hook);
  return status;
}

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *place) {
  (void)info, (void)kind, (void)place;
  return remove(path);
}

static ls_status run(const char *folder, watch *w, ls_estimator **estimator) {
  ls_run_config *config = NULL;
  // From an earlier run.
  (void)nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
  LS_RETURN_IF_ERROR(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = name}, &w->resolver));
  ls_status status = ls_tpu_run_config_create(
      &(ls_run_config_options){
          .resolver = w->resolver,
          .model_dir = folder,
          .save_checkpoints_steps = LS_SOME(SAVE_STEPS),
          .tpu = &(ls_tpu_config){.iterations_per_loop = "4"}},
      &config);
  if (ls_status_is_ok(status))
    status = ls_estimator_create(
        &(ls_estimator_options){.model_fn = {.call = model},
                                .config = config,
                                .train_batch_size = LS_SOME(BATCH)},
        estimator);
  ls_run_config_release(config);  // The estimator retains it.
  if (ls_status_is_ok(status)) status = train(*estimator, w);
  ls_tpu_resolver_release(w->resolver);
  return status;
}

// ---- The bytes -------------------------------------------------------------
static ls_status compare(ls_estimator *a, ls_estimator *b, size_t *out_equal,
                         size_t *out_count) {
  char **names = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_variable_names(a, &names, out_count));
  ls_status status = ls_ok();
  for (size_t i = 0; i < *out_count && ls_status_is_ok(status); ++i) {
    ls_array *x = NULL, *y = NULL;
    status = ls_estimator_variable_value(a, names[i], &x);
    if (ls_status_is_ok(status))
      status = ls_estimator_variable_value(b, names[i], &y);
    if (ls_status_is_ok(status) && ls_array_size(x) == ls_array_size(y) &&
        memcmp(ls_array_data(x), ls_array_data(y), ls_array_size(x)) == 0)
      ++*out_equal;
    ls_array_release(x);
    ls_array_release(y);
  }
  ls_estimator_free_names(names, *out_count);
  return status;
}

int main(void) {
  watch calm = {0}, bad = {.lose_at = 21};
  ls_estimator *undisturbed = NULL, *disturbed = NULL;
  size_t equal = 0, count = 0;
  ls_status status = run("lost_host.calm", &calm, &undisturbed);
  if (ls_status_is_ok(status)) status = run("lost_host.bad", &bad, &disturbed);
  if (ls_status_is_ok(status))
    status = compare(undisturbed, disturbed, &equal, &count);
  printf("%zu of %zu variables have the same bytes %s\n", equal, count,
         ls_status_message(status));
  const bool good = ls_status_is_ok(status) && calm.sessions == 1 &&
                    bad.sessions == 2 && count > 0 && equal == count;
  ls_status_free(status);
  ls_estimator_destroy(undisturbed);
  ls_estimator_destroy(disturbed);
  return good ? 0 : 1;
}

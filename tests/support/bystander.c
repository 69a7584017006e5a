// SPDX-License-Identifier: Apache-2.0
#include "support/bystander.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/infeed.h"
#include "lockstep/tpu_strategy.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/loop_case.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

enum { MOST_REPLICAS = 8, PAUSE_MICROS = 2000 };

// One at a time.
static struct {
  const char *forbidden;
  uint64_t begun;  // So far, for the draw.
  ls_runtime *runtime, *own;
  ls_pod *other;  // In the test's runtime.
  char name[80];  // Of the pod in its own.
  pthread_t thread;
  bool stops;      // Atomic.
  uint64_t trips;  // Of the thread. Atomic.
  ls_status status;
} it;

// ---- The draw --------------------------------------------------------------
// Of the program's arguments, which name the file of tests; not of its own
// path.
static uint64_t hash_of_command(void) {
  uint64_t hash = 0xcbf29ce484222325u;
  char bytes[512];
  const int file = open("/proc/self/cmdline", O_RDONLY);
  const ssize_t size = file >= 0 ? read(file, bytes, sizeof(bytes)) : 0;
  ssize_t i = 0;
  while (i < size && bytes[i] != '\0')
    ++i;
  for (; i < size; ++i)
    hash = (hash ^ (uint8_t)bytes[i]) * 0x100000001b3u;
  if (file >= 0) close(file);
  return hash;
}

static bool is_drawn(void) {
  const char *how = getenv("LS_TEST_BESIDE");
  if (it.forbidden != NULL || (how != NULL && strcmp(how, "never") == 0))
    return false;
  if (how != NULL && strcmp(how, "always") == 0) return true;
  uint64_t bits =
      hash_of_command() ^ (loop_random_seed() * 0x9e3779b97f4a7c15u +
                           ++it.begun * 0xd1342543de82ef95u);
  bits ^= bits >> 32;
  bits *= 0xd6e8feb86659fd93u;
  return (bits >> 33) % 3 == 0;
}

// ---- Its training ----------------------------------------------------------
static ls_nest step(ls_nest args, void *user) {
  (void)args;
  const ls_tensor x = ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR);
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, x);
  return ls_leaf(ls_variable_assign_add(user, sum));
}

static ls_status feed(const ls_strategy *strategy, double value) {
  ls_nest number = ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
  if (ls_nest_is_failed(number)) return ls_nest_status(number);
  ls_array_set_f64(ls_nest_as_array(number), 0, value);
  LS_OWN(ls_nest, tuple) = LS_LIST(number);
  ls_status status = ls_nest_status(tuple);
  const int32_t count = ls_strategy_num_replicas(strategy);
  for (int32_t r = 0; r < count && ls_status_is_ok(status); ++r) {
    ls_device_name device;
    status = ls_tpu_strategy_device(strategy, r, 0, &device);
    if (ls_status_is_ok(status)) status = ls_infeed_put(device.text, tuple);
  }
  return status;
}

static ls_status train(ls_strategy *strategy, ls_function *function) {
  LS_OWN(ls_nest, results) = ls_none();
  ls_status status = ls_ok();
  const int32_t count = ls_strategy_num_replicas(strategy);
  double total = 0;
  for (int k = 0; ls_status_is_ok(status); ++k) {
    if (__atomic_load_n(&it.stops, __ATOMIC_ACQUIRE)) break;
    const double value = k % 7;
    total += value * count;
    status = feed(strategy, value);
    if (ls_status_is_ok(status))
      status =
          ls_strategy_run(strategy, ls_traced(function), ls_none(), &results);
    const ls_nest first = ls_distributed_count(results) > 0
                              ? ls_distributed_component(results, 0)
                              : results;
    if (ls_status_is_ok(status) && ls_nest_number(first) != total)
      status = LS_STATUS(LS_INTERNAL, "the bystander has %g, not %g",
                         ls_nest_number(first), total);
    ls_pod_initialize(it.other);
    __atomic_fetch_add(&it.trips, 1, __ATOMIC_ACQ_REL);
    usleep(PAUSE_MICROS);
  }
  return status;
}

static ls_status stand_by(void) {
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_variable, variable) = NULL;
  LS_OWN(ls_function, function) = NULL;
  ls_status status = ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = it.name}, &resolver);
  if (ls_status_is_ok(status))
    status = ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                    &strategy);
  if (ls_status_is_ok(status)) {
    LS_STRATEGY_SCOPE(strategy);
    status = ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                       .shape = LS_SCALAR,
                                                       .name = "bystander"},
                                &variable);
  }
  if (ls_status_is_ok(status))
    status = ls_function_create(
        &(ls_function_options){.call = step, .user = variable}, &function);
  if (ls_status_is_ok(status)) status = train(strategy, function);
  return status;
}

static void *work(void *user) {
  (void)user;
  ls_runtime_make_current(it.own);
  it.status = stand_by();
  if (!ls_status_is_ok(it.status))  // The test is not to wait for it.
    __atomic_store_n(&it.trips, 1, __ATOMIC_RELEASE);
  ls_runtime_make_current(NULL);
  return NULL;
}

// ---- Beginning and ending --------------------------------------------------
void bystander_begin(const char *name) {
  static const ls_pod_shape shape = {.mesh = {2, 2, 1, 1}, .hosts = 2};
  if (it.runtime != NULL || !is_drawn()) return;
  it.runtime = ls_runtime_current();
  snprintf(it.name, sizeof(it.name), "%s", name);
  // Its faults are not its neighbour's.
  char *faults = strstr(it.name, ",fault=");
  if (faults != NULL) *faults = '\0';
  expect_ok(
      ls_pod_open(it.runtime, "bystander", "bystander", &shape, &it.other));
  ls_pod_initialize(it.other);
  expect_ok(ls_runtime_create(
      &(ls_runtime_options){.threads = 1, .input_threads = LS_SOME(0)},
      &it.own));
  it.stops = false;
  it.trips = 0;
  assert_int_equal(pthread_create(&it.thread, NULL, work, NULL), 0);
  while (__atomic_load_n(&it.trips, __ATOMIC_ACQUIRE) == 0)
    usleep(50);
}

void bystander_end(ls_runtime *runtime) {
  if (it.runtime == NULL || runtime != it.runtime) return;
  __atomic_store_n(&it.stops, true, __ATOMIC_RELEASE);
  assert_int_equal(pthread_join(it.thread, NULL), 0);
  expect_ok(it.status);
  ls_pod_shut_down(it.other);
  ls_object_release(it.other);
  expect_ok(ls_runtime_destroy(it.own));
  it.runtime = it.own = NULL;
  it.other = NULL;
}

void bystander_forbid(const char *reason) { it.forbidden = reason; }

// SPDX-License-Identifier: Apache-2.0
// Systems that threads connect to, initialize, ask for and shut down at once.
#include <pthread.h>

#include "lockstep/tpu_system.h"
#include "support/counted.h"
#include "support/expect.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

enum { ROUNDS = 300, THREADS = 3 };

typedef struct visitor {
  ls_runtime *runtime;
  ls_tpu_resolver *resolver;
  pthread_t thread;
} visitor;

static void *come_and_go(void *user) {
  const visitor *self = user;
  ls_runtime_make_current(self->runtime);
  for (int i = 0; i < ROUNDS; ++i) {
    expect_ok(ls_tpu_connect(self->resolver));
    expect_ok(ls_tpu_initialize(self->resolver, NULL));
    int32_t device = 0;
    (void)ls_pod_has_core(self->runtime, "/device:TPU:1", &device);
    expect_ok(ls_tpu_shutdown(self->resolver));
  }
  ls_runtime_make_current(NULL);
  return NULL;
}

TEST(threads_come_and_go) {
  LS_OWN(counted, c) = counted_begin(1);
  visitor visitors[THREADS];
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:1x1"}, &resolver));
  for (int i = 0; i < THREADS; ++i) {
    visitors[i] = (visitor){.runtime = c.runtime, .resolver = resolver};
    assert_int_equal(
        pthread_create(&visitors[i].thread, NULL, come_and_go, &visitors[i]),
        0);
  }
  for (int i = 0; i < THREADS; ++i)
    assert_int_equal(pthread_join(visitors[i].thread, NULL), 0);
}

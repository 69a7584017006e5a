// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/tpu_system.h"
#include "support/counted.h"
#include "support/expect.h"
#include "tpu/own.h"

static void expect_drawn(const ls_tpu_resolver_options *options,
                         const char *wanted) {
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_pod, pod) = NULL;
  char *text = NULL;
  expect_ok(ls_tpu_resolver_create(options, &resolver));
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_pod_print(pod, &text));
  assert_string_equal(text, wanted);
  ls_release(ls_runtime_allocator(ls_runtime_current()), text);
}

TEST(a_pod_is_drawn_by_layers_and_hosts) {
  LS_OWN(counted, c) = counted_begin(1);
  expect_drawn(&(ls_tpu_resolver_options){.name = "virtual:4x1x2,hosts=2",
                                          .job = "w",
                                          .queue_depth = 1},
               "TPU system 'virtual:4x1x2,hosts=2', not initialized\n"
               "mesh    4 x 1 x 2: 8 chips of 2 cores, 16 cores\n"
               "hosts   2 hosts of 8 cores: /job:w/task:0 to /task:1\n"
               "queues  1 tuple each\n"
               "\n"
               "Chips, as HOST:CORES.\n"
               "\n"
               "z 0\n"
               "y 0  0:0,1  0:2,3  |  1:0,1  1:2,3\n"
               "\n"
               "z 1\n"
               "y 0  0:4,5  0:6,7  |  1:4,5  1:6,7\n");
  expect_drawn(&(ls_tpu_resolver_options){.local = "2x2,cores=3"},
               "TPU system 'local', not initialized\n"
               "mesh    2 x 2 x 1: 4 chips of 3 cores, 12 cores\n"
               "hosts   1 host of 12 cores: /job:localhost/task:0\n"
               "queues  64 tuples each\n"
               "\n"
               "Chips, as HOST:CORES.\n"
               "y 0  0: 0-2   0: 3-5\n"
               "y 1  0: 6-8   0: 9-11\n");
  expect_drawn(
      &(ls_tpu_resolver_options){.name =
                                     "virtual:1x1,cores=1,fault=drop@host0"},
      "TPU system 'virtual:1x1,cores=1,fault=drop@host0', not initialized\n"
      "mesh    1 x 1 x 1: 1 chip of 1 core, 1 core\n"
      "hosts   1 host of 1 core: /job:worker/task:0\n"
      "queues  64 tuples each\n"
      "faults  fault=drop@host0\n"
      "\n"
      "Chips, as HOST:CORE.\n"
      "y 0  0:0\n");
}

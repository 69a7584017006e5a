// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/allocator.h"
#include "lockstep/array.h"
#include "lockstep/device_name.h"
#include "lockstep/nest.h"
#include "lockstep/runtime.h"
#include "lockstep/shape.h"
#include "lockstep/shape_rules.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_array_refuse_null) {
  expect_null_argument(out_array, ls_array_create, 0, (ls_shape){0}, NULL);
  expect_null_argument(out_array, ls_array_create_copy, 0, (ls_shape){0}, some,
                       NULL);
  expect_null_argument(out_array, ls_array_create_view, 0, (ls_shape){0}, some,
                       some, some, NULL);
}

TEST(calls_of_device_name_refuse_null) {
  expect_null_argument(name, ls_device_canonical, NULL, some, some);
  expect_null_argument(out_name, ls_device_canonical, some, some, NULL);
  expect_null_argument(name, ls_device_host, NULL, some);
  expect_null_argument(out_name, ls_device_host, some, NULL);
}

TEST(calls_of_runtime_refuse_null) {
  expect_null_argument(out_runtime, ls_runtime_create, some, NULL);
}

TEST(calls_of_shape_refuse_null) {
  expect_null_argument(text, ls_dtype_parse, NULL, some);
  expect_null_argument(out_dtype, ls_dtype_parse, some, NULL);
  expect_null_argument(out_shape, ls_shape_merge, (ls_shape){0}, (ls_shape){0},
                       NULL);
  expect_null_argument(out_shape, ls_shape_broadcast, (ls_shape){0},
                       (ls_shape){0}, NULL);
  expect_null_argument(text, ls_shape_parse, NULL, some, some);
  expect_null_argument(out_dtype, ls_shape_parse, some, NULL, some);
  expect_null_argument(out_shape, ls_shape_parse, some, some, NULL);
}

TEST(other_calls_of_base_refuse_null) {
  expect_null_argument(out_allocator, ls_counting_allocator_create, some, NULL);
  expect_null_argument(out_number, ls_nest_to_number, (ls_nest){0}, NULL);
}

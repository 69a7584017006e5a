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
  expect_null(ls_array_create(0, (ls_shape){0}, NULL),
              "ls_array_create: out_array is NULL");
  expect_null(ls_array_create_copy(0, (ls_shape){0}, some, NULL),
              "ls_array_create_copy: out_array is NULL");
  expect_null(ls_array_create_view(0, (ls_shape){0}, some, some, some, NULL),
              "ls_array_create_view: out_array is NULL");
}

TEST(calls_of_device_name_refuse_null) {
  expect_null(ls_device_canonical(NULL, some, some),
              "ls_device_canonical: name is NULL");
  expect_null(ls_device_canonical(some, some, NULL),
              "ls_device_canonical: out_name is NULL");
  expect_null(ls_device_host(NULL, some), "ls_device_host: name is NULL");
  expect_null(ls_device_host(some, NULL), "ls_device_host: out_name is NULL");
}

TEST(calls_of_runtime_refuse_null) {
  expect_null(ls_runtime_create(some, NULL),
              "ls_runtime_create: out_runtime is NULL");
}

TEST(calls_of_shape_refuse_null) {
  expect_null(ls_dtype_parse(NULL, some), "ls_dtype_parse: text is NULL");
  expect_null(ls_dtype_parse(some, NULL), "ls_dtype_parse: out_dtype is NULL");
  expect_null(ls_shape_merge((ls_shape){0}, (ls_shape){0}, NULL),
              "ls_shape_merge: out_shape is NULL");
  expect_null(ls_shape_broadcast((ls_shape){0}, (ls_shape){0}, NULL),
              "ls_shape_broadcast: out_shape is NULL");
  expect_null(ls_shape_parse(NULL, some, some), "ls_shape_parse: text is NULL");
  expect_null(ls_shape_parse(some, NULL, some),
              "ls_shape_parse: out_dtype is NULL");
  expect_null(ls_shape_parse(some, some, NULL),
              "ls_shape_parse: out_shape is NULL");
}

TEST(other_calls_of_base_refuse_null) {
  expect_null(ls_counting_allocator_create(some, NULL),
              "ls_counting_allocator_create: out_allocator is NULL");
  expect_null(ls_nest_to_number((ls_nest){0}, NULL),
              "ls_nest_to_number: out_number is NULL");
}

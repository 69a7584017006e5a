// SPDX-License-Identifier: Apache-2.0
#include "base/memory/own.h"

#include "support/fault.h"

// A type whose releases are counted.
typedef struct ls_counted {
  int value;
} ls_counted;
static int order[8];
static size_t num_released;

static void count_release(const ls_counted *counted) {
  order[num_released++] = counted->value;
}
LS_OWNED_POINTER(ls_counted, count_release)

typedef struct ls_pair {
  const ls_counted *first;
} ls_pair;
static void deinit_pair(const ls_pair *pair) {
  if (pair->first != NULL) count_release(pair->first);
}
LS_OWNED_STRUCT(ls_pair, deinit_pair)

static int forget_releases(void **state) {
  (void)state;
  num_released = 0;
  return 0;
}

static ls_counted one = {1}, two = {2}, three = {3};

static ls_status leave_at(int step) {
  LS_OWN(ls_counted, first) = &one;
  if (step == 0) return ls_ok();
  LS_OWN(ls_pair, second) = {.first = &two};
  LS_RETURN_IF_ERROR(step == 1 ? ls_internal("step 1") : ls_ok());
  LS_OWN(ls_counted, none) = NULL;
  if (step == 2) goto out;
  { LS_OWN(ls_counted, inner) = &three; }
out:
  return ls_ok();
}

TEST(every_way_out_releases_what_is_owned_by_then) {
  expect_ok(leave_at(0));
  assert_int_equal(num_released, 1);
  num_released = 0;
  expect_status(leave_at(1), LS_INTERNAL, "step 1");
  assert_int_equal(num_released, 2);
  num_released = 0;
  expect_ok(leave_at(2));
  assert_int_equal(num_released, 2);
}

TEST(the_last_owner_releases_first) {
  expect_ok(leave_at(3));
  assert_int_equal(num_released, 3);
  assert_int_equal(order[0], 3);
  assert_int_equal(order[1], 2);
  assert_int_equal(order[2], 1);
}

TEST(each_round_of_a_loop_releases) {
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_counted, round) = &one;
    if (round->value == i) continue;
  }
  assert_int_equal(num_released, 3);
}

static ls_counted *hand_over(void) {
  LS_OWN(ls_counted, kept) = &one;
  LS_OWN(ls_counted, dropped) = &two;
  return ls_give(&kept);
}

TEST(what_is_given_is_not_released) {
  assert_ptr_equal(hand_over(), &one);
  assert_int_equal(num_released, 1);
  assert_int_equal(order[0], 2);
  ls_pair pair = {.first = &three};
  const ls_pair given = ls_give(&pair);
  assert_null(pair.first);
  assert_ptr_equal(given.first, &three);
}

static ls_nest own_nest(bool give) {
  LS_OWN(ls_nest, list) = LS_LIST(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(4)));
  LS_OWN(ls_status, status) = ls_nest_status(list);
  if (give) return ls_give(&list);
  return ls_nest_i64((int64_t)ls_nest_count(list));
}

TEST(nests_and_statuses_are_owned_by_value) {
  assert_int_equal(own_nest(false).as.i64, 1);
  LS_OWN(ls_nest, given) = own_nest(true);
  assert_int_equal(given.kind, LS_KIND_LIST);
}

static ls_status own_memory(ls_allocator *allocator, int64_t **out_items) {
  LS_OWN_ARRAY_OR_RETURN(allocator, int64_t, items, 4);
  LS_OWN_MEMORY(allocator, char, text) = ls_copy_text(allocator, "name", 4);
  LS_RETURN_IF_NO_MEMORY(text);
  size_t capacity = 4;
  LS_RETURN_IF_NO_MEMORY(
      ls_grow(allocator, &items, &capacity, 100, sizeof(*items)));
  items[99] = text[0];
  *out_items = ls_give(&items);
  return ls_ok();
}

static ls_status own_fields(ls_allocator *allocator) {
  struct {
    int64_t *items;
    char *text;
  } both = {0};
  LS_OWN_FIELD(allocator, both.items);
  LS_OWN_FIELD(allocator, both.text);
  both.items = ls_new_array(allocator, int64_t, 4);
  LS_RETURN_IF_NO_MEMORY(both.items);
  both.text = ls_copy_text(allocator, "name", 4);
  LS_RETURN_IF_NO_MEMORY(both.text);
  return ls_ok();
}

MEMORY_TEST(own_and_give) {
  ls_allocator *allocator = ls_runtime_allocator(ls_runtime_current());
  LS_RETURN_IF_ERROR(own_fields(allocator));
  LS_NEW_OR_RETURN(allocator, ls_pair, pair);
  int64_t *items = NULL;
  const ls_status status = own_memory(allocator, &items);
  if (ls_status_is_ok(status)) assert_int_equal(items[99], 'n');
  ls_release(allocator, items);
  ls_release(allocator, pair);
  return status;
}

TEST_FILE(.before_each = forget_releases)

// SPDX-License-Identifier: Apache-2.0
#include "lockstep/object.h"

#include "base/threads.h"
#include "support/expect.h"

typedef struct thing {
  ls_object object;
  int destroyed;
} thing;

static void destroy_thing(ls_object *object) { ++((thing *)object)->destroyed; }

static const ls_object_type thing_type = {"thing", destroy_thing, NULL};

static void the_last_reference_destroys(void **state) {
  (void)state;
  thing it = {0};
  ls_object_init(&it.object, &thing_type);
  assert_true(ls_object_is_unique(&it));
  assert_ptr_equal(ls_object_retain(&it), &it);
  assert_false(ls_object_is_unique(&it));
  ls_object_release(&it);
  assert_int_equal(it.destroyed, 0);
  ls_object_release(&it);
  assert_int_equal(it.destroyed, 1);
}

static void null_is_fine(void **state) {
  (void)state;
  assert_null(ls_object_retain(NULL));
  ls_object_release(NULL);
  assert_false(ls_object_is_unique(NULL));
}

static void use(void *user) {
  for (int i = 0; i < 20000; ++i) {
    ls_object_retain(user);
    ls_object_release(user);
  }
  ls_object_release(user);
}

static void threads_may_share_an_object(void **state) {
  (void)state;
  thing it = {0};
  ls_object_init(&it.object, &thing_type);
  ls_thread threads[3] = {0};
  for (int i = 0; i < 3; ++i) {
    ls_object_retain(&it);
    expect_ok(ls_thread_start(&threads[i], "user", use, &it));
  }
  for (int i = 0; i < 3; ++i)
    ls_thread_join(&threads[i]);
  assert_true(ls_object_is_unique(&it));
  assert_int_equal(it.destroyed, 0);
  ls_object_release(&it);
  assert_int_equal(it.destroyed, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_last_reference_destroys),
      cmocka_unit_test(null_is_fine),
      cmocka_unit_test(threads_may_share_an_object),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

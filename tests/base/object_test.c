// SPDX-License-Identifier: Apache-2.0
#include "lockstep/object.h"

#include "base/threads/worker.h"
#include "support/expect.h"

typedef struct thing {
  ls_object object;
  int destroyed;
} thing;

static void destroy_thing(ls_object *object) { ++((thing *)object)->destroyed; }

static const ls_object_type thing_type = {.name = "thing",
                                          .destroy = destroy_thing};

TEST(the_last_reference_destroys) {
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

TEST(null_is_fine) {
  assert_null(ls_object_retain(NULL));
  ls_object_release(NULL);
  assert_false(ls_object_is_unique(NULL));
}

// Objects are alike when both have been destroyed as often.
static bool same_things(const ls_object *a, const ls_object *b) {
  return ((const thing *)a)->destroyed == ((const thing *)b)->destroyed;
}

static const ls_object_type like_type = {
    .name = "like", .destroy = destroy_thing, .equal = same_things};

TEST(objects_are_equal_as_their_type_says) {
  thing a = {0}, b = {0}, like = {0}, alike = {0}, unlike = {.destroyed = 1};
  ls_object_init(&a.object, &thing_type);
  ls_object_init(&b.object, &thing_type);
  ls_object_init(&like.object, &like_type);
  ls_object_init(&alike.object, &like_type);
  ls_object_init(&unlike.object, &like_type);
  assert_true(ls_object_equal(&a.object, &a.object));
  assert_false(ls_object_equal(&a.object, &b.object));
  assert_false(ls_object_equal(&a.object, &like.object));
  assert_true(ls_object_equal(&like.object, &alike.object));
  assert_false(ls_object_equal(&like.object, &unlike.object));
  assert_false(ls_object_equal(&like.object, NULL));
  assert_true(ls_object_equal(NULL, NULL));
}

static void use(void *user) {
  for (int i = 0; i < 20000; ++i) {
    ls_object_retain(user);
    ls_object_release(user);
  }
  ls_object_release(user);
}

TEST(threads_may_share_an_object) {
  thing it = {0};
  ls_object_init(&it.object, &thing_type);
  ls_worker threads[3] = {0};
  for (int i = 0; i < 3; ++i) {
    ls_object_retain(&it);
    expect_ok(ls_worker_start(&threads[i], "user", NULL, use, &it));
  }
  for (int i = 0; i < 3; ++i)
    ls_worker_join(&threads[i]);
  assert_true(ls_object_is_unique(&it));
  assert_int_equal(it.destroyed, 0);
  ls_object_release(&it);
  assert_int_equal(it.destroyed, 1);
}

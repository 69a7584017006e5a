// SPDX-License-Identifier: Apache-2.0
#include "base/threads/workers.h"

#include "base/threads/worker.h"
#include "support/expect.h"

// ---- Binding ---------------------------------------------------------------
static void bind_to_each(void *user) {
  int *bound = user;
  ls_cores *cores = NULL;
  ls_status status = ls_cores_create(ls_allocator_system(), &cores);
  if (ls_status_is_ok(status) && !ls_cores_bind(cores, -1) &&
      !ls_cores_bind(cores, ls_cores_count(cores))) {
    *bound = 0;
    for (int i = 0; i < ls_cores_count(cores); ++i) {
      *bound += ls_cores_bind(cores, i) ? 1 : 0;
    }
    // Bound to the last core, only that one can be used.
    ls_cores *left = NULL;
    if (*bound > 0 && ls_cores_create(ls_allocator_system(), &left) == NULL) {
      *bound = ls_cores_count(left);
      // Who looked before sees that when looking again.
      if (!ls_cores_look_again(cores) || ls_cores_count(cores) != *bound)
        *bound = -1;
    }
    ls_cores_destroy(left);
  }
  ls_status_free(status);
  ls_cores_destroy(cores);
}

TEST(a_bound_thread_has_one_core) {
  ls_worker thread = {0};
  int bound = -1;
  expect_ok(ls_worker_start(&thread, "bound", NULL, bind_to_each, &bound));
  ls_worker_join(&thread);
  // 0 where binding is not allowed.
  assert_in_range(bound, 0, 1);
}

// ---- Lists of processors ---------------------------------------------------
static void expect_list(const char *list, const int *want, int count) {
  int got[8];
  assert_int_equal(ls_parse_processors(list, got, 8), count);
  if (count > 0) assert_memory_equal(got, want, (size_t)count * sizeof(int));
}

TEST(lists_are_numbers_and_ranges) {
  expect_list("5\n", (int[]){5}, 1);
  expect_list("0-3\n", (int[]){0, 1, 2, 3}, 4);
  expect_list("1,65\n", (int[]){1, 65}, 2);
  expect_list("0-1,64-65,9", (int[]){0, 1, 64, 65, 9}, 5);
}

TEST(of_a_long_list_the_first_are_taken) {
  expect_list("0-99999", (int[]){0, 1, 2, 3, 4, 5, 6, 7}, 8);
  expect_list("7,9,8000-99999999999999999999",
              (int[]){7, 9, 8000, 8001, 8002, 8003, 8004, 8005}, 8);
}

TEST(a_list_ends_where_it_is_none) {
  static const char *const nothing[] = {"",
                                        "\n",
                                        "x",
                                        ",",
                                        ",1",
                                        "-",
                                        "-1",
                                        "3-1",
                                        "4-",
                                        "5-x",
                                        "99999999999999999999",
                                        "9000-9001"};
  expect_list("0x", (int[]){0}, 1);
  expect_list("1,x,2", (int[]){1}, 1);
  expect_list("1,,2", (int[]){1}, 1);
  expect_list("1-2-3", (int[]){1, 2}, 2);
  for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); ++i)
    expect_list(nothing[i], NULL, 0);
}

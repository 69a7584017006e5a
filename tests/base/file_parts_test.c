// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"
#include "support/fault.h"
#include "support/memory_files.h"
#include "support/place.h"

static char folder[] = "parts-XXXXXX";

static int make_folder(void **state) {
  (void)state;
  return mkdtemp(folder) == NULL ? 1 : 0;
}

static int remove_folder(void **state) {
  (void)state;
  return rmdir(folder);  // Each test removes what it made.
}

static const char *path_of(const char *name) {
  static char paths[4][300];
  static int next;
  next = (next + 1) % 4;
  snprintf(paths[next], sizeof(paths[next]), "%s/%s", folder, name);
  return paths[next];
}

static const ls_file_system *files(void) { return ls_file_system_system(); }

static void expect_content(const char *path, const char *want) {
  char *data = NULL;
  size_t size = 0;
  expect_ok(
      files()->read(NULL, path, SIZE_MAX, ls_allocator_system(), &data, &size));
  assert_int_equal(size, strlen(want));
  assert_memory_equal(data, want, size);
  ls_release(ls_allocator_system(), data);
}

static void expect_no_file(const char *path) {
  bool exists = true;
  expect_ok(files()->exists(NULL, path, &exists));
  assert_false(exists);
}

// ---- Reading ---------------------------------------------------------------
TEST(a_file_is_read_in_ranges) {
  expect_ok(files()->write(NULL, path_of("a"), "0123456789", 10));
  ls_file *file = NULL;
  expect_ok(ls_file_open(ls_runtime_current(), path_of("a"), &file));
  assert_int_equal(file->size, 10);
  struct stat info;
  assert_int_equal(stat(path_of("a"), &info), 0);
  assert_true(file->modified ==
              info.st_mtim.tv_sec * INT64_C(1000000000) + info.st_mtim.tv_nsec);
  char data[16] = "";
  expect_ok(ls_file_read(file, 3, data, 4));
  assert_memory_equal(data, "3456", 4);
  expect_ok(ls_file_read(file, 10, data, 0));
  expect_status(ls_file_read(file, 8, data, 4), LS_DATA_LOSS,
                "/a' ends at byte 10, where 4 bytes from byte 8 on");
  expect_status(ls_file_read(file, 100, data, 4), LS_DATA_LOSS,
                "from byte 100");
  expect_status(ls_file_read(file, -1, data, 4), LS_INVALID_ARGUMENT, "/a'");
  ls_file_close(file);
  expect_ok(files()->remove(NULL, path_of("a")));
}

TEST(a_file_that_is_cut_off_while_it_is_read_is_data_loss) {
  char block[8192];
  memset(block, 'x', sizeof(block));
  expect_ok(files()->write(NULL, path_of("cut"), block, sizeof(block)));
  ls_file *file = NULL;
  expect_ok(ls_file_open(ls_runtime_current(), path_of("cut"), &file));
  expect_ok(ls_file_read(file, 4096, block, 4096));
  assert_int_equal(truncate(path_of("cut"), 5000), 0);
  expect_status(ls_file_read(file, 4096, block, 4096), LS_DATA_LOSS,
                "/cut' ends at byte 5000, where 4096 bytes from byte 4096 on "
                "were to be read; it had 8192 bytes when it was opened");
  ls_file_close(file);
  expect_ok(files()->remove(NULL, path_of("cut")));
}

TEST(bytes_in_memory_are_a_file) {
  ls_file *file = NULL;
  expect_ok(
      ls_file_open_bytes(ls_allocator_system(), "bytes", "hello", 5, &file));
  char data[8];
  expect_ok(ls_file_read(file, 1, data, 4));
  assert_memory_equal(data, "ello", 4);
  expect_status(ls_file_read(file, 2, data, 4), LS_DATA_LOSS,
                "'bytes' ends at byte 5");
  ls_file_close(file);
  expect_ok(ls_file_open_bytes(ls_allocator_system(), "none", NULL, 0, &file));
  expect_ok(ls_file_read(file, 0, data, 0));
  ls_file_close(file);
}

TEST(only_regular_files_are_opened) {
  ls_file *file = NULL;
  ls_runtime *runtime = ls_runtime_current();
  expect_status(ls_file_open(runtime, path_of("none"), &file), LS_NOT_FOUND,
                "/none'");
  expect_status(ls_file_open(runtime, folder, &file), LS_UNAVAILABLE,
                "Is a directory");
  assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
  expect_status(ls_file_open(runtime, path_of("fifo"), &file),
                LS_INVALID_ARGUMENT, "it is a fifo");
  assert_null(file);
  expect_ok(files()->remove(NULL, path_of("fifo")));
}

TEST(a_file_system_without_parts_is_named) {
  const ls_file_system old = {0};
  ls_runtime *runtime = NULL;
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.file_system = &old}, &runtime));
  ls_file *file = NULL;
  expect_status(ls_file_open(runtime, "some/file", &file), LS_UNIMPLEMENTED,
                "does not read 'some/file' in parts");
  const char **paths = NULL;
  size_t count = 0;
  expect_status(
      ls_files_match(runtime, "some/*", ls_allocator_system(), &paths, &count),
      LS_UNIMPLEMENTED, "'some/*'");
  expect_ok(ls_runtime_destroy(runtime));
}

// ---- Many files ------------------------------------------------------------
enum { MANY = 20, OPEN = 3, READERS = 4 };
static ls_file *many[MANY];

static void *read_many(void *user) {
  unsigned state = *(const unsigned *)user;
  for (int i = 0; i < 2000; ++i) {
    state = state * 1664525 + 1013904223;
    const unsigned which = (state >> 16) % MANY;
    char data[2] = "";
    ls_status status = ls_file_read(many[which], 0, data, 1);
    if (!ls_status_is_ok(status) || data[0] != (char)('a' + which)) abort();
  }
  return NULL;
}

TEST(few_of_many_files_are_open_at_once) {
  LS_OWN(ls_file_pool, pool) = NULL;
  expect_ok(ls_file_pool_create(ls_allocator_system(), OPEN, &pool));
  for (int i = 0; i < MANY; ++i) {
    const char name[] = {(char)('a' + i), '\0'};
    expect_ok(files()->write(NULL, path_of(name), name, 1));
    expect_ok(
        ls_file_open_in(pool, ls_runtime_current(), path_of(name), &many[i]));
    assert_true(ls_file_pool_open(pool) <= OPEN);
  }
  pthread_t threads[READERS];
  unsigned seeds[READERS];
  for (unsigned i = 0; i < READERS; ++i) {
    seeds[i] = i;
    assert_int_equal(pthread_create(&threads[i], NULL, read_many, &seeds[i]),
                     0);
  }
  for (int i = 0; i < READERS; ++i)
    pthread_join(threads[i], NULL);
  assert_true(ls_file_pool_open(pool) <= READERS);
  // All read at once are open, however many.
  for (int i = 0; i < MANY; ++i)
    expect_ok(ls_file_pool_hold(many[i]));
  assert_int_equal(ls_file_pool_open(pool), MANY);
  for (int i = 0; i < MANY; ++i)
    ls_file_pool_drop(many[i]);
  // One that is opened again must be what it was.
  char data[2];
  expect_ok(ls_file_read(many[0], 0, data, 1));
  for (int i = 1; i < MANY; ++i)
    expect_ok(ls_file_read(many[i], 0, data, 1));
  ls_file_close(many[1]);
  expect_ok(
      ls_file_open_in(pool, ls_runtime_current(), path_of("b"), &many[1]));
  assert_int_equal(ls_file_pool_open(pool), OPEN);
  expect_ok(files()->write(NULL, path_of("a"), "other", 5));
  expect_status(ls_file_read(many[0], 0, data, 1), LS_DATA_LOSS,
                "/a' has changed since it was opened first: it had 1 bytes "
                "then, and has 5 now");
  expect_ok(files()->remove(NULL, path_of("a")));
  expect_status(ls_file_read(many[0], 0, data, 1), LS_NOT_FOUND, "/a'");
  for (int i = 0; i < MANY; ++i) {
    const char name[] = {(char)('a' + i), '\0'};
    ls_file_close(many[i]);
    if (i > 0) expect_ok(files()->remove(NULL, path_of(name)));
  }
  assert_int_equal(ls_file_pool_open(pool), 0);
}

// ---- Folders ---------------------------------------------------------------
TEST(a_folder_lists_its_files_sorted) {
  expect_ok(files()->write(NULL, path_of("b"), "", 0));
  expect_ok(files()->write(NULL, path_of("B"), "", 0));
  expect_ok(files()->write(NULL, path_of(".a"), "", 0));
  expect_ok(files()->make_directories(NULL, path_of("c")));
  assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
  assert_int_equal(symlink("c", path_of("link")), 0);
  assert_int_equal(symlink("nowhere", path_of("lost")), 0);
  ls_file_entry *entries = NULL;
  size_t count = 0;
  expect_ok(
      files()->list(NULL, folder, ls_allocator_system(), &entries, &count));
  static const char *const names[] = {".a", "B", "b", "c", "link"};
  assert_int_equal(count, LS_COUNT_OF(names));
  for (size_t i = 0; i < count; ++i) {
    assert_string_equal(entries[i].name, names[i]);
    assert_int_equal(entries[i].is_folder, i >= 3);
  }
  ls_release(ls_allocator_system(), entries);
  static const char *const all[] = {"b", "B", ".a", "fifo", "link", "lost"};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i)
    assert_int_equal(unlink(path_of(all[i])), 0);
  expect_ok(files()->list(NULL, path_of("c"), ls_allocator_system(), &entries,
                          &count));
  assert_int_equal(count, 0);
  assert_non_null(entries);
  ls_release(ls_allocator_system(), entries);
  expect_ok(files()->remove(NULL, path_of("c")));
  expect_status(files()->list(NULL, path_of("c"), ls_allocator_system(),
                              &entries, &count),
                LS_NOT_FOUND, "cannot list");
}

static ls_code removing;

static ls_status refuse_removal(void *user, const char *path) {
  (void)user;
  return LS_STATUS(removing, "cannot remove '%s'", path);
}

TEST(a_link_that_stays_keeps_what_it_leads_to) {
  const char *target = path_of("c"), *name = path_of("c/a");
  ls_file_system stuck = *files();
  stuck.remove = refuse_removal;
  expect_ok(files()->make_directories(NULL, target));
  expect_ok(files()->write(NULL, name, "", 0));
  assert_int_equal(symlink("c", path_of("link")), 0);
  const ls_file_entry link = {.name = "link", .is_folder = true};
  const ls_file_entry whole = {.name = "c", .is_folder = true};
  removing = LS_UNAVAILABLE;
  expect_status(ls_folder_remove_entry(&stuck, folder, &link), LS_UNAVAILABLE,
                "/link'");
  expect_status(ls_folder_remove_entry(&stuck, folder, &whole), LS_UNAVAILABLE,
                "/c/a'");
  removing = LS_PERMISSION_DENIED;
  expect_status(ls_folder_remove_entry(&stuck, folder, &whole),
                LS_PERMISSION_DENIED, "/c'");
  expect_ok(ls_folder_remove_entry(files(), folder, &link));
  expect_content(name, "");
  expect_ok(ls_folder_remove_entry(files(), folder, &whole));
  expect_no_file(target);
}

TEST(a_file_is_moved) {
  expect_ok(files()->write(NULL, path_of("from"), "new", 3));
  expect_ok(files()->write(NULL, path_of("to"), "old", 3));
  expect_ok(files()->rename(NULL, path_of("from"), path_of("to")));
  expect_content(path_of("to"), "new");
  expect_no_file(path_of("from"));
  expect_status(files()->rename(NULL, path_of("from"), path_of("to")),
                LS_NOT_FOUND, "cannot move");
  expect_status(files()->rename(NULL, path_of("to"), path_of("no/such/folder")),
                LS_NOT_FOUND, "it was to become");
  assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
  expect_status(files()->rename(NULL, path_of("to"), path_of("fifo")),
                LS_INVALID_ARGUMENT, "cannot replace");
  expect_status(files()->rename(NULL, path_of("fifo"), path_of("to")),
                LS_INVALID_ARGUMENT, "cannot move");
  assert_int_equal(unlink(path_of("fifo")), 0);
  expect_ok(files()->remove(NULL, path_of("to")));
}

// ---- Writing ---------------------------------------------------------------
TEST(a_file_is_written_in_parts_and_seen_when_it_is_whole) {
  const char *path = path_of("out");
  expect_ok(files()->write(NULL, path, "old", 3));
  assert_int_equal(chmod(path, 0640), 0);
  void *file = NULL, *other = NULL;
  expect_ok(files()->create(NULL, path, false, &file));
  expect_ok(files()->write_at(NULL, file, 4, "body", 4));
  expect_content(path, "old");
  expect_status(files()->create(NULL, path, false, &other),
                LS_FAILED_PRECONDITION, "is already being written");
  expect_ok(files()->create(NULL, path, true, &other));
  expect_ok(files()->write_at(NULL, other, 0, "head", 4));
  expect_ok(files()->finish(NULL, other, true));
  expect_content(path, "old");
  expect_ok(files()->sync(NULL, file));
  expect_ok(files()->finish(NULL, file, true));
  expect_content(path, "headbody");
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_int_equal(info.st_mode & 07777, 0640);
  expect_ok(files()->remove(NULL, path));
}

// Large pieces at whole pages go to the disk another way than others.
TEST(large_pieces_and_small_ones_make_one_file) {
  enum { PAGE = 4096, SIZE = (3 << 20) + 5 };
  HEAP(char, data) = aligned_alloc(PAGE, SIZE / PAGE * PAGE + PAGE);
  char *got = NULL;
  assert_non_null(data);
  for (size_t i = 0; i < SIZE; ++i)
    data[i] = (char)(i * 2654435761u >> 11);
  const char *path = path_of("pieces");
  void *file = NULL, *other = NULL;
  expect_ok(files()->create(NULL, path, false, &file));
  expect_ok(files()->create(NULL, path, true, &other));
  expect_ok(files()->write_at(NULL, file, 0, data, SIZE));
  expect_ok(files()->write_at(NULL, other, SIZE - 9, data, 2 << 20));
  // Into the middle of what has gone past the cache, and over its border.
  expect_ok(files()->write_at(NULL, file, 12345, "small", 5));
  expect_ok(files()->write_at(NULL, other, 3 * PAGE, data, 1 << 20));
  expect_ok(files()->write_at(NULL, file, PAGE + 1, data + 1, 1 << 20));
  expect_ok(files()->finish(NULL, other, true));
  expect_ok(files()->finish(NULL, file, true));
  size_t size = 0;
  expect_ok(
      files()->read(NULL, path, SIZE_MAX, ls_allocator_system(), &got, &size));
  assert_int_equal(size, SIZE - 9 + (2 << 20));
  HEAP(char, want) = calloc(1, size);
  assert_non_null(want);
  memcpy(want, data, SIZE);
  memcpy(want + SIZE - 9, data, 2 << 20);
  memcpy(want + 12345, "small", 5);
  memcpy(want + 3 * PAGE, data, 1 << 20);
  memcpy(want + PAGE + 1, data + 1, 1 << 20);
  assert_memory_equal(got, want, size);
  ls_release(ls_allocator_system(), got);
}

TEST(what_is_given_up_leaves_nothing) {
  void *file = NULL;
  expect_ok(files()->create(NULL, path_of("out"), false, &file));
  expect_ok(files()->write_at(NULL, file, 0, "some", 4));
  expect_ok(files()->finish(NULL, file, false));
  expect_no_file(path_of("out"));
  expect_no_file(path_of("out.tmp"));
  expect_ok(files()->finish(NULL, NULL, true));
  expect_status(files()->create(NULL, path_of("out"), true, &file),
                LS_NOT_FOUND, "cannot join in writing");
  assert_null(file);
  expect_status(files()->create(NULL, path_of("no/such"), false, &file),
                LS_NOT_FOUND, "cannot write");
  assert_null(file);
}

TEST(what_a_killed_writer_left_is_written_over) {
  expect_ok(files()->write(NULL, path_of("out.tmp"), "a longer rest", 13));
  void *file = NULL;
  expect_ok(files()->create(NULL, path_of("out"), false, &file));
  expect_ok(files()->write_at(NULL, file, 0, "new", 3));
  expect_ok(files()->finish(NULL, file, true));
  expect_content(path_of("out"), "new");
  expect_no_file(path_of("out.tmp"));
  expect_ok(files()->remove(NULL, path_of("out")));
}

// ---- Patterns --------------------------------------------------------------
TEST(patterns_fit_names) {
  static const struct {
    const char *pattern, *name;
    bool fits;
  } rows[] = {
      {"a", "a", true},
      {"a", "b", false},
      {"", "", true},
      {"", "a", false},
      {"*", "", true},
      {"*", "any", true},
      {"*", ".hidden", false},
      {".*", ".hidden", true},
      {"?", ".", false},
      {"a*", "a.b", true},
      {"*.rec", "x.rec", true},
      {"*.rec", "x.rec2", false},
      {"a*b*c", "a1b2c", true},
      {"a*b*c", "a1c2b", false},
      {"a**c", "abc", true},
      {"a?c", "ac", false},
      {"[ab]", "b", true},
      {"[ab]", "c", false},
      {"[!ab]", "c", true},
      {"[!ab]", "a", false},
      {"[a-c]x", "bx", true},
      {"[a-c]x", "dx", false},
      {"[]a]", "]", true},
      {"[a-]", "-", true},
      {"[*]", "*", true},
      {"[*]", "x", false},
      {"[a", "[a", true},
      {"[", "[", true},
      {"[!", "[!", true},
      {"x[", "x", false},
      {"*[0-9]", "part7", true},
      {"*[0-9]", "part", false},
      {"*aaaaaaaaaab", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
      {"*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    if (ls_pattern_fits(rows[i].pattern, rows[i].name) != rows[i].fits)
      fail_msg("'%s' and '%s'", rows[i].pattern, rows[i].name);
  }
}

TEST(a_pattern_names_the_files_that_fit) {
  static const char *const names[] = {"train-1.rec", "train-0.rec", "test.rec"};
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    expect_ok(files()->write(NULL, path_of(names[i]), "", 0));
  expect_ok(files()->make_directories(NULL, path_of("train-2.rec")));
  ls_allocator *system = ls_allocator_system();
  ls_runtime *runtime = ls_runtime_current();
  const char **paths = NULL;
  size_t count = 0;
  expect_ok(
      ls_files_match(runtime, path_of("train-*.rec"), system, &paths, &count));
  assert_int_equal(count, 2);
  assert_string_equal(paths[0], path_of("train-0.rec"));
  assert_string_equal(paths[1], path_of("train-1.rec"));
  ls_release(system, paths);
  expect_status(ls_files_match(runtime, path_of("x*"), system, &paths, &count),
                LS_NOT_FOUND, "fits 'x*'");
  expect_status(ls_files_match(runtime, "a*/b", system, &paths, &count),
                LS_INVALID_ARGUMENT, "'a*/b' has a pattern in a folder's name");
  assert_null(paths);
  // Names that look like patterns.
  expect_ok(files()->make_directories(NULL, path_of("[1]")));
  expect_ok(files()->write(NULL, path_of("[1]/b[2].rec"), "", 0));
  for (size_t i = 0; i < 2; ++i) {
    const char *const pattern = path_of(i == 0 ? "[1]/*.rec" : "[1]/b[2].rec");
    expect_ok(ls_files_match(runtime, pattern, system, &paths, &count));
    assert_int_equal(count, 1);
    assert_string_equal(paths[0], path_of("[1]/b[2].rec"));
    ls_release(system, paths);
  }
  expect_ok(ls_files_match(runtime, "plain/name", system, &paths, &count));
  assert_int_equal(count, 1);
  assert_string_equal(paths[0], "plain/name");
  ls_release(system, paths);
  // Without a folder: the one that the program is in.
  char here[256];
  assert_non_null(getcwd(here, sizeof(here)));
  assert_int_equal(chdir(folder), 0);
  expect_ok(ls_files_match(runtime, "te?t.rec", system, &paths, &count));
  assert_int_equal(count, 1);
  assert_string_equal(paths[0], "test.rec");
  ls_release(system, paths);
  assert_int_equal(chdir(here), 0);
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    expect_ok(files()->remove(NULL, path_of(names[i])));
  expect_ok(files()->remove(NULL, path_of("train-2.rec")));
}

// ---- Without memory, and with calls that fail ------------------------------
static ls_status match_and_read(void *user) {
  (void)user;
  ls_allocator *allocator = ls_current_allocator();
  const char **paths = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_files_match(ls_runtime_current(), path_of("*.txt"),
                                    allocator, &paths, &count));
  assert_int_equal(count, 1);
  ls_file *file = NULL;
  ls_status status = ls_file_open(ls_runtime_current(), paths[0], &file);
  char data[4];
  if (ls_status_is_ok(status)) status = ls_file_read(file, 0, data, 4);
  ls_file_close(file);
  ls_release(allocator, paths);
  return status;
}

TEST(failures_of_memory_are_survived) {
  expect_ok(files()->write(NULL, path_of("a.txt"), "text", 4));
  REFUSE_EACH(match_and_read, NULL);
  expect_ok(files()->remove(NULL, path_of("a.txt")));
}

// Writes a file in parts, lists it, moves it, and reads it.
static ls_status use_all(const ls_file_system *some) {
  void *file = NULL;
  LS_RETURN_IF_ERROR(some->create(some->user, "run/a", false, &file));
  ls_status status = some->write_at(some->user, file, 0, "1234", 4);
  if (ls_status_is_ok(status)) status = some->sync(some->user, file);
  status = ls_status_join(
      status, some->finish(some->user, file, ls_status_is_ok(status)));
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(some->rename(some->user, "run/a", "run/b"));
  const char **paths = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_files_match(ls_runtime_current(), "run/*",
                                    ls_allocator_system(), &paths, &count));
  assert_int_equal(count, 1);
  ls_file *opened = NULL;
  status = ls_file_open(ls_runtime_current(), paths[0], &opened);
  char data[4] = "";
  if (ls_status_is_ok(status)) status = ls_file_read(opened, 0, data, 4);
  if (ls_status_is_ok(status)) assert_memory_equal(data, "1234", 4);
  ls_file_close(opened);
  ls_release(ls_allocator_system(), paths);
  return status;
}

TEST(every_call_that_fails_is_told) {
  memory_files memory = {0};
  const ls_file_system system = memory_files_system(&memory);
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.file_system = &system});
  int nth = 1;
  for (bool failed = true; failed; ++nth) {
    memory.fail_at = nth;
    ls_status status = use_all(&system);
    failed = memory.fail_at <= 0;
    memory.fail_at = 0;
    if (failed)
      expect_status(status, LS_UNAVAILABLE, "cannot");
    else
      expect_ok(status);
    assert_null(memory_files_find(&memory, "run/a.tmp"));
    memory_files_clear(&memory);
  }
  assert_int_equal(nth, 11);  // Nine calls, and the life without a failure.
}

TEST_FILE(.set_up = make_folder, .tear_down = remove_folder)

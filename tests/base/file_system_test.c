// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "support/fault.h"

static char folder[] = "files-XXXXXX";

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
  assert_memory_equal(data, want, size + 1);  // A zero follows.
  ls_release(ls_allocator_system(), data);
}

static size_t entries_in_folder(void) {
  DIR *handle = opendir(folder);
  assert_non_null(handle);
  size_t count = 0;
  for (struct dirent *entry; (entry = readdir(handle)) != NULL;) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(handle);
  return count;
}

TEST(what_was_written_is_read) {
  const char *path = path_of("a.txt");
  expect_ok(files()->write(NULL, path, "hello", 5));
  expect_content(path, "hello");
  expect_ok(files()->write(NULL, path, "", 0));
  expect_content(path, "");
  expect_ok(files()->append(NULL, path, "one ", 4));
  expect_ok(files()->append(NULL, path, "two", 3));
  expect_content(path, "one two");
  assert_int_equal(entries_in_folder(), 1);  // Nothing is left aside.
  expect_ok(files()->remove(NULL, path));
  assert_int_equal(entries_in_folder(), 0);
}

TEST(large_files_come_back_whole) {
  enum { SIZE = 3000001 };
  char *data = malloc(SIZE);
  for (size_t i = 0; i < SIZE; ++i)
    data[i] = (char)(i * 31);
  const char *path = path_of("large");
  expect_ok(files()->write(NULL, path, data, SIZE));
  char *read = NULL;
  size_t size = 0;
  expect_ok(
      files()->read(NULL, path, SIZE_MAX, ls_allocator_system(), &read, &size));
  assert_int_equal(size, SIZE);
  assert_memory_equal(read, data, SIZE);
  ls_release(ls_allocator_system(), read);
  free(data);
  expect_ok(files()->remove(NULL, path));
}

TEST(files_without_a_known_size_are_read_to_the_end) {
  char *data = NULL;
  size_t size = 0;
  expect_ok(files()->read(NULL, "/proc/self/maps", SIZE_MAX,
                          ls_allocator_system(), &data, &size));
  assert_true(size > 100);
  assert_int_equal(strlen(data), size);
  ls_release(ls_allocator_system(), data);
}

TEST(an_earlier_interruption_does_not_matter_to_reading) {
  expect_ok(files()->write(NULL, path_of("calm"), "calm", 4));
  errno = EINTR;
  expect_content(path_of("calm"), "calm");
  expect_ok(files()->remove(NULL, path_of("calm")));
}

TEST(longer_files_than_wanted_are_refused) {
  ls_allocator *system = ls_allocator_system();
  char *data = NULL;
  size_t size = 0;
  expect_ok(files()->write(NULL, path_of("long"), "12345", 5));
  expect_ok(files()->read(NULL, path_of("long"), 5, system, &data, &size));
  assert_int_equal(size, 5);
  ls_release(system, data);
  expect_status(files()->read(NULL, path_of("long"), 4, system, &data, &size),
                LS_INVALID_ARGUMENT, "/long' has more than 4 bytes");
  assert_null(data);
  expect_ok(files()->remove(NULL, path_of("long")));
  // One whose size the system does not tell.
  expect_status(
      files()->read(NULL, "/proc/self/maps", 100, system, &data, &size),
      LS_INVALID_ARGUMENT, "'/proc/self/maps' has more than 100 bytes");
  assert_null(data);
}

TEST(existence_is_told) {
  bool exists = true;
  expect_ok(files()->exists(NULL, path_of("none"), &exists));
  assert_false(exists);
  expect_ok(files()->exists(NULL, path_of("none/below"), &exists));
  assert_false(exists);
  expect_ok(files()->exists(NULL, folder, &exists));
  assert_true(exists);
}

TEST(folders_are_made_with_those_above) {
  static const char *const forms[] = {"x/y/z", "x//y///z/", "x", "x/"};
  for (size_t i = 0; i < LS_COUNT_OF(forms); ++i) {
    expect_ok(files()->make_directories(NULL, path_of(forms[i])));
    expect_ok(files()->make_directories(NULL, path_of(forms[i])));
    bool exists = false;
    expect_ok(files()->exists(NULL, path_of(forms[i]), &exists));
    assert_true(exists);
  }
  expect_ok(files()->write(NULL, path_of("x/f"), "f", 1));
  expect_status(files()->make_directories(NULL, path_of("x/f/g")), LS_NOT_FOUND,
                "x/f/g'");
  expect_status(files()->make_directories(NULL, path_of("x/f")), LS_NOT_FOUND,
                "x/f'");
  expect_status(files()->make_directories(NULL, ""), LS_NOT_FOUND, "''");
  expect_ok(files()->make_directories(NULL, "/"));
  static const char *const made[] = {"x/f", "x/y/z", "x/y", "x"};
  for (size_t i = 0; i < LS_COUNT_OF(made); ++i) {
    expect_ok(files()->remove(NULL, path_of(made[i])));
  }
}

TEST(errors_name_the_path_and_the_systems_words) {
  char *data = NULL;
  size_t size = 0;
  ls_allocator *system = ls_allocator_system();
  expect_status(
      files()->read(NULL, path_of("none"), SIZE_MAX, system, &data, &size),
      LS_NOT_FOUND, "/none': No such file");
  assert_null(data);
  expect_status(files()->remove(NULL, path_of("none")), LS_NOT_FOUND,
                "cannot remove");
  expect_status(files()->write(NULL, path_of("none/f"), "x", 1), LS_NOT_FOUND,
                "cannot write");
  expect_status(files()->append(NULL, path_of("none/f"), "x", 1), LS_NOT_FOUND,
                "cannot open");
  expect_status(files()->read(NULL, folder, SIZE_MAX, system, &data, &size),
                LS_UNAVAILABLE, "directory");
  assert_null(data);
}

TEST(a_forbidden_folder_is_permission_denied) {
  if (geteuid() == 0) {
    // The superuser may write everywhere but where the kernel says no.
    expect_status(files()->make_directories(NULL, "/proc/1/lockstep"),
                  LS_NOT_FOUND, "/proc/1/lockstep");
    return;
  }
  assert_int_equal(chmod(folder, 0500), 0);
  ls_status status = files()->write(NULL, path_of("f"), "x", 1);
  assert_int_equal(chmod(folder, 0700), 0);
  expect_status(status, LS_PERMISSION_DENIED, "cannot write");
}

TEST(a_failed_write_leaves_the_old_file) {
  // The folder takes the place that the new file is to be moved to.
  const char *path = path_of("taken");
  expect_ok(files()->make_directories(NULL, path));
  expect_status(files()->write(NULL, path, "x", 1), LS_UNAVAILABLE, "taken");
  assert_int_equal(entries_in_folder(), 1);
  expect_ok(files()->remove(NULL, path));
}

TEST(what_a_killed_writer_left_is_taken) {
  const char *path = path_of("a");
  expect_ok(files()->write(NULL, path, "old", 3));
  // A child dies while it writes; it holds the file beside.
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(path_of("a.tmp"), O_WRONLY | O_CREAT, 0666);
    if (flock(file, LOCK_EX) == 0 && write(file, "half of it", 10) == 10)
      kill(getpid(), SIGKILL);
    _exit(1);
  }
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
  assert_int_equal(entries_in_folder(), 2);
  expect_content(path, "old");
  expect_ok(files()->write(NULL, path, "new", 3));
  expect_content(path, "new");
  assert_int_equal(entries_in_folder(), 1);
  expect_ok(files()->remove(NULL, path));
}

enum { WRITES = 30, LENGTH = 20000 };

static void *write_often(void *user) {
  const char *text = user;
  char path[300];
  snprintf(path, sizeof(path), "%s/shared", folder);
  for (int i = 0; i < WRITES; ++i) {
    const ls_status status = files()->write(NULL, path, text, LENGTH);
    if (!ls_status_is_ok(status)) {
      ls_status_free(status);
      return user;
    }
  }
  return NULL;
}

TEST(writers_of_one_file_wait_for_each_other) {
  static char texts[2][LENGTH + 1];
  pthread_t threads[2];
  for (int t = 0; t < 2; ++t) {
    memset(texts[t], 'a' + t, LENGTH);
    assert_int_equal(pthread_create(&threads[t], NULL, write_often, texts[t]),
                     0);
  }
  for (int t = 0; t < 2; ++t) {
    void *failed = NULL;
    assert_int_equal(pthread_join(threads[t], &failed), 0);
    assert_null(failed);
  }
  char *data = NULL;
  size_t size = 0;
  expect_ok(files()->read(NULL, path_of("shared"), SIZE_MAX,
                          ls_allocator_system(), &data, &size));
  assert_int_equal(size, LENGTH);
  assert_memory_equal(data, data[0] == 'a' ? texts[0] : texts[1], LENGTH);
  ls_release(ls_allocator_system(), data);
  assert_int_equal(entries_in_folder(), 1);
  expect_ok(files()->remove(NULL, path_of("shared")));
}

// ---- Strange targets -------------------------------------------------------
// Ends a test that would wait for ever.
static void give_up_after(unsigned seconds) {
  signal(SIGALRM, SIG_DFL);
  alarm(seconds);
}

TEST(what_is_no_file_is_neither_read_nor_replaced) {
  const char *path = path_of("fifo");
  assert_int_equal(mkfifo(path, 0666), 0);
  give_up_after(20);
  char *data = NULL;
  size_t size = 0;
  ls_allocator *system = ls_allocator_system();
  expect_status(files()->read(NULL, path, SIZE_MAX, system, &data, &size),
                LS_INVALID_ARGUMENT, "fifo': it is a fifo, not a regular file");
  assert_null(data);
  expect_status(files()->write(NULL, path, "x", 1), LS_INVALID_ARGUMENT,
                "fifo': it is a fifo, not a regular file");
  expect_status(files()->append(NULL, path, "x", 1), LS_INVALID_ARGUMENT,
                "fifo': it is a fifo, not a regular file");
  expect_status(
      files()->read(NULL, "/dev/null", SIZE_MAX, system, &data, &size),
      LS_INVALID_ARGUMENT, "'/dev/null': it is a device");
  expect_status(files()->append(NULL, "/dev/null", "x", 1), LS_INVALID_ARGUMENT,
                "'/dev/null': it is a device");
  alarm(0);
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  assert_true(S_ISFIFO(info.st_mode));
  assert_int_equal(entries_in_folder(), 1);
  // What stands where the file beside goes is no file either.
  assert_int_equal(rename(path, path_of("a.tmp")), 0);
  give_up_after(20);
  expect_status(files()->write(NULL, path_of("a"), "x", 1), LS_UNAVAILABLE,
                "cannot write");
  alarm(0);
  expect_ok(files()->remove(NULL, path_of("a.tmp")));
}

static ls_status append_new(const char *path) {
  return files()->append(NULL, path, "new", 3);
}

static ls_status write_new(const char *path) {
  return files()->write(NULL, path, "new", 3);
}

static ls_status create_new(const char *path) {
  void *file = NULL;
  return files()->create(NULL, path, false, &file);
}

static ls_status lock_new(const char *path) {
  void *lock = NULL;
  return files()->lock(NULL, path, &lock);
}

// A link in a folder that comes from elsewhere may name any file.
TEST(nothing_is_written_through_a_link) {
  ls_status (*const writers[])(const char *) = {append_new, write_new,
                                                create_new, lock_new};
  static const char *const names[] = {"far", "nowhere", "."};
  const char *file = path_of("far"), *link = path_of("link");
  expect_ok(files()->write(NULL, file, "old", 3));
  for (size_t k = 0; k < LS_COUNT_OF(names); ++k) {
    assert_int_equal(symlink(names[k], link), 0);
    bool is_link = false;
    expect_ok(files()->is_link(NULL, link, &is_link));
    assert_true(is_link);
    for (size_t i = 0; i < LS_COUNT_OF(writers); ++i)
      expect_status(writers[i](link), LS_INVALID_ARGUMENT,
                    "link': it is a link, which may lead to anybody's file");
    assert_int_equal(entries_in_folder(), 2);
    expect_content(file, "old");
    expect_ok(files()->remove(NULL, link));
  }
  // What it names is read.
  assert_int_equal(symlink("far", link), 0);
  expect_content(link, "old");
  bool is_link = true;
  expect_ok(files()->is_link(NULL, file, &is_link));
  assert_false(is_link);
  expect_ok(files()->is_link(NULL, path_of("nothing"), &is_link));
  assert_false(is_link);
  expect_ok(files()->remove(NULL, link));
  expect_ok(files()->remove(NULL, file));
}

static mode_t mode_of(const char *path) {
  struct stat info;
  assert_int_equal(stat(path, &info), 0);
  return info.st_mode & 07777;
}

TEST(a_file_that_is_replaced_keeps_its_mode) {
  const char *path = path_of("a");
  const mode_t before = umask(022);
  expect_ok(files()->write(NULL, path, "1", 1));
  assert_int_equal(mode_of(path), 0644);
  static const mode_t modes[] = {0600, 0640, 0666, 0444};
  for (size_t i = 0; i < LS_COUNT_OF(modes); ++i) {
    assert_int_equal(chmod(path, modes[i]), 0);
    expect_ok(files()->write(NULL, path, "2", 1));
    assert_int_equal(mode_of(path), modes[i]);
  }
  umask(before);
  expect_ok(files()->remove(NULL, path));
}

// In a child whose kernel lets nobody lock: 0 if `work` gave UNAVAILABLE, 2
// where there is no such kernel.
static int without_locks(ls_status (*work)(const char *path),
                         const char *path) {
  const pid_t child = fork();
  if (child == 0) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EIO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {LS_COUNT_OF(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(2);
    if (flock(0, LOCK_EX) == 0 || errno != EIO) _exit(2);
    _exit(ls_status_code(work(path)) == LS_UNAVAILABLE ? 0 : 1);
  }
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  return WEXITSTATUS(how);
}

static ls_status write_one(const char *path) {
  return files()->write(NULL, path, "x", 1);
}

static ls_status lock_one(const char *path) {
  void *lock = NULL;
  return files()->lock(NULL, path, &lock);
}

TEST(a_lock_that_fails_leaves_nothing_behind) {
  ls_status (*const works[])(const char *) = {write_one, lock_one};
  for (size_t i = 0; i < LS_COUNT_OF(works); ++i) {
    const int code = without_locks(works[i], path_of("a"));
    if (code == 2) skip();
    assert_int_equal(code, 0);
    assert_int_equal(entries_in_folder(), 0);
  }
}

// ---- Locks -----------------------------------------------------------------
static int looking = -1;

static void end_looking(int number) {
  (void)number;
  close(looking);
}

// A timer's signal ends the other's lock in the thread that waits for it.
TEST(a_process_that_looks_for_a_lock_for_a_moment_keeps_none_out) {
  const char *path = path_of("lock");
  void *lock = NULL;
  looking = open(path, O_RDONLY | O_CREAT, 0666);
  assert_true(looking >= 0 && flock(looking, LOCK_SH) == 0);
  const struct itimerval soon = {.it_value = {.tv_usec = 15000}};
  assert_true(signal(SIGALRM, end_looking) != SIG_ERR);
  assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
  expect_ok(files()->lock(NULL, path, &lock));
  files()->unlock(NULL, lock);
  assert_true(signal(SIGALRM, SIG_DFL) != SIG_ERR);
  assert_int_equal(entries_in_folder(), 0);
}

TEST(a_lock_names_its_holder_and_goes_with_it) {
  const char *path = path_of("lock");
  void *first = NULL, *second = NULL;
  expect_ok(files()->lock(NULL, path, &first));
  char holder[64];
  snprintf(holder, sizeof(holder), "lock' is locked by process %ld on ",
           (long)getpid());
  expect_status(files()->lock(NULL, path, &second), LS_FAILED_PRECONDITION,
                holder);
  assert_null(second);
  files()->unlock(NULL, first);
  files()->unlock(NULL, NULL);
  assert_int_equal(entries_in_folder(), 0);
  // A child dies with it.
  const pid_t child = fork();
  if (child == 0) {
    if (ls_status_is_ok(files()->lock(NULL, path, &first)))
      kill(getpid(), SIGKILL);
    _exit(1);
  }
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFSIGNALED(how));
  assert_int_equal(entries_in_folder(), 1);
  expect_ok(files()->lock(NULL, path, &second));
  files()->unlock(NULL, second);
  assert_int_equal(entries_in_folder(), 0);
  expect_status(files()->lock(NULL, path_of("none/lock"), &second),
                LS_NOT_FOUND, "none/lock'");
  assert_int_equal(mkfifo(path, 0666), 0);
  expect_status(files()->lock(NULL, path, &second), LS_INVALID_ARGUMENT,
                "cannot lock");
  expect_ok(files()->remove(NULL, path));
}

static ls_status read_back(void *user) {
  char *data = NULL;
  size_t size = 0;
  ls_allocator *allocator = ls_current_allocator();
  LS_RETURN_IF_ERROR(
      files()->read(NULL, user, SIZE_MAX, allocator, &data, &size));
  ls_release(allocator, data);
  return ls_ok();
}

TEST(failing_memory_is_survived) {
  char path[300];
  snprintf(path, sizeof(path), "%s", path_of("a"));
  expect_ok(files()->write(NULL, path, "12345", 5));
  REFUSE_EACH(read_back, path);
  expect_ok(files()->remove(NULL, path));
}

TEST_FILE(.set_up = make_folder, .tear_down = remove_folder)

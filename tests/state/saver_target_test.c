// SPDX-License-Identifier: Apache-2.0
// What a saver may replace: a file, and nothing else.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "lockstep/saver.h"
#include "lockstep/session.h"
#include "lockstep/variable_parts.h"
#include "support/expect.h"
#include "support/function.h"

// A variable of eager's, or of a graph with a session.
typedef struct saved {
  ls_graph *graph;
  ls_session *session;
  ls_variable *variable;
  ls_saver saver;
} saved;

static void begin(saved *s, bool in_session) {
  *s = (saved){0};
  LS_OWN(ls_array, array) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &array));
  ls_array_set_f64(array, 0, 3);
  const ls_variable_options options = {.name = "v", .initial_array = array};
  if (in_session) {
    expect_ok(ls_graph_create("g", &s->graph));
    {
      LS_GRAPH_SCOPE(s->graph);
      expect_ok(ls_variable_create(&options, &s->variable));
    }
    expect_ok(ls_session_create(s->graph, &s->session));
    LS_OWN(ls_nest, none) = session_results(
        s->session, ls_nest_op(ls_variable_initializer(s->variable)));
  } else {
    expect_ok(ls_variable_create(&options, &s->variable));
  }
  s->saver = (ls_saver){
      .variables = &s->variable, .num_variables = 1, .session = s->session};
}

static void end(saved *s) {
  ls_session_destroy(s->session);
  ls_variable_release(s->variable);
  if (s->graph != NULL) ls_graph_destroy(s->graph);
}
LS_OWNED_STRUCT(saved, end)

static mode_t mode_of(const char *path) {
  struct stat info;
  assert_int_equal(lstat(path, &info), 0);
  return info.st_mode;
}

TEST(what_is_no_file_stays_what_it_is) {
  (void)remove("saver-fifo");
  assert_int_equal(mkfifo("saver-fifo", 0600), 0);
  // A device of the test's own, as /dev/null is, where it may make one.
  (void)remove("saver-device");
  const bool has_device =
      mknod("saver-device", S_IFCHR | 0600, makedev(1, 3)) == 0;
  for (int in_session = 0; in_session < 2; ++in_session) {
    LS_OWN_BEGUN(saved, s, begin, in_session == 1);
    alarm(20);  // Rather than to wait for a fifo's other end.
    expect_status(ls_saver_save(&s.saver, "saver-fifo"), LS_INVALID_ARGUMENT,
                  "cannot write 'saver-fifo': it is a fifo");
    expect_status(ls_saver_restore(&s.saver, "saver-fifo"), LS_INVALID_ARGUMENT,
                  "cannot read 'saver-fifo': it is a fifo");
    if (has_device)
      expect_status(ls_saver_save(&s.saver, "saver-device"),
                    LS_INVALID_ARGUMENT,
                    "cannot write 'saver-device': it is a device");
    expect_status(ls_saver_save(&s.saver, "."), LS_UNAVAILABLE, "cannot write");
    alarm(0);
  }
  assert_true(S_ISFIFO(mode_of("saver-fifo")));
  assert_int_equal(remove("saver-fifo"), 0);
  if (has_device) assert_true(S_ISCHR(mode_of("saver-device")));
  (void)remove("saver-device");
}

TEST(a_file_that_is_saved_again_keeps_its_mode) {
  static const char path[] = "saver-mode.safetensors";
  for (int in_session = 0; in_session < 2; ++in_session) {
    LS_OWN_BEGUN(saved, s, begin, in_session == 1);
    expect_ok(ls_saver_save(&s.saver, path));
    assert_int_equal(chmod(path, 0600), 0);
    expect_ok(ls_saver_save(&s.saver, path));
    assert_int_equal(mode_of(path) & 07777, 0600);
    expect_ok(ls_saver_restore(&s.saver, path));
    assert_int_equal(remove(path), 0);
  }
}

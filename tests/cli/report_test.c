// SPDX-License-Identifier: Apache-2.0
// Pages of `lockstep report`: well-formed, without scripts and references to
// other places, whatever a run's folder holds.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/expect.h"
#include "support/scratch.h"

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave,
          .after_each = scratch_clear)

// ---- The page as XML -------------------------------------------------------
enum { MOST_DEPTH = 64, MOST_NAME = 24 };

typedef struct page {
  const char *at;
  char open[MOST_DEPTH][MOST_NAME];
  int depth;
} page;

static void expect_known(const char *name) {
  static const char *const known[] = {
      "html", "head",  "meta",   "title", "style",      "body", "main",
      "h1",   "h2",    "h3",     "p",     "div",        "span", "i",
      "b",    "table", "tr",     "th",    "td",         "img",  "figure",
      "svg",  "path",  "circle", "line",  "figcaption", "text"};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); ++i)
    if (strcmp(known[i], name) == 0) return;
  fail_msg("an element <%s>", name);
}

// Reads an entity after its ampersand.
static void read_entity(page *p) {
  static const char *const known[] = {"amp;", "lt;", "gt;", "quot;", "#39;"};
  for (size_t i = 0; i < sizeof(known) / sizeof(*known); ++i) {
    if (strncmp(p->at, known[i], strlen(known[i])) != 0) continue;
    p->at += strlen(known[i]);
    return;
  }
  fail_msg("'&' is not escaped: %.40s", p->at);
}

static void read_value(page *p, const char *name) {
  assert_memory_equal(p->at, "=\"", 2);
  p->at += 2;
  if (strcmp(name, "src") == 0)
    assert_memory_equal(p->at, "data:image/bmp;base64,Qk", 24);
  assert_true(strncmp(name, "on", 2) != 0);  // Such as onload.
  assert_string_not_equal(name, "href");
  while (*p->at != '"') {
    assert_true(*p->at != '\0' && *p->at != '<' && *p->at != '>');
    if (*p->at++ == '&') read_entity(p);
  }
  ++p->at;
}

static void read_name(page *p, char name[MOST_NAME]) {
  const size_t size = strspn(p->at, "abcdefghijklmnopqrstuvwxyz0123456789-"
                                    "BCVX");
  assert_true(size > 0 && size < MOST_NAME);
  snprintf(name, MOST_NAME, "%.*s", (int)size, p->at);
  p->at += size;
}

// Reads what follows a '<'.
static void read_tag(page *p) {
  char name[MOST_NAME], attribute[MOST_NAME];
  const bool closes = *p->at == '/';
  p->at += closes;
  read_name(p, name);
  expect_known(name);
  if (closes) {
    assert_true(p->depth > 0);
    assert_string_equal(name, p->open[--p->depth]);
    assert_int_equal(*p->at++, '>');
    return;
  }
  while (*p->at == ' ') {
    ++p->at;
    read_name(p, attribute);
    read_value(p, attribute);
  }
  if (strncmp(p->at, "/>", 2) == 0) {
    p->at += 2;
    return;
  }
  assert_int_equal(*p->at++, '>');
  assert_true(p->depth < MOST_DEPTH);
  memcpy(p->open[p->depth++], name, sizeof(name));
  if (strcmp(name, "style") != 0) return;
  p->at = strstr(p->at, "</style>");
  assert_non_null(p->at);
}

static void expect_page(const char *text) {
  static const char doctype[] = "<!DOCTYPE html>\n";
  assert_memory_equal(text, doctype, strlen(doctype));
  page p = {.at = text + strlen(doctype)};
  while (*p.at != '\0') {
    const unsigned char c = (unsigned char)*p.at++;
    assert_true(c >= 0x20 || c == '\n');
    assert_int_not_equal(c, '>');
    if (c == '<') read_tag(&p);
    if (c == '&') read_entity(&p);
  }
  assert_int_equal(p.depth, 0);
  // Names in the style and in paths of texts could refer, too.
  assert_null(strstr(text, "url("));
  assert_null(strstr(text, "@import"));
  assert_null(strstr(text, "http:"));
  assert_null(strstr(text, "https:"));
  assert_null(strstr(text, "<script"));
}

// ---- Runs and reports ------------------------------------------------------
static void write_run(const char *folder, const char *config,
                      const char *metrics) {
  char path[512];
  assert_int_equal(mkdir(folder, 0777), 0);
  for (int i = 0; i < 2; ++i) {
    const char *text = i == 0 ? config : metrics;
    if (text == NULL) continue;
    snprintf(path, sizeof(path), "%s/%s", folder,
             i == 0 ? "config.json" : "metrics.jsonl");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
  }
}

// Runs the program with these words, and returns its standard output, which
// the caller frees. Skips the test without a program.
static char *run_command(const char *words) {
  const char *program = getenv("LOCKSTEP");
  char line[2048];
  char *text = NULL;
  size_t size = 0;
  if (program == NULL) skip();
  snprintf(line, sizeof(line), "'%s' %s 2>err.txt", program, words);
  FILE *out = popen(line, "r");
  FILE *copy = open_memstream(&text, &size);
  assert_non_null(out);
  assert_non_null(copy);
  for (int c; (c = fgetc(out)) != EOF;)
    fputc(c, copy);
  fclose(copy);
  const int code = pclose(out);
  if (!WIFEXITED(code) || WEXITSTATUS(code) != 0)
    fail_msg("lockstep %s: code %d", words, code);
  return text;
}

TEST(a_hostile_run_is_escaped) {
  assert_int_equal(mkdir("hostile", 0777), 0);
  write_run("hostile/<b onload=x>&\"'\x01\xff",
            "{\"model\":\"<script>alert(1)</script>\",\"data\":\"a\\\"b\\u003c"
            "\\u0001\\ud800\",\"'k<\":\"&lt;\",\"steps\":1e300,\"seed\":-1}",
            "{\"step\":1,\"loss\":null,\"</svg>\":2,\"a\\\"=b\":3}\n"
            "{\"step\":2,\"loss\":1e999,\"</svg>\":-1e308}\n"
            "{\"step\":3,\"loss\":NaN,\"</svg>\":1e308}\n"
            "{\"step\":-4,\"loss\":0.25,\"accuracy\":Infinity}\n"
            "{\"step\":1e20,\"loss\":7}\n<p>garbage\n{\"step\":\n\n\x80\n");
  HEAP(char, text) = run_command("report hostile/* --out -");
  expect_page(text);
  expect_contains(text, "&lt;b onload=x&gt;&amp;&quot;&#39;\xef\xbf\xbd"
                        "\xef\xbf\xbd</h1>");
  expect_contains(text, "&lt;script&gt;alert(1)&lt;/script&gt; on a&quot;b"
                        "&lt;");
  expect_contains(text, "<b>&lt;/svg&gt;</b>");
  expect_contains(text, "3 values are not finite");
  expect_contains(text, "4 lines of metrics.jsonl cannot be read");
  expect_contains(text, "Not evaluated: ");
  remove_tree("hostile");
}

TEST(empty_runs_have_a_page) {
  write_run("none", "{}", NULL);
  write_run("lines", NULL, "\n\n");
  write_run("bare", NULL, "{\"step\":1}\n");
  HEAP(char, one) = run_command("report none --out -");
  expect_page(one);
  expect_contains(one, "There is no line of metrics yet.");
  expect_contains(one, "empty, no line of metrics yet");
  HEAP(char, all) = run_command("report none lines bare --out -");
  expect_page(all);
  expect_contains(all, "<h1>3 runs compared</h1>");
  expect_contains(all, "no configuration (config.json is missing)");
  expect_contains(all, "Not evaluated: ");
  remove_tree("none");
  remove_tree("lines");
  remove_tree("bare");
}

// Counts a text in another.
static int count_of(const char *text, const char *wanted) {
  int count = 0;
  for (; (text = strstr(text, wanted)) != NULL; ++count)
    text += strlen(wanted);
  return count;
}

TEST(trained_runs_are_compared_and_evaluated) {
  for (int i = 1; i <= 2; ++i) {
    char words[160];
    snprintf(words, sizeof(words),
             "train --model tiny --data synthetic --epochs 2 --quiet "
             "--learning-rate 0.0%d --run-dir run-%d",
             i, i);
    HEAP(char, none) = run_command(words);
  }
  HEAP(char, said) = run_command("report run-1 run-2");
  assert_string_equal(said, "the report is in report.html\n");
  assert_int_equal(access("report.html.tmp", F_OK), -1);
  HEAP(char, text) = run_command("report run-1 run-2 --examples 500 --out -");
  expect_page(text);
  // A curve of each run in each chart: loss, accuracy, rate, speed, and the
  // loss and the accuracy of the test.
  assert_int_equal(count_of(text, "<figure class=\"chart\">"), 6);
  assert_int_equal(count_of(text, "<path class=\"s1\""), 6);
  assert_int_equal(count_of(text, "<path class=\"s2\""), 6);
  assert_int_equal(count_of(text, " of 500 examples of the test set of "), 2);
  assert_int_equal(count_of(text, "<table class=\"matrix\">"), 2);
  expect_contains(text, "<tr class=\"differs\"><th>learning_rate</th>"
                        "<td class=\"long\">0.01</td>"
                        "<td class=\"long\">0.02</td></tr>");
  expect_contains(text, "<td class=\"long\">2048</td>");  // The checkpoint.
  HEAP(char, without) = run_command("report run-1 --examples 0 --out -");
  expect_page(without);
  expect_contains(without, "Not evaluated: --examples 0 was given");
  remove_tree("run-1");
  remove_tree("run-2");
}

// Returns 0 if a report, made where nobody can lock files, has `wanted`; 2
// where there is no such kernel.
static int report_without_locks(const char *wanted) {
  const pid_t child = fork();
  if (child == 0) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOLCK),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {LS_COUNT_OF(code), code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(2);
    HEAP(char, text) = run_command("report killed --out -");
    _exit(strstr(text, wanted) != NULL ? 0 : 1);
  }
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  assert_true(WIFEXITED(how));
  return WEXITSTATUS(how);
}

TEST(a_killed_run_has_ended_where_files_have_no_locks) {
  if (getenv("LOCKSTEP") == NULL) skip();
  write_run("killed", "{\"steps\":9}", "{\"step\":1,\"loss\":2}\n");
  FILE *lock = fopen("killed/lock", "w");
  assert_non_null(lock);
  fclose(lock);
  const int code = report_without_locks("<p>ended, step 1 of 9");
  remove_tree("killed");
  if (code == 2) skip();
  assert_int_equal(code, 0);
}

TEST(entries_are_compared_and_shown_to_their_ends) {
  char config[1000];
  for (int i = 0; i < 2; ++i) {
    snprintf(config, sizeof(config),
             "{\"features\":\"%0800d\",\"names\":\"a\\nb\\n\"}", i);
    write_run(i == 0 ? "one" : "two", config,
              i == 0 ? "{\"step\":123456789,\"loss\":2}\n" : NULL);
  }
  HEAP(char, text) = run_command("report one two --out -");
  snprintf(config, sizeof(config),
           "<tr class=\"differs\"><th>features</th><td class=\"long\">%0800d"
           "</td>",
           0);
  expect_contains(text, config);
  expect_contains(text, "<td class=\"long\">a; b </td>");
  expect_contains(text, "<td class=\"n\">123456789</td>");
  remove_tree("one");
  remove_tree("two");
}

// Writes an IDX file of bytes with these dimensions.
static void write_idx(const char *path, int rank, const unsigned char *sizes) {
  FILE *file = fopen(path, "w");
  size_t count = 1;
  assert_non_null(file);
  fprintf(file, "%c%c%c%c", 0, 0, 8, rank);
  for (int i = 0; i < rank; ++i) {
    fprintf(file, "%c%c%c%c", 0, 0, 0, sizes[i]);
    count *= sizes[i];
  }
  for (size_t i = 0; i < count; ++i)
    fputc((int)(rank == 1 ? i % 10 : i * i % 251), file);
  fclose(file);
}

TEST(mistakes_have_their_images) {
  write_idx("examples.idx", 3, (const unsigned char[]){120, 28, 28});
  write_idx("labels.idx", 1, (const unsigned char[]){120});
  HEAP(char, none) = run_command(
      "train --model cnn --data examples.idx,labels.idx --split 0.4 --steps 1 "
      "--batch-size 4 --quiet --run-dir run");
  HEAP(char, text) = run_command("report run --out -");
  expect_page(text);
  const int images = count_of(text, "<img alt=\"\" src=\"data:image/bmp;");
  assert_true(images > 0 && images <= 24);
  assert_int_equal(count_of(text, "<figcaption>"), images + 4);
  remove_tree("run");
}

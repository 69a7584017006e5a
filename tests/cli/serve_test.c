// SPDX-License-Identifier: Apache-2.0
//
// Predictions over HTTP: equal to those of `lockstep predict` and whatever else
// runs beside them; requests that are none; the end under load.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lockstep/full.h"
#include "lockstep/serving.h"
#include "support/draw.h"
#include "support/expect.h"
#include "support/sanitizer.h"

enum { FEATURES = 16, ROWS = 96, CLIENTS = 64, ANSWER = 1 << 16 };
// A body far beyond the buffers of sockets.
enum { LARGE = 24 << 20 };

static float features[ROWS][FEATURES];
static char export_path[256];

// Runs a command of the program; its output is in out.txt.
static void run_command(const char *words) {
  char command[1024];
  snprintf(command, sizeof(command), "\"$LOCKSTEP\" %s >out.txt 2>err.txt",
           words);
  if (system(command) != 0) {
    print_error("%s\n", command);
    (void)!system("cat out.txt err.txt >&2");
    fail();
  }
}

// Rows of three classes with names.
static void write_rows(void) {
  static const char *const names[] = {"bag", "coat", "the \\\"shoe\\\""};
  uint64_t state = 5;
  FILE *file = fopen("rows.csv", "w");
  assert_non_null(file);
  for (int i = 0; i < ROWS; ++i) {
    const uint64_t class = draw_below(&state, 3);
    for (int k = 0; k < FEATURES; ++k) {
      features[i][k] = (float)(class * 1000 + draw_below(&state, 2000)) / 1024;
      fprintf(file, "%.9g,", (double)features[i][k]);
    }
    fprintf(file, "%s\n", class == 2 ? "a shoe" : names[class]);
  }
  assert_int_equal(fclose(file), 0);
}

static int make_export(void **state) {
  (void)state;
  (void)!system("rm -rf run run-export mnist photos marks* colors* versions "
                "[1-9]*");
  write_rows();
  run_command("train --model tiny --data rows.csv --quiet --run-dir run "
              "--steps 20 --batch-size 16 --test none");
  run_command("export run --out mnist");
  FILE *file = fopen("out.txt", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%255s", export_path), 1);
  fclose(file);
  // The same without a number for a name.
  return system("cp -r mnist/[1-9]* run-export");
}
TEST_FILE(.set_up = make_export)

// ---- The server ------------------------------------------------------------
typedef struct server {
  pid_t process;
  int port;
} server;

// Starts a server of the export with these flags. `process` is 0 in a build
// without one.
static server start_server(const char *flags) {
  char command[512];
  int ends[2];
  server started = {0};
  assert_int_equal(pipe(ends), 0);
  snprintf(command, sizeof(command),
           "exec \"$LOCKSTEP\" serve mnist --port 0 %s 2>serve.txt", flags);
  const pid_t process = fork();
  if (process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // A test that fails leaves no server.
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *said = fdopen(ends[0], "r");
  char line[512] = "";
  if (fgets(line, sizeof(line), said) != NULL) {
    const char *port = strstr(line, "127.0.0.1:");
    assert_non_null(port);
    assert_non_null(strstr(line, "/v1/models/mnist"));
    started = (server){process, atoi(port + 10)};
  } else {
    waitpid(process, NULL, 0);
    assert_int_equal(system("grep -q libmicrohttpd serve.txt"), 0);
    skip();
  }
  fclose(said);
  return started;
}

// Ends a server, which must exit with 0.
static void stop_server(server *self) {
  int code = 0;
  assert_int_equal(kill(self->process, SIGTERM), 0);
  assert_int_equal(waitpid(self->process, &code, 0), self->process);
  assert_true(WIFEXITED(code));
  assert_int_equal(WEXITSTATUS(code), 0);
}

// ---- A client --------------------------------------------------------------
static int connect_to(int port) {
  const struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr =
                                          htonl(INADDR_LOOPBACK)};
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const struct timeval patience = {.tv_sec = 60};
  setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (connect(client, (const struct sockaddr *)&address, sizeof(address)) == 0)
    return client;
  close(client);
  return -1;
}

// Reads until the end of the connection; returns the number of bytes.
static size_t read_answer(int client, char *answer) {
  size_t size = 0;
  for (ssize_t got; size < ANSWER - 1; size += (size_t)got) {
    got = recv(client, answer + size, ANSWER - 1 - size, 0);
    if (got <= 0) break;
  }
  answer[size] = '\0';
  return size;
}

// Sends bytes, then the end if they are no whole request, and reads the answer.
// Returns its code, 0: there was none, or the bytes could not all be sent.
static int send_bytes(int port, const void *bytes, size_t size, bool whole,
                      char *answer, size_t *out_size) {
  const int client = connect_to(port);
  answer[0] = '\0';
  if (client < 0) return 0;
  const bool sent = send(client, bytes, size, MSG_NOSIGNAL) == (ssize_t)size;
  if (!whole) shutdown(client, SHUT_WR);
  *out_size = read_answer(client, answer);
  close(client);
  return sent && strncmp(answer, "HTTP/1.", 7) == 0 ? atoi(answer + 9) : 0;
}

// Sends a request; returns the code, and the body with `*body`.
static int post(int port, const char *path, const char *headers,
                const void *data, size_t size, char *answer, const char **body,
                size_t *body_size) {
  char *request = malloc(size + 1024);
  size_t all = 0;
  const int head = snprintf(request, 1024,
                            "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close"
                            "\r\nContent-Length: %zu\r\n%s\r\n",
                            path, size, headers);
  memcpy(request + head, data, size);
  const int code =
      send_bytes(port, request, (size_t)head + size, true, answer, &all);
  free(request);
  const char *end = strstr(answer, "\r\n\r\n");
  *body = end != NULL ? end + 4 : "";
  if (body_size != NULL)
    *body_size = end != NULL ? all - (size_t)(*body - answer) : 0;
  return code;
}

static int post_text(int port, const char *path, const char *text, char *answer,
                     const char **body) {
  return post(port, path, "", text, strlen(text), answer, body, NULL);
}

static int get(int port, const char *method, const char *path, char *answer) {
  char request[256];
  size_t size = 0;
  const int head = snprintf(request, sizeof(request),
                            "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close"
                            "\r\n\r\n",
                            method, path);
  return send_bytes(port, request, (size_t)head, true, answer, &size);
}

// Prints rows from..to as a request.
static size_t print_rows(char *text, const char *head, int from, int to) {
  size_t size = (size_t)sprintf(text, "%s[", head);
  for (int i = from; i < to; ++i)
    for (int k = 0; k < FEATURES; ++k)
      size += (size_t)sprintf(text + size, "%s%.9g",
                              k > 0      ? ", "
                              : i > from ? "], ["
                                         : "[",
                              (double)features[i][k]);
  return size + (size_t)sprintf(text + size, "]]}");
}

#define PREDICT "/v1/models/mnist:predict"

// ---- Predictions -----------------------------------------------------------
TEST(answers_are_those_of_predict) {
  server self = start_server("");
  HEAP(char, text) = malloc(ANSWER);
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, wanted) = malloc(ANSWER);
  const char *body = NULL;
  run_command("predict run --data rows.csv");
  FILE *file = fopen("out.txt", "r");
  size_t size = (size_t)sprintf(wanted, "{\"predictions\":[");
  for (char line[256]; fgets(line, sizeof(line), file) != NULL;) {
    char *row = strstr(line, ",\"row\":");
    assert_non_null(row);
    *row = '\0';
    assert_non_null(strstr(line, "\"name\":"));
    size += (size_t)sprintf(wanted + size, "%s%s}",
                            wanted[size - 1] == '[' ? "" : ",", line);
  }
  fclose(file);
  sprintf(wanted + size, "]}\n");
  print_rows(text, "{\"signature_name\":\"predict\", \"instances\":", 0, ROWS);
  assert_int_equal(post_text(self.port, PREDICT, text, answer, &body), 200);
  assert_string_equal(body, wanted);
  // Whole arrays have their names, too.
  size = (size_t)sprintf(text, "],\"name\":[");
  for (const char *at = wanted; (at = strstr(at, "\"name\":")) != NULL;) {
    at += strlen("\"name\":");
    size +=
        (size_t)sprintf(text + size, "%s%.*s", text[size - 1] == '[' ? "" : ",",
                        (int)strcspn(at, "}"), at);
  }
  sprintf(text + size, "]}}\n");
  strcpy(wanted, text);
  print_rows(text, "{\"signature_name\":\"predict\", \"inputs\":", 0, ROWS);
  assert_int_equal(post_text(self.port, PREDICT, text, answer, &body), 200);
  assert_non_null(strstr(body, wanted));
  stop_server(&self);
}

// Runs the export here, on rows from..to; the result is a dict.
static ls_nest run_here(int from, int to) {
  ls_serving *serving = NULL;
  ls_array *rows = NULL;
  ls_nest outputs = ls_none();
  const char *name = "examples";
  expect_ok(ls_serving_load(export_path, NULL, &serving));
  expect_ok(ls_array_create_copy(LS_DTYPE_F32,
                                 LS_SHAPE((int64_t)(to - from), FEATURES),
                                 features[from], &rows));
  const ls_nest item = ls_nest_array(rows);
  const ls_nest inputs = ls_nest_dict("", &name, &item, 1);
  expect_ok(ls_serving_run(serving, NULL, inputs, &outputs));
  ls_nest_release(inputs);
  ls_serving_destroy(serving);
  return outputs;
}

// Makes the bytes of an npy file of rows from..to.
static ls_array *npy_of(int from, int to) {
  ls_array *rows = NULL, *bytes = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32,
                                 LS_SHAPE((int64_t)(to - from), FEATURES),
                                 features[from], &rows));
  expect_ok(ls_npy_print(rows, &bytes));
  ls_array_release(rows);
  return bytes;
}

// Labels have their names; a single number for each row stands alone.
TEST(other_tasks_are_answered_as_they_predict) {
  FILE *file = fopen("marks.csv", "w");
  assert_non_null(file);
  fprintf(file, "a,b,up,down\n");
  for (int i = 0; i < 16; ++i)
    fprintf(file, "%d,%d,%d,%d\n", i % 2, 1 - i % 2, i % 2, 1 - i % 2);
  assert_int_equal(fclose(file), 0);
  run_command("train --model tiny --data marks.csv --task multi-label --quiet "
              "--features a,b --label up,down --run-dir marks-run --steps 40 "
              "--batch-size 8 --test none --learning-rate 1");
  run_command("export marks-run --out marks");
  run_command("train --model tiny --data marks.csv --task regression --quiet "
              "--features a,b --label up --run-dir marks-sum --steps 40 "
              "--batch-size 8 --test none --learning-rate 0.05");
  run_command("export marks-sum --out marks-value");
  server self = start_server("marks=marks value=marks-value");
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  static const char rows[] =
      "{\"signature_name\":\"predict\", \"instances\":[[1,0],[0,1]]}";
  assert_int_equal(
      post_text(self.port, "/v1/models/marks:predict", rows, answer, &body),
      200);
  assert_non_null(strstr(body, "],\"labels\":[\"up\"]},{\"probability\":["));
  assert_non_null(strstr(body, "],\"labels\":[\"down\"]}]}"));
  assert_int_equal(
      post_text(self.port, "/v1/models/marks:predict",
                "{\"signature_name\":\"predict\", \"inputs\":[[1,0],[0,1]]}",
                answer, &body),
      200);
  assert_memory_equal(body, "{\"outputs\":{\"probability\":[[", 28);
  assert_non_null(strstr(body, "]],\"labels\":[[\"up\"],[\"down\"]]}}"));
  assert_int_equal(
      post_text(self.port, "/v1/models/value:predict", rows, answer, &body),
      200);
  double up = 0, down = 1;
  assert_int_equal(sscanf(body, "{\"predictions\":[%lf,%lf]}", &up, &down), 2);
  assert_true(up > 0.7 && down < 0.3);
  stop_server(&self);
}

TEST(rows_of_columns_are_those_of_their_numbers) {
  FILE *file = fopen("colors.csv", "w");
  assert_non_null(file);
  fprintf(file, "size,color,weight,label\n");
  for (int i = 0; i < 30; ++i)
    fprintf(file, "%d.5,%s,%d,%s\n", i % 4,
            i % 3 == 0   ? "blue"
            : i % 3 == 1 ? "red"
                         : "ros\xc3\xa9",
            i % 5, i % 2 ? "odd" : "even");
  assert_int_equal(fclose(file), 0);
  run_command("train --model tiny --data colors.csv --one-hot color --quiet "
              "--missing size=+3.5,color=red --run-dir colors-run --steps 3 "
              "--batch-size 8 --test none");
  run_command("export colors-run --out colors");
  server self = start_server("colors=colors");
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, wanted) = malloc(ANSWER);
  const char *body = NULL;
  static const char path[] = "/v1/models/colors:predict";
  assert_int_equal(post_text(self.port, path,
                             "{\"instances\":[[0.5,0,1,0,2],[3.5,0,0,1,1]]}",
                             answer, &body),
                   200);
  strcpy(wanted, body);
  static const char *const same[] = {
      "{\"instances\":[[0.5,\"red\",2],[3.5,\"ros\\u00e9\",1]]}",
      ("{\"instances\":[[0.5,0,1,0,2],"
       "{\"weight\":1,\"color\":\"ros\xc3\xa9\",\"size\":3.5}]}"),
      "{\"instances\":[[0.5,null,2],{\"weight\":1,\"color\":\"ros\xc3\xa9\"}]}",
      "{\"instances\":[{\"weight\":2,\"size\":0.5},[null,\"ros\u00e9\",1]]}",
      "{\"instances\":[{\"examples\":[0.5,0,1,0,2]}, [3.5 , 0,0,1, 1]]}"};
  for (size_t i = 0; i < LS_COUNT_OF(same); ++i) {
    assert_int_equal(post_text(self.port, path, same[i], answer, &body), 200);
    assert_string_equal(body, wanted);
  }
  static const char *const wrong[][2] = {
      {"[0.5,\"red\"]", "instance 1 has another number of values; the columns "
                        "are size,color,weight"},
      {"[0.5,\"pink\",2]", "instance 1: column 'color' has no text 'pink'"},
      {"[0.5,\"red\",\"red\"]",
       "instance 1: column 'weight' is \\\"red\\\", expected a number"},
      {"[0.5,1,\"red\"]", "column 'color' is 1, expected a text"},
      {"[[],\"red\",2]", "instance 1: column 'size' is [], expected a number"},
      {"{\"size\":[1,2],\"color\":\"red\",\"weight\":1}",
       "column 'size' is [1,2], expected a number"},
      {"[[1,2],\"red\"]", "instance 1 has another number of values"},
      {"{\"size\":1,\"color\":\"red\",\"colour\":2}", "has another name"},
      {"{\"size\":1,\"color\":\"red\",\"size\":2}", "lacks column"},
      {"{\"size\":1,\"color\":\"red\"}", "instance 1 lacks column 'weight'"},
      {"[0.5,\"red\",null]", "column 'weight' is null, expected a number"},
      {"\"red\"", "is no list"}};
  for (size_t i = 0; i < LS_COUNT_OF(wrong); ++i) {
    char text[300];
    snprintf(text, sizeof(text), "{\"instances\":[[0.5,\"red\",2],%s]}",
             wrong[i][0]);
    assert_int_equal(post_text(self.port, path, text, answer, &body), 400);
    expect_contains(body, wrong[i][1]);
  }
  stop_server(&self);
}

TEST(lists_of_a_row_are_as_wide_as_its_columns) {
  FILE *file = fopen("colors.jsonl", "w");
  assert_non_null(file);
  for (int i = 0; i < 30; ++i)
    fprintf(file, "{\"gr\\u00f6\\u00dfe\":[%d.5,%d],\"s\":%d,\"label\":%d}\n",
            i % 4, i % 3, i % 5, i % 2);
  assert_int_equal(fclose(file), 0);
  run_command("train --model tiny --data colors.jsonl --quiet --run-dir "
              "colors-wide --steps 3 --batch-size 8 --test none");
  run_command("export colors-wide --out colors-lists");
  server self = start_server("lists=colors-lists");
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, wanted) = malloc(ANSWER);
  const char *body = NULL;
  static const char path[] = "/v1/models/lists:predict";
  assert_int_equal(post_text(self.port, path, "{\"instances\":[[0.1,0.2,1]]}",
                             answer, &body),
                   200);
  strcpy(wanted, body);
  static const char *const same[] = {
      "[[0.1, 0.2],1]",
      ("{\"s\":1,\"gr\xc3\xb6\xc3\x9f"
       "e\":[0.1,0.2]}"),
      "{\"gr\\u00f6\\u00dfe\":[0.1,0.2],\"s\":[1]}"};
  static const char *const wrong[][2] = {
      {"{\"gr\xc3\xb6\xc3\x9f"
       "e\":0.1,\"s\":[0.2,1]}",
       "e' is 0.1, expected a list of 2 numbers"},
      {"[[0.1],[1,2]]", "e' is [0.1], expected a list of 2 numbers"},
      {"[[0.1,[2]],1]", "expected a list of 2 numbers"},
      {"[[0.1,2],\"x\"]", "column 's' is \\\"x\\\", expected a number"},
      {"[[0.1,2],[]]", "column 's' is [], expected a number"}};
  char text[300];
  for (size_t i = 0; i < LS_COUNT_OF(same); ++i) {
    snprintf(text, sizeof(text), "{\"instances\":[%s]}", same[i]);
    assert_int_equal(post_text(self.port, path, text, answer, &body), 200);
    assert_string_equal(body, wanted);
  }
  for (size_t i = 0; i < LS_COUNT_OF(wrong); ++i) {
    snprintf(text, sizeof(text), "{\"instances\":[%s]}", wrong[i][0]);
    assert_int_equal(post_text(self.port, path, text, answer, &body), 400);
    expect_contains(body, wrong[i][1]);
  }
  stop_server(&self);
}

TEST(a_file_config_json_of_a_program_is_left_alone) {
  assert_int_equal(system("cp -r run-export colors-own && "
                          "mkdir -p colors-own/assets.extra && "
                          "echo '{ \"labels\": 3 }' "
                          ">colors-own/assets.extra/config.json"),
                   0);
  server self = start_server("own=colors-own");
  HEAP(char, answer) = malloc(ANSWER);
  assert_int_equal(get(self.port, "GET", "/v1/models/own", answer), 200);
  stop_server(&self);
}

TEST(npy_is_answered_with_the_bits_of_a_run_here) {
  server self = start_server("--max-batch 7");
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  size_t size = 0;
  ls_array *sent = npy_of(0, ROWS), *got = NULL;
  assert_int_equal(post(self.port, PREDICT,
                        "Content-Type: application/x-npy\r\n"
                        "Accept: application/x-npy\r\n",
                        ls_array_data(sent), ls_array_size(sent), answer, &body,
                        &size),
                   200);
  expect_ok(ls_npy_parse(body, size, &got));
  ls_nest outputs = run_here(0, ROWS);
  const ls_array *wanted = ls_nest_as_array(ls_nest_item(outputs, 0));
  assert_true(ls_shape_equal(ls_array_shape(got), ls_array_shape(wanted)));
  assert_memory_equal(ls_array_data(got), ls_array_data(wanted),
                      ls_array_size(wanted));
  ls_nest_release(outputs);
  ls_array_release(sent);
  ls_array_release(got);
  stop_server(&self);
}

TEST(rows_and_columns_have_the_same_numbers) {
  server self = start_server("");
  HEAP(char, text) = malloc(ANSWER);
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, rows) = malloc(ANSWER);
  const char *body = NULL;
  print_rows(text, "{\"instances\":", 0, 2);
  assert_int_equal(post_text(self.port, PREDICT, text, rows, &body), 200);
  const char *numbers = strchr(body, '[');
  print_rows(text, "{\"inputs\":", 0, 2);
  assert_int_equal(post_text(self.port, PREDICT, text, answer, &body), 200);
  assert_string_equal(strchr(body, '['), numbers);
  size_t size = print_rows(text, "{\"inputs\":{\"examples\":", 0, 2);
  strcpy(text + size, "}");
  assert_int_equal(post_text(self.port, PREDICT, text, answer, &body), 200);
  assert_string_equal(strchr(body, '['), numbers);
  stop_server(&self);
}

// Sends an array as npy; returns the code.
static int post_array(int port, const char *path, ls_array *array, char *answer,
                      const char **body) {
  ls_array *bytes = NULL;
  expect_ok(ls_npy_print(array, &bytes));
  const int code =
      post(port, path, "Content-Type: application/octet-stream\r\n",
           ls_array_data(bytes), ls_array_size(bytes), answer, body, NULL);
  ls_array_release(bytes);
  return code;
}

TEST(bytes_of_images_are_scaled_as_in_training) {
  int classes[2];
  double probabilities[2];
  ls_array *images = NULL, *bytes = NULL;
  uint64_t seed = 3;
  FILE *file = fopen("images.npy", "wb");
  assert_non_null(file);
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(2, 28, 28, 1), &images));
  for (size_t i = 0; i < ls_array_size(images); ++i)
    ((uint8_t *)ls_array_mutable_data(images))[i] =
        (uint8_t)draw_below(&seed, 256);
  expect_ok(ls_npy_print(images, &bytes));
  fwrite(ls_array_data(bytes), 1, ls_array_size(bytes), file);
  assert_int_equal(fclose(file), 0);
  ls_array_release(bytes);
  run_command("train --model cnn --data synthetic --quiet --run-dir photos "
              "--steps 1 --batch-size 4 --test none --overwrite");
  run_command("export photos");
  run_command("predict photos --data images.npy");
  file = fopen("out.txt", "r");
  for (int i = 0; i < 2; ++i)
    assert_int_equal(fscanf(file, "{\"class\":%d,\"probability\":%lf,%*s ",
                            &classes[i], &probabilities[i]),
                     2);
  fclose(file);
  server self = start_server("photos --max-batch 1");
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, wanted) = malloc(ANSWER);
  const char *body = NULL;
  assert_int_equal(
      post_array(self.port, "/v1/models/photos:predict?signature_name=predict",
                 images, answer, &body),
      200);
  sprintf(wanted,
          "{\"outputs\":{\"class\":[%d,%d],\"probability\":[%.9g,%.9g]}}\n",
          classes[0], classes[1], probabilities[0], probabilities[1]);
  assert_string_equal(body, wanted);
  assert_int_equal(get(self.port, "GET", "/v1/models/photos", answer), 200);
  assert_non_null(strstr(answer, "[-1,28,28,1],\"scale\":\"u8 arrays are "
                                 "divided by 255\"}"));
  ls_array_release(images);
  // Rows of bytes may be numbers; an image of another size is none.
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(1, FEATURES), &images));
  assert_int_equal(post_array(self.port, PREDICT, images, answer, &body), 400);
  assert_non_null(strstr(body, "astype, and divide by 255 if the model was"));
  assert_int_equal(
      post_array(self.port, "/v1/models/photos:predict", images, answer, &body),
      400);
  assert_non_null(strstr(body, "is f32[?,28,28,1], the array is u8[1,16]\""));
  ls_array_release(images);
  stop_server(&self);
}

TEST(the_version_of_an_export_is_a_part_of_its_address) {
  server self = start_server("other=run-export/");
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, text) = malloc(ANSWER);
  const char *body = NULL;
  char path[160];
  const char *version = strrchr(export_path, '/') + 1;
  print_rows(text, "{\"instances\":", 0, 1);
  snprintf(path, sizeof(path), "/v1/models/mnist/versions/%s", version);
  assert_int_equal(get(self.port, "GET", path, answer), 200);
  assert_non_null(strstr(answer, version));
  strcat(path, ":predict");
  assert_int_equal(post_text(self.port, path, text, answer, &body), 200);
  assert_int_equal(get(self.port, "GET", "/v1/models/other/versions/1", answer),
                   200);
  assert_non_null(strstr(answer, "\"version\":\"1\""));
  static const char *const missing[] = {
      "/v1/models/other/versions/2", "/v1/models/other/versions/12",
      "/v1/models/other/metadata", "/v1/models/other/versions/1/metadata"};
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(get(self.port, "GET", missing[i], answer), 404);
    assert_non_null(strstr(answer, "/v1/models/other, each also with "
                                   "/versions/1 after the name"));
  }
  stop_server(&self);
}

// Folders of versions are named by numbers, also 0 and 007.
TEST(any_number_is_a_version) {
  static const char *const names[] = {"0", "007"};
  HEAP(char, answer) = malloc(ANSWER);
  for (size_t i = 0; i < 2; ++i) {
    char command[160], path[80];
    snprintf(command, sizeof(command),
             "mkdir -p versions && cp -r run-export versions/%s", names[i]);
    assert_int_equal(system(command), 0);
    server self = start_server("numbered=versions");
    snprintf(path, sizeof(path), "/v1/models/numbered/versions/%s", names[i]);
    assert_int_equal(get(self.port, "GET", path, answer), 200);
    assert_non_null(strstr(answer, names[i]));
    stop_server(&self);
  }
}

TEST(a_run_without_an_export_is_refused_with_the_command_that_makes_one) {
  assert_int_not_equal(system("\"$LOCKSTEP\" serve run 2>err.txt"), 0);
  assert_int_equal(system("grep -q \"'run' is a run without an export: make "
                          "one with lockstep export run\" err.txt"),
                   0);
}

TEST(a_quit_signal_prints_counts_alone) {
  server self = start_server("");
  assert_int_equal(kill(self.process, SIGQUIT), 0);
  int code = 1;
  for (int i = 0; i < 600 && code != 0; ++i) {
    code = system("grep -q '^answered 0 requests' serve.txt");
    usleep(50000);
  }
  assert_int_equal(code, 0);
  assert_int_not_equal(system("grep -q 'nothing is running' serve.txt"), 0);
  stop_server(&self);
}

// ---- Other signatures ------------------------------------------------------
// Exports a signature of two inputs with rows, and one whose output has none.
static void export_pair(char *path, size_t size) {
  static const char *const in[] = {"a", "b"};
  static const char *const out[] = {"sum", "difference"};
  ls_graph *graph = NULL;
  char *folder = NULL;
  ls_nest inputs, outputs, first, total, wide, open, product, centre;
  expect_ok(ls_graph_create("pair", &graph));
  {
    LS_GRAPH_SCOPE(graph);
    const ls_tensor a = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 3), "a");
    const ls_tensor b = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 3), "b");
    inputs = ls_nest_dict("", in, (ls_nest[]){ls_leaf(a), ls_leaf(b)}, 2);
    outputs = ls_nest_dict(
        "", out, (ls_nest[]){ls_leaf(ls_add(a, b)), ls_leaf(ls_sub(a, b))}, 2);
    first = ls_nest_dict("", in, (ls_nest[]){ls_leaf(a)}, 1);
    const ls_tensor zeros = ls_fill(LS_DTYPE_F32, LS_SHAPE(3, 64), 0);
    wide = ls_nest_dict("", (const char *const[]){"wide"},
                        (ls_nest[]){ls_leaf(ls_matmul(a, zeros))}, 1);
    const ls_tensor x = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, -1), "x");
    open = ls_nest_dict("", (const char *const[]){"x"}, (ls_nest[]){ls_leaf(x)},
                        1);
    product = ls_nest_dict("", (const char *const[]){"product"},
                           (ls_nest[]){ls_leaf(ls_matmul(x, zeros))}, 1);
    const ls_tensor mean = ls_reduce_mean(a, LS_AXES(0));
    centre = ls_nest_dict("", (const char *const[]){"centre"},
                          (ls_nest[]){ls_leaf(ls_sub(a, mean))}, 1);
    total =
        ls_nest_dict("", (const char *const[]){"total"},
                     (ls_nest[]){ls_leaf(ls_reduce_sum(a, LS_ALL_AXES))}, 1);
  }
  const ls_serving_signature signatures[] = {
      {{LS_SERVING_DEFAULT, LS_EXPORT_PREDICT, outputs}, inputs},
      {{"whole", LS_EXPORT_PREDICT, total}, first},
      {{"wide", LS_EXPORT_PREDICT, wide}, first},
      {{"open", LS_EXPORT_PREDICT, product}, open},
      {{"centre", LS_EXPORT_PREDICT, centre}, first}};
  const ls_serving_graph served = {
      .graph = graph, .signatures = signatures, .num_signatures = 5};
  expect_ok(ls_serving_export(
      &(ls_serving_options){.base = ".", .graphs = &served, .num_graphs = 1},
      &folder));
  snprintf(path, size, "pair=%s", folder);
  ls_text_release(folder);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_nest_release(first);
  ls_nest_release(total);
  ls_nest_release(centre);
  ls_nest_release(wide);
  ls_nest_release(open);
  ls_nest_release(product);
  ls_graph_destroy(graph);
}

#define PAIR "/v1/models/pair:predict"

TEST(several_inputs_and_outputs_have_names) {
  char path[256];
  export_pair(path, sizeof(path));
  server self = start_server(path);
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  assert_int_equal(post_text(self.port, PAIR,
                             "{\"\\u0069nstances\": [{\"\\u0062\": [4, 5, 6], "
                             "\"a\": [1, 2, 3]}], "
                             "\"signature_name\": \"serving_\\u0064efault\"}",
                             answer, &body),
                   200);
  assert_string_equal(body, "{\"predictions\":[{\"sum\":[5,7,9],"
                            "\"difference\":[-3,-3,-3]}]}\n");
  assert_int_equal(post_text(self.port, PAIR,
                             "{\"instances\": [{\"a\": [1, 2, 3]}]}", answer,
                             &body),
                   400);
  assert_non_null(strstr(body, "instance 0 lacks input 'b'"));
  assert_int_equal(post_text(self.port, PAIR,
                             "{\"inputs\": {\"a\": [[1, 2, 3]], "
                             "\"b\": [[1, 2, 3], [1, 2, 3]]}}",
                             answer, &body),
                   400);
  assert_non_null(strstr(body, "input 'a' has 1 rows, 'b' has 2"));
  stop_server(&self);
}

TEST(an_npz_file_has_several_inputs_and_an_address_names_an_output) {
  static const char *const names[] = {"b", "a"};
  const float values[] = {1, 2, 3};
  char path[256];
  size_t size = 0;
  ls_nest items[2];
  ls_array *got = NULL;
  export_pair(path, sizeof(path));
  for (int i = 0; i < 2; ++i) {
    ls_array *array = NULL;
    expect_ok(
        ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(1, 3), values, &array));
    items[i] = ls_nest_array(array);
  }
  const ls_nest arrays = ls_nest_dict("", names, items, 2);
  expect_ok(ls_npz_write("pair.npz", arrays, LS_FLAG_ON));
  ls_nest_release(arrays);
  HEAP(char, npz) = malloc(ANSWER);
  FILE *file = fopen("pair.npz", "rb");
  assert_non_null(file);
  const size_t npz_size = fread(npz, 1, ANSWER, file);
  fclose(file);
  server self = start_server(path);
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  static const char headers[] = "Content-Type: application/x-npz\r\n"
                                "Accept: application/x-npy\r\n";
  assert_int_equal(
      post(self.port, PAIR, headers, npz, npz_size, answer, &body, &size), 400);
  assert_non_null(strstr(body, "?output=NAME"));
  assert_int_equal(post(self.port, PAIR "?output=sum", headers, npz, npz_size,
                        answer, &body, &size),
                   200);
  expect_ok(ls_npy_parse(body, size, &got));
  for (int i = 0; i < 3; ++i)
    assert_true(ls_array_f64(got, i) == 2 * (double)values[i]);
  ls_array_release(got);
  stop_server(&self);
}

TEST(outputs_without_rows_are_run_alone_for_64_shapes) {
  char path[256];
  export_pair(path, sizeof(path));
  server self = start_server(path);
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, text) = malloc(ANSWER);
  const char *body = NULL;
  // Shapes that fail take no place.
  for (int size = 70; size >= 3; --size) {
    char *at = text + sprintf(text, "{\"signature_name\":\"open\","
                                    "\"inputs\":[[1");
    for (int i = 1; i < size; ++i)
      at += sprintf(at, ",1");
    sprintf(at, "]]}");
    assert_int_equal(post_text(self.port, PAIR, text, answer, &body),
                     size > 3 ? 400 : 200);
    assert_null(strstr(body, "different shapes"));
  }
  for (int rows = 1; rows <= 65; ++rows) {
    size_t size =
        (size_t)sprintf(text, "{\"signature_name\":\"whole\",\"inputs\":[");
    for (int i = 0; i < rows; ++i)
      size += (size_t)sprintf(text + size, "%s[1,2,3]", i > 0 ? "," : "");
    sprintf(text + size, "]}");
    const int code = post_text(self.port, PAIR, text, answer, &body);
    assert_int_equal(code, rows <= 64 ? 200 : 400);
    sprintf(text, "{\"outputs\":%d}\n", 6 * rows);
    if (rows <= 64) assert_string_equal(body, text);
  }
  assert_non_null(strstr(body, "64 different shapes"));
  assert_int_equal(post_text(self.port, PAIR "?signature_name=whole",
                             "{\"instances\": [[1, 2, 3]]}", answer, &body),
                   400);
  assert_non_null(strstr(body, "instead of \\\"instances"));
  stop_server(&self);
}

TEST(a_request_is_one_run_with_batches_of_one) {
  char path[256];
  export_pair(path, sizeof(path));
  strcat(path, " --max-batch 1");
  server self = start_server(path);
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  assert_int_equal(post_text(self.port, PAIR "?signature_name=centre",
                             "{\"instances\":[[1,2,3],[3,4,5]]}", answer,
                             &body),
                   200);
  assert_string_equal(body, "{\"predictions\":[[-1,-1,-1],[1,1,1]]}\n");
  stop_server(&self);
}

TEST(outputs_far_larger_than_a_body_are_refused) {
  char path[256];
  export_pair(path, sizeof(path));
  strcat(path, " --max-body 1");
  server self = start_server(path);
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, text) = malloc(1 << 20);
  const char *body = NULL;
  size_t size = (size_t)sprintf(text, "{\"inputs\":[[1,2,3]");
  for (int i = 0; i < 100000; ++i)
    size += (size_t)sprintf(text + size, ",[1,2,3]");
  strcpy(text + size, "]}");
  // One with a batch is refused before it runs; one that runs alone, after.
  static const char *const paths[] = {PAIR "?signature_name=wide",
                                      PAIR "?signature_name=open"};
  for (size_t i = 0; i < 2; ++i) {
    assert_int_equal(post_text(self.port, paths[i], text, answer, &body), 400);
    assert_non_null(strstr(body, "outputs have 24 MiB, and may have 16"));
  }
  stop_server(&self);
}

// Starts a request for an npy file, and reads the first byte of its answer.
static int begin_large(int port, const char *text) {
  char head[512], byte;
  const int client = connect_to(port), few = 1 << 16;
  setsockopt(client, SOL_SOCKET, SO_RCVBUF, &few, sizeof(few));
  const int size =
      snprintf(head, sizeof(head),
               "POST " PAIR "?signature_name=wide HTTP/1.1\r\nHost: x\r\n"
               "Accept: application/x-npy\r\nContent-Length: %zu\r\n\r\n",
               strlen(text));
  assert_int_equal(send(client, head, (size_t)size, MSG_NOSIGNAL), size);
  assert_int_equal(send(client, text, strlen(text), MSG_NOSIGNAL),
                   strlen(text));
  assert_int_equal(recv(client, &byte, 1, 0), 1);
  return client;
}

TEST(answers_that_nobody_reads_are_bounded) {
  enum { MOST = 4, NUM_ROWS = 60000 };  // Of 64 numbers: 15 MiB.
  char path[256];
  export_pair(path, sizeof(path));
  strcat(path, " --max-body 1");
  server self = start_server(path);
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, text) = malloc(1 << 20);
  const char *body = NULL;
  int clients[MOST];
  size_t size = (size_t)sprintf(text, "{\"inputs\":[[1,2,3]");
  for (int i = 1; i < NUM_ROWS; ++i)
    size += (size_t)sprintf(text + size, ",[1,2,3]");
  strcpy(text + size, "]}");
  for (int i = 0; i < MOST; ++i)
    clients[i] = begin_large(self.port, text);
  assert_int_equal(
      post_text(self.port, PAIR "?signature_name=wide", text, answer, &body),
      503);
  assert_non_null(strstr(body, "the outputs of all requests"));
  for (int i = 0; i < MOST; ++i)
    close(clients[i]);
  int code = 503;
  for (int i = 0; code == 503 && i < 100; ++i) {
    usleep(50000);
    code = post(self.port, PAIR "?signature_name=wide",
                "Accept: application/x-npy\r\n", text, strlen(text), answer,
                &body, NULL);
  }
  assert_int_equal(code, 200);
  stop_server(&self);
}

// ---- Many at a time --------------------------------------------------------
typedef struct client {
  int port, row, rounds, answered, wrong;
  const char *wanted;  // The answer to the row alone; NULL: not compared.
  pthread_t thread;
} client;

static void *run_client(void *user) {
  client *self = user;
  char text[1024], *answer = malloc(ANSWER);
  const char *body = NULL;
  print_rows(text, "{\"instances\":", self->row, self->row + 1);
  for (int i = 0; i < self->rounds; ++i) {
    const int code = post_text(self->port, PREDICT, text, answer, &body);
    self->answered += code == 200;
    const bool refused = self->wanted == NULL && (code == 0 || code == 503);
    self->wrong +=
        !(code == 200 ? self->wanted == NULL || strcmp(body, self->wanted) == 0
                      : refused);
  }
  free(answer);
  return NULL;
}

TEST(a_row_has_the_same_answer_alone_and_among_64_clients) {
  server self = start_server("--max-wait-us 20000");
  static client clients[CLIENTS];
  static char wanted[CLIENTS][512];
  HEAP(char, answer) = malloc(ANSWER);
  char text[1024];
  const char *body = NULL;
  for (int i = 0; i < CLIENTS; ++i) {
    print_rows(text, "{\"instances\":", i, i + 1);
    assert_int_equal(post_text(self.port, PREDICT, text, answer, &body), 200);
    snprintf(wanted[i], sizeof(wanted[i]), "%s", body);
    clients[i] =
        (client){.port = self.port, .row = i, .rounds = 4, .wanted = wanted[i]};
  }
  for (int i = 0; i < CLIENTS; ++i)
    assert_int_equal(
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
  for (int i = 0; i < CLIENTS; ++i) {
    pthread_join(clients[i].thread, NULL);
    assert_int_equal(clients[i].answered, 4);
    assert_int_equal(clients[i].wrong, 0);
  }
  // Fewer batches than requests: some ran together.
  assert_int_equal(get(self.port, "GET", "/metrics", answer), 200);
  const char *count = strstr(answer, "lockstep_batch_rows_count ");
  assert_non_null(count);
  assert_true(atoi(strchr(count, ' ')) < 5 * CLIENTS);
  assert_non_null(strstr(answer, "lockstep_requests_total{code=\"200\"} 320"));
  stop_server(&self);
}

TEST(a_full_queue_is_answered_with_503) {
  server self = start_server("--max-queue 1 --max-wait-us 500000");
  static client clients[4];
  HEAP(char, answer) = malloc(ANSWER);
  for (int i = 0; i < 4; ++i) {
    clients[i] = (client){.port = self.port, .row = i, .rounds = 1};
    assert_int_equal(
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
  }
  int answered = 0;
  for (int i = 0; i < 4; ++i) {
    pthread_join(clients[i].thread, NULL);
    assert_int_equal(clients[i].wrong, 0);
    answered += clients[i].answered;
  }
  assert_in_range(answered, 1, 4);
  char wanted[64];
  snprintf(wanted, sizeof(wanted), "{code=\"503\"} %d\n", 4 - answered);
  assert_int_equal(get(self.port, "GET", "/metrics", answer), 200);
  assert_non_null(strstr(answer, wanted));
  stop_server(&self);
}

TEST(the_end_under_load_finishes_what_is_here) {
  server self = start_server("");
  static client clients[8];
  for (int i = 0; i < 8; ++i) {
    clients[i] = (client){.port = self.port, .row = i, .rounds = 150};
    assert_int_equal(
        pthread_create(&clients[i].thread, NULL, run_client, &clients[i]), 0);
  }
  usleep(50000);
  stop_server(&self);
  for (int i = 0; i < 8; ++i) {
    pthread_join(clients[i].thread, NULL);
    assert_int_equal(clients[i].wrong, 0);
  }
  HEAP(char, answer) = malloc(ANSWER);
  assert_int_equal(get(self.port, "GET", "/healthz", answer), 0);
}

// ---- Texts -----------------------------------------------------------------
#define GENERATE "/v1/models/words:generate"

// Exports a language model of bytes.
static void make_words(void) {
  static bool is_made;
  if (is_made) return;
  is_made = true;
  run_command("train --model \"$LS_BUILD_DIR\"/tests/cli/libraries/"
              "language.so:words --data rows.csv --quiet --run-dir words-run "
              "--steps 30 --test none --overwrite");
  (void)!system("rm -rf words");
  run_command("export words-run --model "
              "\"$LS_BUILD_DIR\"/tests/cli/libraries/language.so:words "
              "--out words");
}

// Reads the text of `lockstep generate` from out.txt, without its line's end.
static size_t read_text(char *text) {
  FILE *file = fopen("out.txt", "r");
  assert_non_null(file);
  const size_t size = fread(text, 1, ANSWER, file);
  fclose(file);
  assert_true(size > 0 && text[size - 1] == '\n');
  return size - 1;
}

TEST(texts_are_those_of_generate) {
  make_words();
  server self = start_server("words");
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, wanted) = malloc(ANSWER);
  const char *body = NULL;
  size_t body_size = 0;
  static const struct {
    const char *flags, *request;
  } rows[] = {
      {"--prompt 1.2 --tokens 40", "{\"prompt\": \"1.2\", \"tokens\": 40}"},
      {"--prompt \"caf\303\251 \\\"\" --tokens 9 --seed 7 --temperature 0.5",
       "{\"prompt\":\"caf\\u00e9 \\\"\", \"tokens\":9, \"seed\":7,"
       "\"temperature\":5e-1}"},
      {"--top-k 3 --tokens 20 --temperature 4",
       " { \"top_k\" : 3 , \"tokens\" : 20 , \"temperature\" : 4 } "},
      {"--temperature 0", "{\"temperature\": 0}"},
      {"", "{}"},
      {"", "{\"prompt\": \"\"}"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    char words[256];
    snprintf(words, sizeof(words), "generate words %s", rows[i].flags);
    run_command(words);
    const size_t size = read_text(wanted);
    assert_int_equal(post(self.port, GENERATE, "Accept: text/plain\r\n",
                          rows[i].request, strlen(rows[i].request), answer,
                          &body, &body_size),
                     200);
    assert_int_equal(body_size, size);
    assert_memory_equal(body, wanted, size);
  }
  // JSON has U+FFFD for bytes that are no UTF-8.
  assert_int_equal(post_text(self.port, GENERATE,
                             "{\"prompt\":\"a\\nb \xff\xc3\xa9\xe2\x82\","
                             "\"tokens\":1,\"temperature\":0}",
                             answer, &body),
                   200);
  assert_memory_equal(body, "{\"text\":\"a\\u000ab \\ufffd\xc3\xa9\\ufffd", 31);
  assert_int_equal(get(self.port, "GET", "/v1/models/words", answer), 200);
  assert_non_null(strstr(answer, "\"generates\":true"));
  stop_server(&self);
}

typedef struct reader {
  pthread_t thread;
  int port, code;
  char request[128];
  char *answer;
} reader;

static void *read_one(void *argument) {
  reader *r = argument;
  const char *body = NULL;
  r->code = post_text(r->port, GENERATE, r->request, r->answer, &body);
  memmove(r->answer, body, strlen(body) + 1);
  return NULL;
}

TEST(texts_at_one_time_do_not_mix_and_predictions_run_between_them) {
  make_words();
  server self = start_server("words");
  static reader readers[6];
  HEAP(char, answers) = malloc((size_t)6 * ANSWER);
  HEAP(char, answer) = malloc(ANSWER);
  char text[1024];
  const char *body = NULL;
  for (int i = 0; i < 6; ++i) {
    readers[i].port = self.port;
    readers[i].answer = answers + (size_t)i * ANSWER;
    snprintf(readers[i].request, sizeof(readers[i].request),
             "{\"prompt\":\"ab\",\"tokens\":300,\"seed\":%d}", i / 2);
    assert_int_equal(
        pthread_create(&readers[i].thread, NULL, read_one, &readers[i]), 0);
  }
  print_rows(text, "{\"instances\":", 0, 1);
  for (int i = 0; i < 20; ++i)
    assert_int_equal(post_text(self.port, PREDICT, text, answer, &body), 200);
  for (int i = 0; i < 6; ++i) {
    pthread_join(readers[i].thread, NULL);
    assert_int_equal(readers[i].code, 200);
  }
  for (int i = 0; i < 6; i += 2) {
    assert_string_equal(readers[i].answer, readers[i + 1].answer);
    assert_string_not_equal(readers[i].answer, readers[(i + 2) % 6].answer);
  }
  stop_server(&self);
}

// Asks for a text without an end, and waits until it is in the queue.
static int begin_endless(int port) {
  static const char request[] =
      "POST " GENERATE " HTTP/1.1\r\nHost: x\r\nContent-Length: 21\r\n\r\n"
      "{\"tokens\":1000000000}";
  HEAP(char, answer) = malloc(ANSWER);
  const int asking = connect_to(port);
  assert_int_equal(send(asking, request, strlen(request), MSG_NOSIGNAL),
                   strlen(request));
  do {
    usleep(1000);
    assert_int_equal(get(port, "GET", "/metrics", answer), 200);
  } while (strstr(answer, "\nlockstep_waiting_requests 0\n") != NULL);
  return asking;
}

TEST(texts_end_with_their_client_and_with_the_server) {
  make_words();
  server self = start_server("words --max-tokens 1000000000");
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  const int gone = begin_endless(self.port);
  close(gone);
  assert_int_equal(
      post_text(self.port, GENERATE, "{\"tokens\": 3}", answer, &body), 200);
  const int last = begin_endless(self.port);
  stop_server(&self);
  read_answer(last, answer);
  close(last);
  expect_contains(answer, "HTTP/1.1 503 ");
  expect_contains(answer, "the server is stopping");
}

TEST(bytes_are_answered_to_a_client_that_prefers_them) {
  static const struct {
    const char *accept;
    bool is_json;
  } rows[] = {
      {"Accept: text/plain\r\n", false},
      {"Accept: application/octet-stream, */*\r\n", false},
      {"Accept: application/json;q=0.5,TEXT/PLAIN\r\n", false},
      {"Accept: text/plain;charset=x;q=0.2, */* ; q=0.1\r\n", false},
      {"Accept: application/json, text/plain, */*\r\n", true},
      {"Accept: */*, text/plain\r\n", true},
      {"Accept: text/plain;q=0.2, */*;q=0.8\r\n", true},
      {"Accept: text/plain;q=0\r\n", true},
      {"Accept: text/html,,text/plains,\r\n", true},
      {"", true},
  };
  make_words();
  server self = start_server("words");
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  static const char request[] = "{\"prompt\":\"ab\",\"tokens\":1}";
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    assert_int_equal(post(self.port, GENERATE, rows[i].accept, request,
                          strlen(request), answer, &body, NULL),
                     200);
    if ((strncmp(body, "{\"text\":", 8) == 0) != rows[i].is_json)
      print_error("%s: %s\n", rows[i].accept, body);
    assert_int_equal(strncmp(body, "{\"text\":", 8) == 0, rows[i].is_json);
  }
  stop_server(&self);
}

TEST(texts_that_cannot_be_are_refused) {
  make_words();
  server self = start_server("words --max-tokens 50");
  HEAP(char, answer) = malloc(ANSWER);
  const char *body = NULL;
  static const struct {
    const char *text, *wanted;
  } rows[] = {
      {"", "ends at line 1, byte 1: expected an object"},
      {"[1]", "expected an object"},
      {"{\"prompt\": 1}", "'prompt' is 1, expected a string"},
      {"{\"tokens\": \"1\"}", "expected a number"},
      {"{\"tokens\": null}", "'tokens' is null, expected a number"},
      {"{\"tokens\": 0}", "'tokens' is 0, expected "},
      {"{\"tokens\": 51}", "'tokens' is 51, expected at most 50"},
      {"{\"tokens\": 1.5}", "'tokens' is 1.5, expected "},
      {"{\"temperature\": -1}", "'temperature' is -1, expected 0 or"},
      {"{\"seed\": 1, \"seeds\": 1}", "there is no member 'seeds'"},
      {"{\"top-k\": 1}", "there is no member 'top-k'"},
      {"{\"prompt\": \"\\u0000\"}", "zero byte"},
      {"{\"prompt\": \"\\ud800\"}", "no text"},
      {"{\"prompt\": \"a\"} 1", "expected the end"},
      {"{\"prompt\": \"a\",}", "expected a string"},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    assert_int_equal(
        post_text(self.port, GENERATE, rows[i].text, answer, &body), 400);
    expect_contains(body, rows[i].wanted);
  }
  assert_int_equal(
      post_text(self.port, "/v1/models/mnist:generate", "{}", answer, &body),
      400);
  expect_contains(body, "'mnist' is not a language model");
  assert_int_equal(post_text(self.port, "/v1/models/words:predict",
                             "{\"instances\": [[0,1,2,3,4,5,6,7,8,9,10,11,12,"
                             "13,14,256]]}",
                             answer, &body),
                   400);
  expect_contains(body, "number 16 of input 'examples' is 256: the model's "
                        "tokens are 0 to 255");
  assert_int_equal(post(self.port, GENERATE,
                        "Content-Type: application/x-npy\r\n", "{}", 2, answer,
                        &body, NULL),
                   415);
  assert_int_equal(get(self.port, "GET", GENERATE, answer), 405);
  assert_int_equal(post_text(self.port, GENERATE, "{}", answer, &body), 200);
  stop_server(&self);
}

// ---- Refusals --------------------------------------------------------------
TEST(wrong_requests_are_answered_with_their_code_and_a_sentence) {
  static const struct {
    const char *text, *wanted;
    int code;
  } rows[] = {
      {"", "ends at line 1, byte 1", 400},
      {"{\"instances\": [[1, 2]]}", "'examples'[0] has 2 items, expected 16",
       400},
      {"{\"instances\": [[1, 2],}", "expected a value", 400},
      {"{\"instances\": [\"x\"]}", "is no list", 400},
      {"{\"instances\": [1, 2]}",
       "'examples' has 1 dimension, expected a list of examples: put one "
       "example in [ ]; the input is f32[?,16]",
       400},
      {"{\"inputs\": [1, 2]}", "expected a list of examples", 400},
      {"{\"instances\": [[1, 2], 3]}", "has 2 items, expected 16", 400},
      {"{\"instances\": []}", "empty", 400},
      {"{\"instances\": [{\"y\": 1}]}", "no input 'y'", 400},
      {"{\"inputs\": {}}", "needs input 'examples'", 400},
      {"{\"inputs\": 1, \"instances\": 2}", "either", 400},
      {"{\"input\": 1}", "as names of members", 400},
      {"{\"signature_name\": \"z\", \"inputs\": 1}", "it has", 404},
  };
  server self = start_server("--max-body 1");
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, large) = calloc(1, LARGE);
  const char *body = NULL;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    const int code = post_text(self.port, PREDICT, rows[i].text, answer, &body);
    if (code != rows[i].code || strstr(body, rows[i].wanted) == NULL)
      print_error("%s: %d %s\n", rows[i].text, code, body);
    assert_int_equal(code, rows[i].code);
    assert_non_null(strstr(body, rows[i].wanted));
    assert_memory_equal(body, "{\"error\":\"", 10);
  }
  assert_int_equal(
      post_text(self.port, "/v1/models/x:predict", "{}", answer, &body), 404);
  assert_int_equal(post_text(self.port, "/healthz", "{}", answer, &body), 405);
  assert_int_equal(get(self.port, "GET", PREDICT, answer), 405);
  assert_non_null(strstr(answer, "Allow: POST"));
  assert_int_equal(get(self.port, "POST", PREDICT, answer), 411);
  assert_int_equal(post(self.port, PREDICT, "Content-Type: image/png\r\n", "x",
                        1, answer, &body, NULL),
                   415);
  assert_int_equal(
      post(self.port, PREDICT, "", large, LARGE, answer, &body, NULL), 413);
  // Without leave to send a body, none is read.
  size_t size = 0;
  const char *asks = "POST " PREDICT " HTTP/1.1\r\nHost: x\r\nExpect: "
                     "100-continue\r\nContent-Length: 9999999\r\n\r\n";
  assert_int_equal(
      send_bytes(self.port, asks, strlen(asks), true, answer, &size), 413);
  asks = "POST " PREDICT " HTTP/1.1\r\nHost: x\r\n"
         "Content-Length: 9999999999\r\n\r\n";
  assert_int_equal(
      send_bytes(self.port, asks, strlen(asks), true, answer, &size), 413);
  ls_array *doubles = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F64, LS_SHAPE(1, FEATURES), &doubles));
  assert_int_equal(post_array(self.port, PREDICT, doubles, answer, &body), 400);
  assert_non_null(strstr(body, "f64[1,16]: convert it with NumPy's astype"));
  ls_array_release(doubles);
  assert_int_equal(get(self.port, "GET", "/v1/models/mnist", answer), 200);
  assert_non_null(strstr(answer, "\"examples\":{\"dtype\":\"f32\",\"shape\":"
                                 "[-1,16]}"));
  assert_non_null(strstr(answer, "\"classes\":[\"a shoe\",\"bag\",\"coat\"]"));
  stop_server(&self);
}

TEST(a_connection_answers_several_requests) {
  server self = start_server("");
  HEAP(char, answer) = malloc(ANSWER);
  size_t size = 0;
  static const char asks[] = "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
                             "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n"
                             "GET /v1/models/mnist HTTP/1.1\r\n"
                             "Host: x\r\nConnection: close\r\n\r\n";
  assert_int_equal(
      send_bytes(self.port, asks, strlen(asks), true, answer, &size), 200);
  expect_contains(answer, "{\"models\":[\"mnist\"]}");
  expect_contains(answer, "\"classes\":[\"a shoe\"");
  stop_server(&self);
}

TEST(a_body_of_two_lengths_is_refused) {
  static const char *const more[] = {"Content-Length: 3",
                                     "Transfer-Encoding: chunked"};
  static const char *const methods[] = {"POST " PREDICT, "GET /healthz"};
  server self = start_server("");
  HEAP(char, answer) = malloc(ANSWER);
  for (size_t i = 0; i < 4; ++i) {
    char request[256];
    size_t size = 0;
    snprintf(request, sizeof(request),
             "%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n%s\r\n\r\n{}",
             methods[i / 2], more[i % 2]);
    assert_int_equal(
        send_bytes(self.port, request, strlen(request), true, answer, &size),
        400);
    expect_contains(answer, "Connection: close");
  }
  stop_server(&self);
}

TEST(a_port_in_use_and_an_address_that_is_none_are_refused) {
  server self = start_server("");
  char command[256];
  snprintf(command, sizeof(command),
           "\"$LOCKSTEP\" serve mnist --port %d 2>err.txt", self.port);
  assert_int_not_equal(system(command), 0);
  assert_int_equal(system("grep -q 'cannot listen at 127.0.0.1' err.txt"), 0);
  assert_int_not_equal(
      system("\"$LOCKSTEP\" serve mnist --address here 2>err.txt"), 0);
  assert_int_equal(system("grep -q \"address is 'here'\" err.txt"), 0);
  stop_server(&self);
}

TEST(a_request_that_never_ends_is_ended) {
  server self = start_server("--timeout 1");
  HEAP(char, answer) = malloc(ANSWER);
  const int header = connect_to(self.port), body = connect_to(self.port);
  const char *half = "POST " PREDICT " HTTP/1.1\r\nHost: x\r\n"
                     "Content-Length: 100\r\n\r\n{";
  (void)!send(header, half, 20, MSG_NOSIGNAL);
  (void)!send(body, half, strlen(half), MSG_NOSIGNAL);
  assert_int_equal(read_answer(header, answer), 0);
  assert_int_equal(read_answer(body, answer), 0);
  close(header);
  close(body);
  stop_server(&self);
}

// Returns the resident memory of a process, in KiB.
static long memory_of(pid_t process) {
  char path[64], line[256];
  long size = -1;
  snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof(line), file) != NULL)
    (void)sscanf(line, "VmRSS: %ld", &size);
  fclose(file);
  return size;
}

// Sends requests with a few bytes changed, left out or added.
static void send_damaged(const server *self, uint64_t *state, int count) {
  HEAP(char, answer) = malloc(ANSWER);
  HEAP(char, sent) = malloc(ANSWER);
  char text[2048];
  for (int i = 0; i < count; ++i) {
    size_t got = 0;
    const size_t body = print_rows(text, "{\"instances\":", 0, 1);
    size_t size = (size_t)sprintf(
        sent,
        "POST " PREDICT " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        "Content-Length: %zu\r\n\r\n%s",
        body, text);
    for (uint64_t edits = 1 + draw_below(state, 4); edits > 0; --edits) {
      // Half of the edits are of the body.
      const size_t from = draw_below(state, 2) > 0 ? size - body : 0;
      const size_t at = from + draw_below(state, size - from);
      const uint64_t kind = draw_below(state, 3);
      if (kind == 0) sent[at] = (char)draw_below(state, 256);
      if (kind == 1) size = at;
      if (kind == 2) sent[at] = "{}[]\",:\\-e0\r\n /"[draw_below(state, 15)];
      if (size <= body) break;
    }
    const int code = send_bytes(self->port, sent, size, false, answer, &got);
    const bool fine = code == 0 || code == 200 || (code >= 400 && code < 500) ||
                      code == 501 || code == 505;
    if (!fine) print_error("%d: %.*s\n", code, (int)size, sent);
    assert_true(fine);
  }
}

TEST(a_thousand_damaged_requests_do_no_harm) {
  server self = start_server("--timeout 2");
  HEAP(char, answer) = malloc(ANSWER);
  const int count = LS_SANITIZED ? 200 : 1000;
  uint64_t seed = number_from_environment("LS_TEST_SEED", 1);
  send_damaged(&self, &seed, count / 5);
  const long before = memory_of(self.process);
  send_damaged(&self, &seed, count);
  if (!LS_SANITIZED) assert_in_range(memory_of(self.process), 1, before + 4096);
  assert_int_equal(get(self.port, "GET", "/healthz", answer), 200);
  stop_server(&self);
}

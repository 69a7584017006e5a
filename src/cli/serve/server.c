// SPDX-License-Identifier: Apache-2.0
// HTTP by libmicrohttpd: addresses, bodies, answers, limits and the end.
//
// A few threads of libmicrohttpd serve all connections. One with a request in
// the batcher is suspended, so that it needs no thread meanwhile. Time limits
// are deadlines of connections: for a request's header, its body, its time in
// the queue, the sending of its answer, and the time between requests. The main
// thread runs the batches, and ends connections that are late.
#define _GNU_SOURCE
#include "cli/serve/serve.h"

#ifndef LS_HAVE_MICROHTTPD
ls_status cli_service_run(cli_service *service) {
  (void)service;
  return ls_unimplemented("this lockstep was built without an HTTP server: "
                          "install libmicrohttpd (Debian: libmicrohttpd-dev), "
                          "then build it again");
}
#else

#include <errno.h>
#include <locale.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/serve/http.h"

enum {
  HEADER_BYTES = 32 << 10,  // Largest header of a request.
  MOST_CONNECTIONS = 1024,
  MOST_BODIES = 16,  // Bodies of the largest size that are held at a time.
  MOST_DROPPED = 1 << 30,  // Largest body that is too long and read to its end.
};

// ---- Connections -----------------------------------------------------------
// A connection and the time at which it is ended, 0: none.
typedef struct link_state {
  int socket;
  int64_t deadline_ns;  // Atomic.
  struct link_state *previous, *next;
} link_state;

typedef struct server {
  cli_service *service;
  struct MHD_Daemon *daemon;
  pthread_mutex_t lock;  // Guards the list of connections.
  link_state *links;
  locale_t numbers;      // Numbers with a decimal point.
  int64_t num_requests;  // Requests not answered yet. Atomic.
  int64_t body_bytes;    // Memory of all bodies. Atomic.
  bool stopping;         // Atomic.
} server;

static void set_deadline(const server *self, link_state *link, bool runs) {
  const int64_t timeout = self->service->limits.timeout_s * 1000000000;
  if (link != NULL)
    __atomic_store_n(&link->deadline_ns, runs ? cli_now_ns() + timeout : 0,
                     __ATOMIC_RELAXED);
}

static link_state *link_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = cli_http.get_connection_info(
      connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info != NULL ? info->socket_context : NULL;
}

static void note_connection(void *user, struct MHD_Connection *connection,
                            void **context,
                            enum MHD_ConnectionNotificationCode event) {
  server *self = user;
  if (event == MHD_CONNECTION_NOTIFY_STARTED) {
    link_state *link = cli_allocate(sizeof(*link));
    const union MHD_ConnectionInfo *info = cli_http.get_connection_info(
        connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    *context = link;
    if (link == NULL || info == NULL) return;
    link->socket = info->connect_fd;
    set_deadline(self, link, true);
    pthread_mutex_lock(&self->lock);
    link->next = self->links;
    if (link->next != NULL) link->next->previous = link;
    self->links = link;
    pthread_mutex_unlock(&self->lock);
    return;
  }
  link_state *link = *context;
  if (link == NULL) return;
  pthread_mutex_lock(&self->lock);
  if (link->next != NULL) link->next->previous = link->previous;
  if (link->previous != NULL)
    link->previous->next = link->next;
  else if (self->links == link)
    self->links = link->next;
  pthread_mutex_unlock(&self->lock);
  cli_release(link);
  *context = NULL;
}

// Ends the connections that are late: libmicrohttpd then sees their end.
static void end_late(server *self) {
  const int64_t now = cli_now_ns();
  pthread_mutex_lock(&self->lock);
  for (link_state *it = self->links; it != NULL; it = it->next) {
    const int64_t deadline =
        __atomic_load_n(&it->deadline_ns, __ATOMIC_RELAXED);
    if (deadline != 0 && now > deadline) shutdown(it->socket, SHUT_RDWR);
  }
  pthread_mutex_unlock(&self->lock);
}

// ---- Requests --------------------------------------------------------------
// A request and its answer.
typedef struct exchange {
  server *self;
  struct MHD_Connection *connection;
  link_state *link;
  cli_served *model;      // The model that is asked; NULL: none.
  const char *signature;  // From the address; NULL: none.
  cli_body_kind kind;
  cli_buffer body;
  int64_t begin_ns;
  bool is_text;  // A text is asked for, not a prediction.
  bool begun, too_long, queued, answered;
  cli_job job;
} exchange;

// Releases what an answer of `size` bytes does not need.
static void release_job(exchange *x, size_t size) {
  __atomic_sub_fetch(&x->self->body_bytes, (int64_t)x->body.capacity,
                     __ATOMIC_RELAXED);
  cli_release(x->body.data);
  x->body = (cli_buffer){0};
  cli_request_close(&x->job.request);
  ls_nest_release(x->job.outputs);
  x->job.outputs = ls_none();
  cli_batcher_hold(x->self->service->batcher, &x->job, (int64_t)size);
}

static void end_exchange(void *user, struct MHD_Connection *connection,
                         void **context, enum MHD_RequestTerminationCode code) {
  server *self = user;
  exchange *x = *context;
  (void)connection;
  (void)code;
  if (x == NULL) return;
  set_deadline(self, x->link, true);
  release_job(x, 0);
  __atomic_sub_fetch(&self->num_requests, 1, __ATOMIC_RELAXED);
  cli_text_close(x->job.text);
  ls_status_free(x->job.status);
  cli_release(x);
  *context = NULL;
}

// ---- Answers ---------------------------------------------------------------
static void release_array(void *array) { ls_array_release(array); }

// Answers with a response of `size` bytes, which it takes over.
static enum MHD_Result send_response(exchange *x, int code, const char *type,
                                     size_t size,
                                     struct MHD_Response *response) {
  if (response == NULL) return MHD_NO;
  release_job(x, size);
  const int64_t now = cli_now_ns();
  cli_http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  if (code == MHD_HTTP_SERVICE_UNAVAILABLE)
    cli_http.add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
  if (__atomic_load_n(&x->self->stopping, __ATOMIC_RELAXED))
    cli_http.add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  set_deadline(x->self, x->link, true);
  const enum MHD_Result result =
      cli_http.queue_response(x->connection, (unsigned)code, response);
  cli_http.destroy_response(response);
  x->answered = true;
  cli_metrics_answer(code, now - x->begin_ns);
  return result;
}

// Answers with a text, which it takes over.
static enum MHD_Result send_text(exchange *x, int code, const char *type,
                                 cli_buffer *text) {
  return send_response(x, code, type, text->size,
                       cli_http.create_response_from_buffer_with_free_callback(
                           text->size, text->data, cli_release));
}

// Answers with an error, which it frees, as TensorFlow Serving does. `allowed`
// names the methods that are (NULL: not asked).
static enum MHD_Result send_error(exchange *x, int code, const char *allowed,
                                  ls_status status) {
  cli_buffer text = {0};
  FILE *to = cli_buffer_open(&text);
  const char *message = ls_status_message(status);
  if (to != NULL) {
    fputs("{\"error\":", to);
    cli_write_json(to, message, strcspn(message, "\n"));
    fputs("}\n", to);
    fclose(to);
  }
  ls_status_free(status);
  struct MHD_Response *response =
      cli_http.create_response_from_buffer_with_free_callback(
          text.size, text.data, cli_release);
  if (response != NULL && allowed != NULL)
    cli_http.add_response_header(response, MHD_HTTP_HEADER_ALLOW, allowed);
  return send_response(x, code, "application/json", text.size, response);
}

static int code_of(ls_status status) {
  switch (ls_status_code(status)) {
  case LS_INVALID_ARGUMENT:
  case LS_DATA_LOSS:
  case LS_UNIMPLEMENTED:
  case LS_OUT_OF_RANGE:
    return MHD_HTTP_BAD_REQUEST;
  case LS_NOT_FOUND:
    return MHD_HTTP_NOT_FOUND;
  case LS_UNAVAILABLE:
  case LS_RESOURCE_EXHAUSTED:
    return MHD_HTTP_SERVICE_UNAVAILABLE;
  default:
    return MHD_HTTP_INTERNAL_SERVER_ERROR;
  }
}

static const char *header_of(const exchange *x, const char *name) {
  const char *value =
      cli_http.lookup_connection_value(x->connection, MHD_HEADER_KIND, name);
  return value != NULL ? value : "";
}

// Returns true if a type is this one, whatever its parameters.
static bool type_is(const char *type, const char *wanted) {
  const size_t size = strlen(wanted);
  return strncasecmp(type, wanted, size) == 0 &&
         strchr(";, \t", type[size]) != NULL;
}

// Returns the weight of a type in an Accept header, 1 if it has none.
static double weight_of(const char *type, size_t size) {
  const char *weight = strcasestr(type, "q=");
  return weight != NULL && weight < type + size ? strtod(weight + 2, NULL) : 1;
}

// Returns true if a client prefers the bytes of an answer to JSON: the first of
// the types that it gives the most weight.
static bool prefers_bytes(const exchange *x) {
  const char *const types[] = {"application/octet-stream",
                               x->is_text ? "text/plain" : "application/x-npy",
                               "application/json", "application/*", "*/*"};
  bool is_bytes = false;
  double best = 0;
  size_t size = 0;
  for (const char *at = header_of(x, MHD_HTTP_HEADER_ACCEPT); *at != '\0';
       at += size) {
    at += strspn(at, ", \t");
    size = strcspn(at, ",");
    const double weight = weight_of(at, size);
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); ++i) {
      if (!type_is(at, types[i]) || !(weight > best)) continue;
      is_bytes = i < 2;
      best = weight;
    }
  }
  return is_bytes;
}

// Answers with the outputs of a finished job.
static enum MHD_Result send_outputs(exchange *x) {
  if (!ls_status_is_ok(x->job.status)) {
    const ls_status status = cli_give(&x->job.status);
    return send_error(x, code_of(status), NULL, status);
  }
  const bool is_raw = prefers_bytes(x);
  if (is_raw && !x->is_text) {
    ls_array *bytes = NULL;
    const ls_status status =
        cli_answer_npy(&x->job.request, x->job.outputs,
                       cli_http.lookup_connection_value(
                           x->connection, MHD_GET_ARGUMENT_KIND, "output"),
                       &bytes);
    if (!ls_status_is_ok(status))
      return send_error(x, code_of(status), NULL, status);
    // The array lives as long as the response, which libmicrohttpd copies from.
    struct MHD_Response *response =
        cli_http.create_response_from_buffer_with_free_callback_cls(
            ls_array_size(bytes), ls_array_mutable_data(bytes), release_array,
            bytes);
    return send_response(x, MHD_HTTP_OK, "application/x-npy",
                         ls_array_size(bytes), response);
  }
  cli_buffer text = {0};
  FILE *to = cli_buffer_open(&text);
  ls_status status = to == NULL ? ls_out_of_memory()
                     : x->is_text
                         ? cli_text_answer(to, x->job.text, !is_raw)
                         : cli_answer_json(to, &x->job.request, x->job.outputs);
  if (to != NULL && fclose(to) != 0 && ls_status_is_ok(status))
    status = ls_out_of_memory();
  if (ls_status_is_ok(status))
    return send_text(x, MHD_HTTP_OK,
                     is_raw ? "application/octet-stream" : "application/json",
                     &text);
  cli_release(text.data);
  return send_error(x, code_of(status), NULL, status);
}

// ---- Predictions and texts -------------------------------------------------
static ls_status check_running(const server *self) {
  return __atomic_load_n(&self->stopping, __ATOMIC_RELAXED)
             ? LS_STATUS(LS_UNAVAILABLE, "the server is stopping")
             : ls_ok();
}

// Ends a text that nobody reads, or for which the server's end would wait.
static ls_status check_text(const cli_job *job) {
  const exchange *x = job->user;
  if (x->link != NULL) {
    struct pollfd client = {.fd = x->link->socket, .events = POLLRDHUP};
    if (poll(&client, 1, 0) > 0)
      return LS_STATUS(LS_UNAVAILABLE, "the client has closed its connection");
  }
  return check_running(x->self);
}

static void finish_job(cli_job *job) {
  exchange *x = job->user;
  cli_http.resume_connection(x->connection);
}

static ls_status parse_body(exchange *x) {
  const cli_buffer *body = &x->body;
  if (body->failed)
    return LS_STATUS(LS_UNAVAILABLE, "the bodies of all requests have more "
                                     "bytes than may be held: try again later");
  if (x->is_text)
    return cli_text_parse(x->model, body->data, body->size,
                          x->self->service->limits.max_tokens, &x->job.text);
  LS_RETURN_IF_ERROR(cli_request_parse(x->model, x->signature, x->kind,
                                       body->data, body->size,
                                       &x->job.request));
  return cli_batcher_prepare(x->self->service->batcher, &x->job);
}

// Reads a complete body, and gives it to the batcher.
static enum MHD_Result begin_job(exchange *x) {
  server *self = x->self;
  cli_batcher *batcher = self->service->batcher;
  if (x->too_long)
    return send_error(
        x, MHD_HTTP_CONTENT_TOO_LARGE, NULL,
        ls_invalid_argument("the body is longer than --max-body, %lld MiB",
                            (long long)self->service->limits.max_body));
  ls_status status = parse_body(x);
  if (ls_status_is_ok(status) && !cli_batcher_reserve(batcher))
    status = LS_STATUS(LS_UNAVAILABLE,
                       "%lld requests are waiting, the most that may "
                       "(--max-queue): try again later",
                       (long long)self->service->limits.max_queue);
  if (!ls_status_is_ok(status))
    return send_error(x, code_of(status), NULL, status);
  x->queued = true;
  x->job.check = check_text;
  x->job.finish = finish_job;
  x->job.user = x;
  set_deadline(self, x->link, false);
  cli_http.suspend_connection(x->connection);
  cli_batcher_add(batcher, &x->job);
  return MHD_YES;
}

// Adds a part of a body. Bytes beyond the limits are dropped.
static void take_body(exchange *x, const char *data, size_t size) {
  server *self = x->self;
  const size_t most = (size_t)self->service->limits.max_body << 20;
  const int64_t all = (int64_t)most * MOST_BODIES;
  const size_t before = x->body.capacity;
  if (x->too_long || size > most - x->body.size) {
    x->too_long = true;
    return;
  }
  if (__atomic_load_n(&self->body_bytes, __ATOMIC_RELAXED) +
          (int64_t)(x->body.size + size) >
      all)
    x->body.failed = true;
  cli_buffer_append(&x->body, data, size);
  __atomic_add_fetch(&self->body_bytes, (int64_t)(x->body.capacity - before),
                     __ATOMIC_RELAXED);
}

// ---- Addresses -------------------------------------------------------------
// Returns the model of "/v1/models/NAME" or "/v1/models/NAME/versions/VERSION",
// of which `*rest` is the text that follows; NULL: there is none.
static cli_served *find_model(const cli_service *service, const char *url,
                              const char **rest) {
  *rest = "";
  if (strncmp(url, "/v1/models/", 11) != 0) return NULL;
  for (size_t i = 0; i < service->num_models; ++i) {
    const char *known = service->models[i].name;
    const size_t size = strlen(known);
    if (strncmp(url + 11, known, size) != 0) continue;
    *rest = url + 11 + size;
    if (strchr(":/", **rest) == NULL) continue;
    const char *version = cli_served_version(&service->models[i]);
    if (strncmp(*rest, "/versions/", 10) == 0 &&
        strncmp(*rest + 10, version, strlen(version)) == 0)
      *rest += 10 + strlen(version);
    return &service->models[i];
  }
  return NULL;
}

static enum MHD_Result send_unknown(exchange *x, const char *url) {
  const cli_served *model =
      x->model != NULL ? x->model : &x->self->service->models[0];
  return send_error(
      x, MHD_HTTP_NOT_FOUND, NULL,
      ls_not_found("there is nothing at '%.100s'; there are "
                   "/v1/models/%s:predict%s, /v1/models/%s, each also with "
                   "/versions/%s after the name, /v1/models, which lists all "
                   "models, /metrics and /healthz",
                   url, model->name,
                   model->language.decoder != NULL ? " and :generate" : "",
                   model->name, cli_served_version(model)));
}

static void list_models(FILE *to, const cli_service *service) {
  fputs("{\"models\":[", to);
  for (size_t i = 0; i < service->num_models; ++i) {
    const char *name = service->models[i].name;
    if (i > 0) putc(',', to);
    cli_write_json(to, name, strlen(name));
  }
  fputs("]}\n", to);
}

// Answers with the description of a model, or with what another address has.
static enum MHD_Result send_description(exchange *x, const char *url,
                                        const cli_served *model) {
  server *self = x->self;
  const bool stopping = __atomic_load_n(&self->stopping, __ATOMIC_RELAXED);
  const bool metrics = strcmp(url, "/metrics") == 0;
  const bool healthy = strcmp(url, "/healthz") != 0 || !stopping;
  cli_buffer text = {0};
  FILE *to = cli_buffer_open(&text);
  if (to == NULL) return MHD_NO;
  if (metrics)
    cli_metrics_write(to, cli_batcher_waiting(self->service->batcher));
  else if (strcmp(url, "/v1/models") == 0)
    list_models(to, self->service);
  else if (model != NULL)
    cli_served_describe(to, model);
  else
    fprintf(to, "{\"status\":\"%s\"}\n", stopping ? "stopping" : "ok");
  fclose(to);
  return send_text(x, healthy ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE,
                   metrics ? "text/plain; version=0.0.4" : "application/json",
                   &text);
}

// Returns false for a content type that is not read. curl -d sends that of
// forms, and TensorFlow Serving asks for none.
static bool find_kind(exchange *x) {
  static const char *const texts[] = {"", "application/json", "text/json",
                                      "application/x-www-form-urlencoded"};
  static const char *const arrays[] = {
      "application/octet-stream", "application/x-npy", "application/x-npz"};
  const char *type = header_of(x, MHD_HTTP_HEADER_CONTENT_TYPE);
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); ++i)
    if (type_is(type, texts[i])) return true;
  x->kind = CLI_BODY_NPY;
  for (size_t i = 0; i < sizeof(arrays) / sizeof(*arrays); ++i)
    if (type_is(type, arrays[i])) return true;
  return false;
}

static enum MHD_Result count_length(void *user, enum MHD_ValueKind kind,
                                    const char *name, const char *value) {
  int *count = user;
  (void)kind, (void)value;
  *count += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 ||
            strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
  return MHD_YES;
}

// Returns true if a header tells the length of its body once at most: a proxy
// may take another one of several.
static bool has_one_length(const exchange *x) {
  int count = 0;
  (void)cli_http.get_connection_values(x->connection, MHD_HEADER_KIND,
                                       count_length, &count);
  return count <= 1;
}

// Checks the header of a request with a body. Bodies that are refused here
// are not read: the connection ends with the answer.
static enum MHD_Result check_header(exchange *x) {
  const cli_limits *limits = &x->self->service->limits;
  const char *length = header_of(x, MHD_HTTP_HEADER_CONTENT_LENGTH);
  const char *coding = header_of(x, MHD_HTTP_HEADER_CONTENT_ENCODING);
  if (length[0] == '\0' &&
      header_of(x, MHD_HTTP_HEADER_TRANSFER_ENCODING)[0] == '\0')
    return send_error(
        x, MHD_HTTP_LENGTH_REQUIRED, NULL,
        ls_invalid_argument("the request has no body: send it with its length "
                            "(Content-Length) or in chunks"));
  // A client that does not wait for leave to send its body reads no answer
  // before it has sent all.
  const uint64_t size = strtoull(length, NULL, 10);
  if (size > (uint64_t)limits->max_body << 20) {
    x->too_long = true;
    return size <= MOST_DROPPED && header_of(x, MHD_HTTP_HEADER_EXPECT)[0] == 0
               ? MHD_YES
               : begin_job(x);
  }
  if (coding[0] != '\0' && strcasecmp(coding, "identity") != 0)
    return send_error(x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL,
                      ls_invalid_argument("the body is packed (%.20s): send it "
                                          "as it is",
                                          coding));
  const bool is_known = find_kind(x);
  if (x->is_text && (!is_known || x->kind != CLI_BODY_JSON))
    return send_error(
        x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL,
        ls_invalid_argument("the body is '%.60s': send application/json",
                            header_of(x, MHD_HTTP_HEADER_CONTENT_TYPE)));
  if (!is_known)
    return send_error(
        x, MHD_HTTP_UNSUPPORTED_MEDIA_TYPE, NULL,
        ls_invalid_argument(
            "the body is '%.60s': send application/json, or an npy or npz "
            "file as application/x-npy or application/octet-stream",
            header_of(x, MHD_HTTP_HEADER_CONTENT_TYPE)));
  x->signature = cli_http.lookup_connection_value(
      x->connection, MHD_GET_ARGUMENT_KIND, "signature_name");
  return MHD_YES;
}

static bool is_reading(const char *method) {
  return strcmp(method, MHD_HTTP_METHOD_GET) == 0 ||
         strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

// Answers a request by its header, or returns to wait for its body.
static enum MHD_Result begin_exchange(exchange *x, const char *url,
                                      const char *method) {
  server *self = x->self;
  const bool reads = is_reading(method);
  const char *rest = NULL;
  x->begun = true;
  x->model = find_model(self->service, url, &rest);
  x->is_text = x->model != NULL && strcmp(rest, ":generate") == 0;
  const bool takes_body =
      x->is_text || (x->model != NULL && strcmp(rest, ":predict") == 0);
  const bool known = takes_body || (x->model != NULL && *rest == '\0') ||
                     strcmp(url, "/v1/models") == 0 ||
                     strcmp(url, "/metrics") == 0 ||
                     strcmp(url, "/healthz") == 0;
  if (!known) return send_unknown(x, url);
  const char *allowed = takes_body ? "POST" : "GET, HEAD";
  if (takes_body ? strcmp(method, MHD_HTTP_METHOD_POST) != 0 : !reads)
    return send_error(x, MHD_HTTP_METHOD_NOT_ALLOWED, allowed,
                      ls_invalid_argument("'%.100s' is for %s", url, allowed));
  if (!takes_body) return send_description(x, url, x->model);
  const ls_status running = check_running(self);
  return ls_status_is_ok(running)
             ? check_header(x)
             : send_error(x, MHD_HTTP_SERVICE_UNAVAILABLE, NULL, running);
}

// Called by libmicrohttpd: once with a request's header, then with each part of
// its body, with its end, and once more when its job is finished.
static enum MHD_Result handle(void *user, struct MHD_Connection *connection,
                              const char *url, const char *method,
                              const char *version, const char *data,
                              size_t *size, void **context) {
  server *self = user;
  exchange *x = *context;
  (void)version;
  ls_runtime_make_current(self->service->runtime);
  if (self->numbers != (locale_t)0) uselocale(self->numbers);
  if (x == NULL) {
    x = cli_allocate(sizeof(*x));
    if (x == NULL) return MHD_NO;
    *context = x;
    __atomic_add_fetch(&self->num_requests, 1, __ATOMIC_RELAXED);
    x->self = self;
    x->connection = connection;
    x->link = link_of(connection);
    x->begin_ns = cli_now_ns();
    set_deadline(self, x->link, true);
    if (!has_one_length(x))
      return send_error(x, MHD_HTTP_BAD_REQUEST, NULL,
                        ls_invalid_argument("the header has several lengths "
                                            "of the body"));
    // An answer before the request's end closes its connection.
    return is_reading(method) ? MHD_YES : begin_exchange(x, url, method);
  }
  if (*size > 0) {
    if (x->begun && !x->answered) take_body(x, data, *size);
    *size = 0;
    return MHD_YES;
  }
  if (!x->begun && !x->answered) return begin_exchange(x, url, method);
  if (x->answered) return MHD_YES;
  return x->queued ? send_outputs(x) : begin_job(x);
}

// ---- The daemon ------------------------------------------------------------
// Finds the address to listen at, which the caller frees.
static ls_status find_address(const cli_service *service,
                              struct addrinfo **out) {
  char port[8];
  const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
                                 .ai_socktype = SOCK_STREAM};
  snprintf(port, sizeof(port), "%d", (int)service->port);
  if (getaddrinfo(service->address, port, &hints, out) == 0) return ls_ok();
  return ls_invalid_argument("--address is '%s', expected an address of this "
                             "machine in numbers: 127.0.0.1, 0.0.0.0, ::1",
                             service->address);
}

static ls_status start_daemon(server *self) {
  const cli_service *service = self->service;
  struct addrinfo *address = NULL;
  LS_RETURN_IF_ERROR(find_address(service, &address));
  const bool six = address->ai_family == AF_INET6;
  int threads = ls_runtime_threads(service->runtime);
  threads = threads < 2 ? 2 : threads > 8 ? 8 : threads;
  // By epoll it misses the end of a connection that comes with its last bytes.
  self->daemon = cli_http.start_daemon(
      MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
          MHD_ALLOW_SUSPEND_RESUME | (six ? MHD_USE_IPv6 : 0),
      (uint16_t)service->port, NULL, NULL, handle, self, MHD_OPTION_SOCK_ADDR,
      address->ai_addr, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)threads,
      MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)service->limits.timeout_s,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
      MHD_OPTION_NOTIFY_CONNECTION, note_connection, self,
      MHD_OPTION_NOTIFY_COMPLETED, end_exchange, self, MHD_OPTION_END);
  const int error = errno;
  freeaddrinfo(address);
  if (self->daemon == NULL)
    return LS_STATUS(LS_UNAVAILABLE,
                     "cannot listen at %s, port %lld: %s; --port names another "
                     "port, 0 any free one",
                     service->address, (long long)service->port,
                     strerror(error));
  return ls_ok();
}

static void print_start(const server *self) {
  const cli_service *service = self->service;
  const union MHD_DaemonInfo *info =
      cli_http.get_daemon_info(self->daemon, MHD_DAEMON_INFO_BIND_PORT);
  const bool six = strchr(service->address, ':') != NULL;
  for (size_t i = 0; i < service->num_models; ++i)
    printf("serving '%s' at http://%s%s%s:%u/v1/models/%s\n",
           service->models[i].folder, six ? "[" : "", service->address,
           six ? "]" : "", info != NULL ? info->port : 0u,
           service->models[i].name);
  fflush(stdout);
}

// Finishes the predictions that are here, for up to --timeout, ends texts, and
// refuses other requests.
static void drain(server *self) {
  const int64_t until =
      cli_now_ns() + self->service->limits.timeout_s * INT64_C(1000000000);
  __atomic_store_n(&self->stopping, true, __ATOMIC_RELAXED);
  const MHD_socket listening = cli_http.quiesce_daemon(self->daemon);
  if (listening != MHD_INVALID_SOCKET) close(listening);
  while (cli_batcher_waiting(self->service->batcher) > 0 ||
         (__atomic_load_n(&self->num_requests, __ATOMIC_RELAXED) > 0 &&
          cli_now_ns() < until)) {
    cli_batcher_run(self->service->batcher, 10);
    end_late(self);
  }
}

static void print_state(void *user) {
  const server *self = user;
  fprintf(stderr,
          "answered %lld requests, %lld are here, %lld of them in the queue\n",
          (long long)cli_metrics_answers(),
          (long long)__atomic_load_n(&self->num_requests, __ATOMIC_RELAXED),
          (long long)cli_batcher_waiting(self->service->batcher));
}

ls_status cli_service_run(cli_service *service) {
  server self = {.service = service};
  LS_RETURN_IF_ERROR(cli_http_load());
  self.numbers = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  pthread_mutex_init(&self.lock, NULL);
  cli_watch_also(print_state, &self);
  const ls_status status = start_daemon(&self);
  if (ls_status_is_ok(status)) {
    print_start(&self);
    while (cli_signals_first() == 0) {
      // Late connections are looked for between batches, too.
      cli_batcher_run(service->batcher, 100);
      end_late(&self);
    }
    drain(&self);
    cli_http.stop_daemon(self.daemon);
    fprintf(stderr, "lockstep serve: stopped after %lld requests\n",
            (long long)cli_metrics_answers());
  }
  cli_watch_also(NULL, NULL);
  pthread_mutex_destroy(&self.lock);
  if (self.numbers != (locale_t)0) freelocale(self.numbers);
  return status;
}
#endif

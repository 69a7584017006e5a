// SPDX-License-Identifier: Apache-2.0
// Clients of bench/serve: each sends its request again and again over one
// connection, as soon as it has the answer, and compares that with the wanted
// one. Knows nothing of the library.
//
// usage: http_clients PORT PATH BODIES ANSWERS SECONDS
//
// BODIES has a client's request in each line, ANSWERS the wanted answers, or
// nothing. Prints a line of JSON: answers, other answers, and times in ms.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST_CLIENTS = 1024, ANSWER = 1 << 20 };

typedef struct client {
  pthread_t thread;
  char *request, *wanted;
  size_t size;
  double *times;
  size_t count, capacity, different, failed;
} client;

static client clients[MOST_CLIENTS];
static int port;
static double end;  // Time at which all stop.

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int connect_to(void) {
  const struct sockaddr_in address = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)port),
                                      .sin_addr.s_addr =
                                          htonl(INADDR_LOOPBACK)};
  const int socket_ = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  if (connect(socket_, (const struct sockaddr *)&address, sizeof(address)) != 0)
    return -1;
  return socket_;
}

// Reads one answer. Returns its body, ended by a zero; NULL: there is none.
static char *read_answer(int from, char *buffer) {
  size_t size = 0;
  for (;;) {
    const ssize_t got = recv(from, buffer + size, ANSWER - 1 - size, 0);
    if (got <= 0) return NULL;
    size += (size_t)got;
    buffer[size] = '\0';
    char *body = strstr(buffer, "\r\n\r\n");
    if (body == NULL) continue;
    const char *length = strcasestr(buffer, "\r\nContent-Length:");
    if (length == NULL || strncmp(buffer + 8, " 200", 4) != 0) return NULL;
    if (size >= (size_t)(body + 4 - buffer) + strtoul(length + 17, NULL, 10))
      return body + 4;
  }
}

static void *run_client(void *user) {
  client *self = user;
  char *buffer = malloc(ANSWER);
  int to = -1;
  while (now() < end) {
    if (to < 0) to = connect_to();
    const double begin = now();
    const char *body = NULL;
    if (to >= 0 && send(to, self->request, self->size, MSG_NOSIGNAL) ==
                       (ssize_t)self->size)
      body = read_answer(to, buffer);
    if (body == NULL) {
      ++self->failed;
      if (to >= 0) close(to);
      to = -1;
      usleep(1000);
      continue;
    }
    if (self->wanted != NULL &&
        (strncmp(body, self->wanted, strlen(self->wanted)) != 0))
      ++self->different;
    if (self->count == self->capacity) {
      self->capacity = 2 * self->capacity + 1024;
      self->times = realloc(self->times, self->capacity * sizeof(*self->times));
    }
    self->times[self->count++] = now() - begin;
  }
  if (to >= 0) close(to);
  free(buffer);
  return NULL;
}

static int compare_times(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static void print_result(int num_clients, double seconds) {
  size_t count = 0, different = 0, failed = 0;
  for (int i = 0; i < num_clients; ++i)
    count += clients[i].count;
  double *all = malloc((count + 1) * sizeof(*all));
  count = 0;
  for (int i = 0; i < num_clients; ++i) {
    if (clients[i].count > 0)
      memcpy(all + count, clients[i].times, clients[i].count * sizeof(*all));
    count += clients[i].count;
    different += clients[i].different;
    failed += clients[i].failed;
  }
  qsort(all, count, sizeof(*all), compare_times);
  printf("{\"answers\":%zu,\"different\":%zu,\"failed\":%zu,\"per_second\":"
         "%.1f",
         count, different, failed, (double)count / seconds);
  static const int parts[] = {500, 900, 990, 999};
  for (int i = 0; i < 4 && count > 0; ++i)
    printf(",\"p%g\":%.3f", parts[i] / 10.0,
           all[(count - 1) * (size_t)parts[i] / 1000] * 1e3);
  printf("}\n");
  free(all);
}

int main(int argc, char **argv) {
  if (argc != 6) return 2;
  FILE *bodies = fopen(argv[3], "r"), *answers = fopen(argv[4], "r");
  char *line = NULL;
  size_t room = 0;
  int count = 0;
  port = atoi(argv[1]);
  if (bodies == NULL || answers == NULL) return 2;
  for (ssize_t size;
       count < MOST_CLIENTS && (size = getline(&line, &room, bodies)) > 1;
       ++count) {
    client *self = &clients[count];
    line[--size] = '\0';
    self->size =
        (size_t)asprintf(&self->request,
                         "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                         "application/json\r\nContent-Length: %zd\r\n\r\n%s",
                         argv[2], size, line);
    if ((size = getline(&line, &room, answers)) > 1) {
      line[size - 1] = '\0';
      self->wanted = strdup(line);
    }
  }
  const double begin = now();
  end = begin + atof(argv[5]);
  for (int i = 0; i < count; ++i)
    pthread_create(&clients[i].thread, NULL, run_client, &clients[i]);
  for (int i = 0; i < count; ++i)
    pthread_join(clients[i].thread, NULL);
  print_result(count, now() - begin);
  return 0;
}

// SPDX-License-Identifier: Apache-2.0
// Parses the names of virtual pods, the part after "virtual:".
#include <ctype.h>
#include <stdio.h>

#include "base/require.h"
#include "base/text.h"
#include "tpu/pod/pod.h"
#include "tpu/pod/topology.h"

// State of the parser.
typedef struct reader {
  const char *name;  // The whole name, for messages.
  const char *at;
} reader;

static ls_status pod_name_refuse(const reader *in, const char *part,
                                 size_t length, const char *wanted) {
  return ls_invalid_argument(
      "TPU name '%s': '%.*s' %s; accepted is AxB[xC][,cores=N][,hosts=H], with "
      "A, B and C chips along x, y and z, N cores per chip, and H hosts, where "
      "H divides A, followed by ,fault=KIND@hostH[.coreC][:stepK]...",
      in->name, (int)length, part, wanted);
}

// Returns the length up to the next comma.
static size_t part_length(const char *part) { return strcspn(part, ","); }

// Reads a number of at least 1 which is followed by a comma or one of the
// characters `ends`.
static ls_status read_size(reader *in, const char *ends, int32_t *out) {
  const size_t length = strcspn(in->at, ends);
  int64_t value = 0;
  bool is_number = length > 0;
  for (size_t i = 0; i < length && is_number; ++i) {
    is_number = isdigit((unsigned char)in->at[i]);
    if (value <= LS_MAX_POD_CORES) value = 10 * value + (in->at[i] - '0');
  }
  if (!is_number)
    return pod_name_refuse(in, in->at, length, "is no number of at least 1");
  if (value < 1 || value > LS_MAX_POD_CORES)
    return pod_name_refuse(in, in->at, length,
                           value < 1 ? "is below 1"
                                     : "is more cores than a pod has");
  *out = (int32_t)value;
  in->at += length;
  return ls_ok();
}

static ls_status read_mesh(reader *in, ls_pod_shape *out) {
  const char *mesh = in->at;
  const size_t length = part_length(mesh);
  for (int k = 0; k < 3; ++k) {
    if (k > 0 && *in->at != 'x') {
      if (k == 1)
        return pod_name_refuse(in, mesh, length, "has one size, not 2 or 3");
      break;
    }
    if (k > 0) ++in->at;
    LS_RETURN_IF_ERROR(read_size(in, "x,", &out->mesh[k]));
  }
  return in->at == mesh + length
             ? ls_ok()
             : pod_name_refuse(in, mesh, length, "has more than 3 sizes");
}

// Reads one option such as ",cores=4".
static ls_status read_word(reader *in, ls_pod_shape *out, unsigned *seen) {
  static const char *const words[] = {"cores=", "hosts="};
  int32_t *const values[] = {&out->mesh[3], &out->hosts};
  const char *part = ++in->at;
  for (unsigned i = 0; i < LS_COUNT_OF(words); ++i) {
    const size_t length = strlen(words[i]);
    if (strncmp(part, words[i], length) != 0) continue;
    if (*seen & 1u << i)
      return pod_name_refuse(in, part, part_length(part), "is there twice");
    *seen |= 1u << i;
    in->at += length;
    return read_size(in, ",", values[i]);
  }
  return pod_name_refuse(in, part, part_length(part), "is an unknown word");
}

// Checks that all faults name existing hosts and cores.
static ls_status check_faults(const reader *in, const ls_pod_shape *shape) {
  static const char word[] = ",fault=";
  const int32_t *mesh = shape->mesh;
  const int32_t cores = mesh[0] * mesh[1] * mesh[2] * mesh[3] / shape->hosts;
  for (const char *at = in->at; *at != '\0';) {
    const char *part = at + 1;
    const size_t length = part_length(part);
    ls_pod_fault fault;
    if (strncmp(at, word, strlen(word)) != 0)
      return pod_name_refuse(in, part, length, "follows a fault");
    at += strlen(word);
    const char *wrong =
        ls_pod_fault_parse(at, length - (strlen(word) - 1), &fault);
    if (wrong != NULL) return pod_name_refuse(in, part, length, wrong);
    if (fault.host >= shape->hosts || fault.core >= cores)
      return pod_name_refuse(in, part, length,
                             "is of a host or core that is not there");
    at = part + length;
  }
  return ls_ok();
}

ls_status ls_pod_shape_parse(const char *name, const char *text,
                             ls_pod_shape *out_shape) {
  reader in = {name, text};
  unsigned seen = 0;
  *out_shape = (ls_pod_shape){.mesh = {1, 1, 1, 2}, .hosts = 1};
  LS_RETURN_IF_ERROR(read_mesh(&in, out_shape));
  while (*in.at == ',' && strncmp(in.at, ",fault=", 7) != 0)
    LS_RETURN_IF_ERROR(read_word(&in, out_shape, &seen));
  const int32_t *mesh = out_shape->mesh;
  const int64_t chips = (int64_t)mesh[0] * mesh[1];
  if (chips > LS_MAX_POD_CORES || chips * mesh[2] > LS_MAX_POD_CORES / mesh[3])
    return ls_invalid_argument(
        "TPU name '%s': '%s' is a pod of more than %d cores", name, text,
        LS_MAX_POD_CORES);
  const char *hosts = strstr(text, "hosts=");
  if (mesh[0] % out_shape->hosts != 0)
    return pod_name_refuse(&in, hosts, part_length(hosts), "does not divide A");
  out_shape->faults = in.at;
  return check_faults(&in, out_shape);
}

// ---- Print a pod -----------------------------------------------------------
// Prints pods as text pictures.

// Returns the number of digits of numbers below `count`.
static int digits(int32_t count) {
  int width = 1;
  for (int32_t top = count - 1; top >= 10; top /= 10)
    ++width;
  return width;
}

// Returns the owners of the cores of the chip at x, y, z: numbers of the pod's
// cores, -1 for none.
static const int32_t *chip_at(const ls_pod *pod, int32_t x, int32_t y,
                              int32_t z) {
  const int32_t *mesh = pod->mesh;
  return &pod->topology->owners[((x * mesh[1] + y) * mesh[2] + z) * mesh[3]];
}

// Prints the cores of the chip at x, y, z: "0:2,3" are TPU:2 and TPU:3 of host
// 0, and "-" is no chip.
static void print_chip(ls_text *out, const ls_pod *pod, int32_t x, int32_t y,
                       int32_t z) {
  const int32_t *chip = chip_at(pod, x, y, z), cores = pod->mesh[3];
  const int32_t first = chip[0] % pod->cores_per_host;
  const int width = digits(pod->cores_per_host), host = digits(pod->num_hosts);
  char text[64] = "-";
  int32_t last = 0;
  while (last + 1 < cores && chip[last + 1] >= 0)
    ++last;
  size_t size = 1;
  if (chip[0] >= 0)
    size = (size_t)snprintf(text, sizeof(text), "%*d:%*d", host,
                            chip[0] / pod->cores_per_host, width, first);
  if (chip[0] >= 0 && last > 0)
    snprintf(text + size, sizeof(text) - size, "%c%d", cores == 2 ? ',' : '-',
             first + last);
  // Pads the column to the width of its widest entry.
  const int widest = host + 1 + width + (cores > 1 ? 1 + width : 0);
  ls_text_append_format(out, "  %-*s", x + 1 < pod->mesh[0] ? widest : 0, text);
}

// Prints one layer of chips; lines separate hosts, whose columns are side by
// side.
static void print_layer(ls_text *out, const ls_pod *pod, int32_t z) {
  const int32_t *mesh = pod->mesh;
  if (mesh[2] > 1) ls_text_append_format(out, "\nz %d\n", z);
  const int margin = 2 + digits(mesh[1]), each = pod->cores_per_host;
  for (int32_t y = 0; y < mesh[1]; ++y) {
    ls_text_append_format(out, "y %*d", margin - 2, y);
    for (int32_t x = 0; x < mesh[0]; ++x) {
      const bool begins = x > 0 && chip_at(pod, x, y, z)[0] / each !=
                                       chip_at(pod, x - 1, y, z)[0] / each;
      if (begins) ls_text_append(out, "  |");
      print_chip(out, pod, x, y, z);
    }
    ls_text_append(out, "\n");
  }
}

static void pod_print_count(ls_text *out, const char *before, int64_t number,
                            const char *noun) {
  ls_text_append_format(out, "%s%lld %s%s", before, (long long)number, noun,
                        number == 1 ? "" : "s");
}

static void print_facts(ls_text *out, const ls_pod *pod) {
  const int32_t *mesh = pod->mesh;
  const char *job = pod->job[0] != '\0' ? pod->job : "localhost";
  const int64_t chips = (int64_t)mesh[0] * mesh[1] * mesh[2];
  ls_text_append_format(out, "TPU system '%s', %s\n", pod->name,
                        ls_pod_is_initialized(pod) ? "initialized"
                                                   : "not initialized");
  ls_text_append_format(out, "mesh    %d x %d x %d", mesh[0], mesh[1], mesh[2]);
  pod_print_count(out, ": ", chips, "chip");
  pod_print_count(out, " of ", mesh[3], "core");
  pod_print_count(out, ", ", ls_pod_num_cores(pod), "core");
  pod_print_count(out, "\nhosts   ", pod->num_hosts, "host");
  pod_print_count(out, " of ", pod->cores_per_host, "core");
  ls_text_append_format(out, ": /job:%s/task:0", job);
  if (pod->num_hosts > 1)
    ls_text_append_format(out, " to /task:%d", pod->num_hosts - 1);
  pod_print_count(out, "\nqueues  ", pod->queue_depth, "tuple");
  ls_text_append(out, " each\n");
  if (pod->core_bytes > 0) {
    pod_print_count(out, "memory  ", pod->core_bytes, "byte");
    ls_text_append(out, " of each core\n");
  }
  if (pod->planned[0] != '\0')
    ls_text_append_format(out, "faults  %s\n", pod->planned + 1);
  ls_text_append(out, mesh[3] == 1 ? "\nChips, as HOST:CORE.\n"
                                   : "\nChips, as HOST:CORES.\n");
}

ls_status ls_pod_print(const ls_pod *pod, char **out_text) {
  LS_REQUIRE_OUT(out_text, pod);
  ls_text text = {.allocator = pod->allocator};
  print_facts(&text, pod);
  for (int32_t z = 0; z < pod->mesh[2]; ++z)
    print_layer(&text, pod, z);
  *out_text = ls_text_finish(&text);
  return *out_text != NULL ? ls_ok() : ls_out_of_memory();
}

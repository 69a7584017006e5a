// SPDX-License-Identifier: Apache-2.0
// Pods as pictures.
#include "base/require.h"
#include "base/text.h"
#include "tpu/pod/pod.h"

// Width of the numbers below `count`.
static int digits(int32_t count) {
  int width = 1;
  for (int32_t top = count - 1; top >= 10; top /= 10)
    ++width;
  return width;
}

// The cores of the chip at x, y, z: "0:2,3" are TPU:2 and TPU:3 of host 0.
static void print_chip(ls_text *out, const ls_pod *pod, int32_t x, int32_t y,
                       int32_t z) {
  const int32_t wide = pod->mesh[0] / pod->num_hosts, cores = pod->mesh[3];
  const int32_t first = ((z * pod->mesh[1] + y) * wide + x % wide) * cores;
  const int width = digits(pod->cores_per_host);
  ls_text_append_format(out, "  %*d:%*d", digits(pod->num_hosts), x / wide,
                        width, first);
  if (cores == 1) return;
  const int32_t last = first + cores - 1;
  ls_text_append_format(out, "%c%d", cores == 2 ? ',' : '-', last);
  if (x + 1 < pod->mesh[0])  // Columns are as wide as their widest.
    ls_text_append_format(out, "%*s", width - digits(last + 1), "");
}

// A line between hosts, who have the columns beside one another.
static void print_layer(ls_text *out, const ls_pod *pod, int32_t z) {
  const int32_t *mesh = pod->mesh;
  if (mesh[2] > 1) ls_text_append_format(out, "\nz %d\n", z);
  const int margin = 2 + digits(mesh[1]);
  for (int32_t y = 0; y < mesh[1]; ++y) {
    ls_text_append_format(out, "y %*d", margin - 2, y);
    for (int32_t x = 0; x < mesh[0]; ++x) {
      const bool begins = x > 0 && x % (mesh[0] / pod->num_hosts) == 0;
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
  LS_REQUIRE_OUT(out_text);
  LS_REQUIRE(pod);
  ls_text text;
  ls_text_init(&text, pod->allocator);
  print_facts(&text, pod);
  for (int32_t z = 0; z < pod->mesh[2]; ++z)
    print_layer(&text, pod, z);
  *out_text = ls_text_finish(&text);
  return *out_text != NULL ? ls_ok() : ls_out_of_memory();
}

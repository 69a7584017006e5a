// SPDX-License-Identifier: Apache-2.0
// Names of virtual pods: what stands behind "virtual:".
#include <ctype.h>

#include "tpu/pod/pod_fault.h"

// A name under way.
typedef struct reader {
  const char *name;  // All of it, for messages.
  const char *at;
} reader;

static ls_status pod_name_refuse(const reader *in, const char *part,
                                 size_t length, const char *wanted) {
  return ls_invalid_argument(
      "TPU name '%s': '%.*s' %s; accepted is AxB[xC][,cores=N][,hosts=H], with "
      "A, B and C chips along x, y and z, N cores a chip, and H hosts that "
      "divide A, and behind it ,fault=KIND@hostH[.coreC][:stepK]...",
      in->name, (int)length, part, wanted);
}

// Up to the next comma.
static size_t part_length(const char *part) { return strcspn(part, ","); }

// A number of at least 1, up to `ends` or a comma.
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

// ",cores=4"
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

// Faults, up to the end: of hosts and cores that there are.
static ls_status check_faults(const reader *in, const ls_pod_shape *shape) {
  static const char word[] = ",fault=";
  const int32_t *mesh = shape->mesh;
  const int32_t cores = mesh[0] * mesh[1] * mesh[2] * mesh[3] / shape->hosts;
  for (const char *at = in->at; *at != '\0';) {
    const char *part = at + 1;
    const size_t length = part_length(part);
    ls_pod_fault fault;
    if (strncmp(at, word, strlen(word)) != 0)
      return pod_name_refuse(in, part, length, "stands behind faults");
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
    return ls_invalid_argument("TPU name '%s': '%s' is a pod of more than %d "
                               "cores",
                               name, text, LS_MAX_POD_CORES);
  const char *hosts = strstr(text, "hosts=");
  if (mesh[0] % out_shape->hosts != 0)
    return pod_name_refuse(&in, hosts, part_length(hosts), "does not divide A");
  out_shape->faults = in.at;
  return check_faults(&in, out_shape);
}

// SPDX-License-Identifier: Apache-2.0
//
// Checks of a runtime's options.
#include "base/runtime_internal.h"

enum { MAX_THREADS = 4096, MAX_DEVICES = 1024, NANOS_PER_MS = 1000000 };

// Returns true for a name of a topology: a kind, and one to three sizes. Some
// plug-ins end the process at others.
static bool is_topology(const char *name) {
  const size_t kind = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
  const char *at = name + kind;
  if (kind == 0 || *at != ':') return false;
  for (int axis = 0; axis < 3 && (axis == 0 || *at == 'x'); ++axis) {
    const size_t digits = strspn(++at, "0123456789");
    if (digits == 0 || digits > 4 || *at == '0') return false;
    at += digits;
  }
  return *at == '\0' || strcmp(at, "_twisted") == 0 ||
         strcmp(at, "_untwisted") == 0;
}

static ls_status check_topology(const char *topology, const char *device) {
  if (topology == NULL) return ls_ok();
  if (!is_topology(topology))
    return ls_invalid_argument("there is no topology '%s'; a name has a kind "
                               "and sizes, such as v5e:2x2 or v4:2x2x1",
                               topology);
  if (strcmp(device, "cpu") == 0)
    return ls_invalid_argument("topology '%s' is for devices with a plug-in, "
                               "not for device 'cpu'",
                               topology);
  return ls_ok();
}

static ls_status check_device(const ls_runtime_options *options) {
  static const char *const names[] = {"cpu", "gpu", "tpu", "pjrt"};
  const char *device = options->device != NULL ? options->device : names[0];
  bool is_known = strncmp(device, "pjrt:", 5) == 0 && device[5] != '\0';
  for (size_t i = 0; i < LS_COUNT_OF(names); ++i)
    is_known |= strcmp(device, names[i]) == 0;
  if (!is_known)
    return ls_invalid_argument("there is no device '%s'; there are cpu, gpu, "
                               "tpu, pjrt, and pjrt:PATH of a plug-in",
                               device);
  if (options->num_devices < 0 || options->num_devices > MAX_DEVICES)
    return ls_invalid_argument("a runtime with %d devices; 1 to %d are "
                               "possible, 0 for all that there are",
                               options->num_devices, MAX_DEVICES);
  if (options->num_devices > 1 && strcmp(device, "cpu") == 0)
    return ls_invalid_argument("a runtime with %d devices 'cpu': the CPU "
                               "engine is one, which uses all cores",
                               options->num_devices);
  return check_topology(options->topology, device);
}

ls_status ls_runtime_check_options(const ls_runtime_options *options) {
  if ((unsigned)options->math > LS_MATH_BF16_DIRECT)
    return ls_invalid_argument("there is no math %d", (int)options->math);
  if (options->threads < 0 || options->threads > MAX_THREADS) {
    return ls_invalid_argument("a runtime with %d threads; 1 to %d are "
                               "possible, 0 for the machine's cores",
                               options->threads, MAX_THREADS);
  }
  const ls_opt inputs = options->input_threads;
  if (inputs.set && (inputs.value < 0 || inputs.value > MAX_THREADS))
    return ls_invalid_argument("a runtime with %lld input threads; 0 to %d are "
                               "possible",
                               inputs.value, MAX_THREADS);
  if (options->input_bytes < 0)
    return ls_invalid_argument("iterators that may hold %lld bytes",
                               (long long)options->input_bytes);
  if (options->stall_ms > INT64_MAX / NANOS_PER_MS)
    return ls_invalid_argument("a stall limit of %lld ms",
                               (long long)options->stall_ms);
  if (options->cpus < 0 || options->gpus < 0)
    return ls_invalid_argument("a runtime that sees %d CPUs and %d GPUs",
                               options->cpus, options->gpus);
  return check_device(options);
}

// SPDX-License-Identifier: Apache-2.0
//
// CompileOptionsProto: how a plug-in compiles a program.
#include "base/memory/allocator.h"
#include "engine/pjrt/client.h"
#include "io/protobuf/protobuf.h"

enum { BUILD_OPTIONS = 3, OVERRIDES = 7 };  // CompileOptionsProto
enum { ORDINAL = 1, REPLICAS = 4, PARTITIONS = 5, ASSIGNMENT = 9 };  // Build.
enum { NUM_ROWS = 1, NUM_COLUMNS = 2, COLUMN = 3 };  // DeviceAssignmentProto
enum { KEY = 1, VALUE = 2 };                         // An entry of a map.
enum { AS_BOOL = 2, AS_NUMBER = 3 };                 // OptionOverrideProto

// A debug option of XLA.
typedef struct debug_option {
  const char *name;
  unsigned kind;
  int64_t value;
} debug_option;

// Options for GPUs with which results do not differ from run to run, and a
// replica's products are not joined with another's.
static const debug_option exact_options[] = {
    {"xla_gpu_deterministic_ops", AS_BOOL, 1},
    {"xla_gpu_exclude_nondeterministic_ops", AS_BOOL, 1},
    {"xla_gpu_dot_merger_threshold_mb", AS_NUMBER, 0},
};

// An option for CPUs with which a maximum keeps a NaN.
static const debug_option nan_option = {"xla_cpu_enable_fast_min_max", AS_BOOL,
                                        0};

static void write_override(ls_text *out, const debug_option *option) {
  const size_t entry = ls_proto_begin(out, OVERRIDES);
  ls_proto_string(out, KEY, option->name);
  const size_t value = ls_proto_begin(out, VALUE);
  ls_proto_i64(out, option->kind, option->value);
  ls_proto_end(out, value);
  ls_proto_end(out, entry);
}

// Writes the devices of replicas: one column, since there are no partitions.
static ls_status write_assignment(const ls_pjrt_client *client,
                                  const ls_pjrt_options *options,
                                  ls_text *out) {
  const size_t assignment = ls_proto_begin(out, ASSIGNMENT);
  ls_proto_i64(out, NUM_ROWS, options->num_devices);
  ls_proto_i64(out, NUM_COLUMNS, 1);
  const size_t column = ls_proto_begin(out, COLUMN);
  for (int32_t i = 0; i < options->num_devices; ++i) {
    PJRT_DeviceDescription *device = NULL;
    LS_RETURN_IF_ERROR(
        ls_pjrt_client_device(client, options->devices[i], &device));
    LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = device);
    LS_RETURN_IF_ERROR(
        ls_pjrt_call(client->plugin, LS_PJRT_DeviceDescription_Id, &args));
    ls_proto_i64(out, 1, args.answer.number);
  }
  ls_proto_end(out, column);
  ls_proto_end(out, assignment);
  return ls_ok();
}

ls_status ls_pjrt_write_options(const ls_pjrt_client *client,
                                const ls_pjrt_options *options, ls_text *out) {
  const char *platform = ls_text_data(&client->platform);
  const bool is_gpu =
      strcmp(platform, "cuda") == 0 || strcmp(platform, "rocm") == 0;
  // Without a number of replicas XLA would end the process.
  const size_t build = ls_proto_begin(out, BUILD_OPTIONS);
  ls_proto_i64(out, ORDINAL, -1);
  ls_proto_i64(out, REPLICAS, options->num_devices);
  ls_proto_i64(out, PARTITIONS, 1);
  LS_RETURN_IF_ERROR(write_assignment(client, options, out));
  ls_proto_end(out, build);
  for (size_t i = 0; options->exact && is_gpu && i < LS_COUNT_OF(exact_options);
       ++i)
    write_override(out, &exact_options[i]);
  if (strcmp(platform, "cpu") == 0) write_override(out, &nan_option);
  return ls_text_status(out);
}

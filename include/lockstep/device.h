// SPDX-License-Identifier: Apache-2.0
// Layer: engine
//
// Devices: those that compute a runtime's programs, and the CPU's kernels.
//
// Threads: any thread may call this at any time.
#ifndef LOCKSTEP_DEVICE_H_
#define LOCKSTEP_DEVICE_H_

#include "lockstep/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

// Devices that compute what functions and sessions run; texts are the
// runtime's. Those of a plug-in are named by type and number, "GPU:0" to
// "GPU:<count - 1>", in any form that lockstep/device_name.h knows, in this job
// and task 0: by mirrored strategies and by device scopes in functions and
// graphs. Beside devices of another type "CPU:0" is the CPU engine.
typedef struct ls_device_facts {
  const char *type;  // "CPU", "GPU" or "TPU", as in names of devices.
  int count;         // The CPU engine counts as one device.
  // The kind of a device, the platform with its version, and the plug-in, as
  // that tells them; NULL for the CPU engine.
  const char *kind, *platform, *plugin;
} ls_device_facts;

// Figures of a compiled program, of one run on one device. -1: unknown.
typedef struct ls_program_figures {
  int num_devices;         // Devices that compute the program together.
  double flops;            // Floating-point operations.
  double bytes_accessed;   // Bytes of memory that the ops read and write.
  int64_t argument_bytes;  // Memory of the inputs and variables.
  int64_t result_bytes;    // Memory of the outputs and new values of variables.
  int64_t alias_bytes;     // Part of the results in the arguments' memory.
  int64_t temporary_bytes;  // Working memory.
  int64_t code_bytes;       // Memory of the code and its constants.
  double compile_seconds;   // Time to compile, or to load from the cache.
} ls_program_figures;

// Figures of an instruction of a program: a kernel, or ops fused into one.
typedef struct ls_instruction_figures {
  // Name of the op as it was built, "conv1/convolution"; of fused ops that of
  // the last one; "": the compiler's own. Lent until the function's next call.
  const char *name;
  // In one run of the program. A loop's body counts once.
  double flops;           // 2 per multiply-add of products; 0 for other ops.
  double bytes_accessed;  // Each operand once.
  // Bytes of the results that are in working memory, and the index of the last
  // instruction that reads them before they are overwritten; its own index if
  // none does.
  int64_t value_bytes;
  size_t last_reader;
} ls_instruction_figures;

// Describes the devices of the runtime's option `device`. Loads a plug-in.
// Errors: those of the plug-in, see ls_runtime_options.
LS_API LS_MUST_USE ls_status ls_device_describe(ls_runtime *runtime,
                                                ls_device_facts *out_facts);

// Returns the instruction set of the CPU kernels under this runtime: "base"
// (any machine), "v3" (AVX2 and FMA) or "v4" (AVX-512). All give the same bits.
// Static text.
LS_API LS_MUST_USE ls_status ls_device_kernels(ls_runtime *runtime,
                                               const char **out_name);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DEVICE_H_

// SPDX-License-Identifier: Apache-2.0
//
// The handler of custom calls, and the memory of devices: that of CPU devices
// is the host's; operands of GPUs are copied in the stream of the call, by the
// driver that the plug-in has loaded.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "engine/pjrt/ffi.h"
#include "engine/pjrt/host.h"

enum { TICKET_SIZE = 2 * sizeof(uint64_t) };

// Functions of the CUDA driver; all give 0 for success.
typedef struct gpu_driver {
  int (*to_host)(void *to, uint64_t from, size_t size, void *stream);
  int (*to_device)(uint64_t to, const void *from, size_t size, void *stream);
  int (*wait)(void *stream);
} gpu_driver;

static gpu_driver driver;  // Loaded before the handler is registered.

// ---- Answers to XLA --------------------------------------------------------
static void answer_query(const ls_ffi_call *call, ls_ffi_metadata *metadata) {
  const int newest = call->table != NULL ? call->table->version.minor : 0;
  metadata->version.major = 0;
  metadata->version.minor = newest < LS_FFI_MINOR ? newest : LS_FFI_MINOR;
  metadata->traits = 0;
}

static void *make_error(const ls_ffi_call *call, const char *message) {
  ls_ffi_error_args args = {
      .size = sizeof(args), .message = message, .code = LS_ABORTED};
  return call->table->slots[LS_FFI_ERROR_CREATE](&args);
}

// Returns true if a call is no launch, but asks for the handler's version.
static bool is_query(const ls_ffi_call *call) {
  const ls_ffi_extension *extension = call->extensions;
  if (extension == NULL || extension->type != LS_FFI_METADATA)
    return call->stage != LS_FFI_EXECUTE;
  answer_query(call, ((const ls_ffi_query *)extension)->metadata);
  return true;
}

// ---- Operands --------------------------------------------------------------
// A call that is being answered.
typedef struct answer {
  ls_ffi_call *call;
  ls_pjrt_hosts *hosts;
  size_t index;
  const ls_emit_host *site;
  uint64_t ticket[2];
  char **buffers;  // Inputs, then outputs, in the host's memory.
  void *stream;    // NULL: the device's memory is the host's.
} answer;

static ls_ffi_buffer *buffer_of(const answer *a, size_t operand) {
  const size_t inputs = a->site->num_inputs;
  return operand < inputs ? a->call->operands.items[operand + 1]
                          : a->call->results.items[operand - inputs + 1];
}

static const char *find_run_of(answer *a) {
  const void *ticket = a->call->operands.items[0]->data;
  if (a->stream == NULL)
    memcpy(a->ticket, ticket, TICKET_SIZE);
  else if (driver.to_host(a->ticket, (uint64_t)(uintptr_t)ticket, TICKET_SIZE,
                          a->stream) != 0 ||
           driver.wait(a->stream) != 0)
    return "the ticket of a host call cannot be read";
  a->hosts = ls_pjrt_find_run(a->ticket[0]);
  if (a->hosts == NULL) return "a host call of no run";
  a->index = (size_t) * (const int64_t *)a->call->attributes.items[0]->value;
  a->site = &a->hosts->executable->layout.hosts[a->index];
  return NULL;
}

// Copies the inputs from a GPU to staged memory, where the outputs will be,
// too.
static const char *stage_inputs(answer *a) {
  const size_t count = a->site->num_inputs + a->site->num_outputs;
  const uint64_t device = a->ticket[1] & ~LS_EMIT_TICKET_FAILED;
  char **staged = &a->hosts->sites[a->index].staged[device];
  size_t size = 0;
  for (size_t i = 0; i < count; ++i)
    size += ls_pjrt_device_bytes(a->site, i);
  if (*staged == NULL)
    *staged = ls_allocate_large(a->hosts->allocator, size + 1);
  if (*staged == NULL) return "no memory for a host call";
  char *at = *staged;
  for (size_t i = 0; i < count; at += ls_pjrt_device_bytes(a->site, i), ++i) {
    a->buffers[i] = at;
    if (i < a->site->num_inputs &&
        driver.to_host(at, (uint64_t)(uintptr_t)buffer_of(a, i)->data,
                       ls_pjrt_device_bytes(a->site, i), a->stream) != 0)
      return "an operand of a host call cannot be read";
  }
  return driver.wait(a->stream) == 0 ? NULL : "a stream has failed";
}

static const char *take_operands(answer *a) {
  const size_t count = a->site->num_inputs + a->site->num_outputs;
  if (a->stream != NULL) return stage_inputs(a);
  for (size_t i = 0; i < count; ++i)
    a->buffers[i] = buffer_of(a, i)->data;
  return NULL;
}

static const char *give_results(answer *a) {
  const size_t inputs = a->site->num_inputs;
  void *ticket = a->call->results.items[0]->data;
  if (a->stream == NULL) {
    memcpy(ticket, a->ticket, TICKET_SIZE);
    return NULL;
  }
  bool fails = driver.to_device((uint64_t)(uintptr_t)ticket, a->ticket,
                                TICKET_SIZE, a->stream) != 0;
  for (size_t i = inputs; i < inputs + a->site->num_outputs; ++i)
    fails |= driver.to_device((uint64_t)(uintptr_t)buffer_of(a, i)->data,
                              a->buffers[i], ls_pjrt_device_bytes(a->site, i),
                              a->stream) != 0;
  fails |= driver.wait(a->stream) != 0;
  return fails ? "a result of a host call cannot be written" : NULL;
}

// ---- The handler -----------------------------------------------------------
static void *answer_call(ls_ffi_call *call, void *stream) {
  enum { MOST_FEW = 64 };
  char *few[MOST_FEW];
  answer a = {.call = call, .buffers = few, .stream = stream};
  const char *problem = find_run_of(&a);
  if (problem != NULL) return make_error(call, problem);
  const size_t count = a.site->num_inputs + a.site->num_outputs;
  if (count > MOST_FEW)
    a.buffers = ls_new_array(a.hosts->allocator, char *, count);
  problem = a.buffers != NULL ? take_operands(&a) : "no memory for a host call";
  if (problem == NULL)
    ls_pjrt_answer_call(a.hosts, a.index, &a.ticket[1], a.buffers);
  if (problem == NULL) problem = give_results(&a);
  if (a.buffers != few) ls_release(a.hosts->allocator, a.buffers);
  return problem == NULL ? NULL : make_error(call, problem);
}

static void *handle_on_cpu(ls_ffi_call *call) {
  return is_query(call) ? NULL : answer_call(call, NULL);
}

static void *handle_on_gpu(ls_ffi_call *call) {
  if (is_query(call)) return NULL;
  ls_ffi_stream_args args = {.size = sizeof(args), .context = call->context};
  void *error = call->table->slots[LS_FFI_STREAM_GET](&args);
  if (error != NULL) return error;
  return args.stream != NULL ? answer_call(call, args.stream)
                             : make_error(call, "a host call has no stream");
}

// ---- Registration ----------------------------------------------------------
// Loads the driver's functions, which the plug-in has loaded before.
static ls_status load_driver(const ls_pjrt_client *client) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library != NULL) {
    *(void **)&driver.to_host = dlsym(library, "cuMemcpyDtoHAsync_v2");
    *(void **)&driver.to_device = dlsym(library, "cuMemcpyHtoDAsync_v2");
    *(void **)&driver.wait = dlsym(library, "cuStreamSynchronize");
  }
  if (driver.to_host != NULL && driver.to_device != NULL && driver.wait != NULL)
    return ls_ok();
  return ls_unimplemented("calls of the host from programs on '%s' devices: "
                          "the driver of CUDA, libcuda.so.1, is not there",
                          ls_text_data(&client->platform));
}

static const ls_ffi_plugin *find_extension(const ls_pjrt_client *client) {
  const ls_ffi_extension *at = client->plugin->table->extensions;
  while (at != NULL && at->type != LS_FFI_EXTENSION)
    at = at->next;
  return (const ls_ffi_plugin *)at;
}

static ls_status register_handler(const ls_pjrt_client *client, bool is_gpu) {
  static const char name[] = "lockstep_host";
  const char *platform = is_gpu ? "CUDA" : "Host";
  ls_ffi_register_args args = {.size = sizeof(args),
                               .name = name,
                               .name_size = sizeof(name) - 1,
                               .handler =
                                   is_gpu ? handle_on_gpu : handle_on_cpu,
                               .platform = platform,
                               .platform_size = strlen(platform)};
  if (is_gpu) LS_RETURN_IF_ERROR(load_driver(client));
  return ls_pjrt_take_error(client->plugin, "PJRT_FFI_Register_Handler",
                            find_extension(client)->register_handler(&args));
}

ls_status ls_pjrt_register_handler(const ls_pjrt_client *client) {
  static ls_mutex lock = {PTHREAD_MUTEX_INITIALIZER, true};
  ls_pjrt_plugin *plugin = (ls_pjrt_plugin *)(uintptr_t)client->plugin;
  const char *platform = ls_text_data(&client->platform);
  const bool is_gpu = strcmp(platform, "cuda") == 0;
  if (find_extension(client) == NULL ||
      (!is_gpu && strcmp(platform, "cpu") != 0))
    return ls_unimplemented(
        "calls of the host from programs on '%s' devices of plug-in '%s'",
        platform, plugin->path);
  ls_status status = ls_ok();
  ls_mutex_lock(&lock);
  if (!plugin->has_handler) status = register_handler(client, is_gpu);
  plugin->has_handler = ls_status_is_ok(status);
  ls_mutex_unlock(&lock);
  return status;
}

// SPDX-License-Identifier: Apache-2.0
#include "support/shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/pjrt/api.h"

#define EXPORT __attribute__((visibility("default")))
EXPORT shim_state shim;

static const ls_pjrt_table *real;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

typedef PJRT_Error *(*call)(void *args);
static PJRT_Error *real_call(ls_pjrt_slot slot, void *args) {
  return ((call)real->slots[slot])(args);
}

// ---- Errors and events of our own ------------------------------------------
static char own_error;  // Its address is the error.

static PJRT_Error *fail(void) { return (PJRT_Error *)&own_error; }

// Returns true if this call is to fail.
static bool fails(shim_fault fault) {
  pthread_mutex_lock(&lock);
  const bool now = shim.fault == fault && shim.skip-- <= 0;
  if (now) shim.fault = SHIM_NONE;
  pthread_mutex_unlock(&lock);
  return now;
}

static void count(int *number, int more) {
  __atomic_fetch_add(number, more, __ATOMIC_RELAXED);
}

static void error_destroy(ls_pjrt_object_args *args) {
  if (args->object != &own_error)
    ((void (*)(void *))real->slots[LS_PJRT_Error_Destroy])(args);
}

static void error_message(ls_pjrt_text_args *args) {
  static const char text[] = "the shim fails";
  if (args->object != &own_error) {
    ((void (*)(void *))real->slots[LS_PJRT_Error_Message])(args);
    return;
  }
  args->text = text;
  args->text_size = sizeof(text) - 1;
}

static PJRT_Error *error_code(ls_pjrt_object_args *args) {
  if (args->object != &own_error) return real_call(LS_PJRT_Error_GetCode, args);
  args->answer.number = 8;  // RESOURCE_EXHAUSTED
  return NULL;
}

// Each event of the plug-in is one of ours around it.
typedef struct shim_event {
  PJRT_Event *real;
  bool fails;
} shim_event;

static PJRT_Event *wrap(PJRT_Event *event, shim_fault fault) {
  shim_event *self = malloc(sizeof(*self));
  if (self == NULL) abort();
  *self = (shim_event){event, fails(fault)};
  count(&shim.live_events, 1);
  return (PJRT_Event *)self;
}

static PJRT_Error *event_destroy(ls_pjrt_object_args *args) {
  shim_event *self = args->object;
  LS_PJRT_ARGS(ls_pjrt_object_args, inner, .object = self->real);
  count(&shim.live_events, -1);
  free(self);
  return inner.object == NULL ? NULL : real_call(LS_PJRT_Event_Destroy, &inner);
}

static PJRT_Error *event_ready(ls_pjrt_object_args *args) {
  const shim_event *self = args->object;
  LS_PJRT_ARGS(ls_pjrt_object_args, inner, .object = self->real);
  PJRT_Error *error = real_call(LS_PJRT_Event_IsReady, &inner);
  args->answer.flag = inner.answer.flag;
  return error;
}

static PJRT_Error *event_await(ls_pjrt_object_args *args) {
  const shim_event *self = args->object;
  LS_PJRT_ARGS(ls_pjrt_object_args, inner, .object = self->real);
  PJRT_Error *error = real_call(LS_PJRT_Event_Await, &inner);
  return error == NULL && self->fails ? fail() : error;
}

// ---- Buffers that were donated ---------------------------------------------
enum { MOST = 4096 };
static void *donated[MOST];
static size_t num_donated;

static bool is_donated(const void *buffer, bool forget) {
  bool found = false;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < num_donated && !found; ++i) {
    found = donated[i] == buffer;
    if (found && forget) donated[i] = donated[--num_donated];
  }
  pthread_mutex_unlock(&lock);
  return found;
}

static void donate(void *buffer) {
  pthread_mutex_lock(&lock);
  if (num_donated == MOST) abort();
  donated[num_donated++] = buffer;
  pthread_mutex_unlock(&lock);
}

// The arguments of an executable that it takes over, from its text.
typedef struct shim_program {
  const void *executable;
  bool takes[MOST];
} shim_program;
static shim_program *programs[MOST];
static size_t num_programs;

static void note_program(const void *executable, const char *code) {
  shim_program *program = calloc(1, sizeof(*program));
  if (program == NULL || num_programs == MOST) abort();
  program->executable = executable;
  const char *end = strstr(code, ") -> ");
  for (const char *at = strstr(code, "%arg"); at != NULL && at < end;) {
    const char *next = strstr(at + 1, "%arg");
    const char *mark = strstr(at, "tf.aliasing_output");
    const char *stop = next != NULL && next < end ? next : end;
    const int index = atoi(at + 4);
    if (index < MOST) program->takes[index] = mark != NULL && mark < stop;
    at = next;
  }
  programs[num_programs++] = program;
}

static const shim_program *find_program(const void *executable) {
  for (size_t i = num_programs; i-- > 0;)
    if (programs[i]->executable == executable) return programs[i];
  return NULL;
}

// ---- Calls -----------------------------------------------------------------
static PJRT_Error *initialize(void *args) {
  return fails(SHIM_INITIALIZE) ? fail()
                                : real_call(LS_PJRT_Plugin_Initialize, args);
}

static PJRT_Error *create(void *args) {
  return fails(SHIM_CREATE) ? fail() : real_call(LS_PJRT_Client_Create, args);
}

static PJRT_Error *devices(ls_pjrt_devices_args *args) {
  PJRT_Error *error = real_call(LS_PJRT_Client_AddressableDevices, args);
  if (fails(SHIM_NO_DEVICES)) args->count = 0;
  return error;
}

static PJRT_Error *describe(void *args) {
  return fails(SHIM_DESCRIBE) ? fail()
                              : real_call(LS_PJRT_Client_PlatformVersion, args);
}

static PJRT_Error *platform_name(ls_pjrt_text_args *args) {
  if (shim.platform == NULL)
    return real_call(LS_PJRT_Client_PlatformName, args);
  args->text = shim.platform;
  args->text_size = strlen(shim.platform);
  return NULL;
}

static PJRT_Error *compile(ls_pjrt_compile_args *args) {
  if (fails(SHIM_COMPILE)) return fail();
  count(&shim.compiles, 1);
  PJRT_Error *error = real_call(LS_PJRT_Client_Compile, args);
  if (error != NULL) return error;
  count(&shim.live_executables, 1);
  note_program(args->executable, args->program->code);
  return NULL;
}

static PJRT_Error *load(ls_pjrt_load_args *args) {
  if (fails(SHIM_LOAD)) return fail();
  PJRT_Error *error = real_call(LS_PJRT_Executable_DeserializeAndLoad, args);
  if (error == NULL) count(&shim.loads, 1);
  if (error == NULL) count(&shim.live_executables, 1);
  return error;
}

static PJRT_Error *loaded_destroy(void *args) {
  count(&shim.live_executables, -1);
  return real_call(LS_PJRT_LoadedExecutable_Destroy, args);
}

static PJRT_Error *loaded_devices(ls_pjrt_devices_args *args) {
  PJRT_Error *error =
      real_call(LS_PJRT_LoadedExecutable_AddressableDevices, args);
  if (fails(SHIM_OTHER_DEVICES)) args->count += 1;
  return error;
}

static PJRT_Error *num_results(ls_pjrt_object_args *args) {
  PJRT_Error *error = real_call(LS_PJRT_Executable_NumOutputs, args);
  if (fails(SHIM_OTHER_RESULTS)) args->answer.count += 1;
  return error;
}

static PJRT_Error *memory_stats(void *args) {
  return fails(SHIM_MEMORY_STATS)
             ? fail()
             : real_call(LS_PJRT_Executable_GetCompiledMemoryStats, args);
}

static PJRT_Error *serialize(void *args) {
  return fails(SHIM_SERIALIZE) ? fail()
                               : real_call(LS_PJRT_Executable_Serialize, args);
}

static int id_of(void *description) {
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = description);
  if (real_call(LS_PJRT_DeviceDescription_Id, &args) != NULL) abort();
  return args.answer.number;
}

static PJRT_Error *process_index(ls_pjrt_object_args *args) {
  args->answer.number =
      shim.num_hosts > 0 ? id_of(args->object) % shim.num_hosts : 0;
  return NULL;
}

// Gives a device coordinates, far from the origin as on a part of a pod.
static PJRT_Error *attributes(ls_pjrt_values_args *args) {
  static int64_t coords[SHIM_DEVICES][3];
  static ls_pjrt_named_value values[SHIM_DEVICES][2];
  const int id = id_of(args->object);
  if (shim.mesh_x == 0)
    return real_call(LS_PJRT_DeviceDescription_Attributes, args);
  if (id >= SHIM_DEVICES) abort();
  coords[id][0] = 4 + id % shim.mesh_x;
  coords[id][1] = 2 + id / shim.mesh_x;
  values[id][0] = (ls_pjrt_named_value){.size = sizeof(values[id][0]),
                                        .name = "coords",
                                        .name_size = strlen("coords"),
                                        .kind = LS_PJRT_INT64_LIST,
                                        .value.numbers = coords[id],
                                        .value_size = 3};
  values[id][1] = (ls_pjrt_named_value){.size = sizeof(values[id][1]),
                                        .name = "core_on_chip",
                                        .name_size = strlen("core_on_chip"),
                                        .kind = LS_PJRT_INT64,
                                        .value_size = 1};
  args->values = values[id];
  args->count = 2;
  return NULL;
}

// Lists the ids of an executable's devices.
static void list_devices(void *executable, int ids[SHIM_DEVICES]) {
  LS_PJRT_ARGS(ls_pjrt_devices_args, args, .object = executable);
  if (real_call(LS_PJRT_LoadedExecutable_AddressableDevices, &args) != NULL)
    abort();
  for (size_t i = 0; i < args.count && i < SHIM_DEVICES; ++i) {
    LS_PJRT_ARGS(ls_pjrt_object_args, device, .object = args.devices[i]);
    if (real_call(LS_PJRT_Device_GetDescription, &device) != NULL) abort();
    ids[i] = id_of(device.answer.object);
  }
}

// Enters a launch on devices, or leaves it; counts the devices on which another
// one is under way.
static void cross_launch(const int *ids, size_t count, bool enters) {
  static int launching[SHIM_DEVICES];
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < count && i < SHIM_DEVICES; ++i) {
    shim.crossings += enters && launching[ids[i]] > 0;
    launching[ids[i]] += enters ? 1 : -1;
  }
  pthread_mutex_unlock(&lock);
  if (enters && shim.launch_micros > 0) usleep(shim.launch_micros);
}

static PJRT_Error *upload(ls_pjrt_upload_args *args) {
  if (fails(SHIM_UPLOAD)) return fail();
  size_t size = 1;
  for (size_t i = 0; i < args->num_dims; ++i)
    size *= (size_t)args->dims[i];
  static const size_t sizes[] = {[LS_PJRT_F32] = 4,
                                 [LS_PJRT_S32] = 4,
                                 [LS_PJRT_U64] = 8,
                                 [LS_PJRT_S64] = 8};
  count(&shim.uploads, 1);
  __atomic_fetch_add(&shim.upload_bytes, size * sizes[args->type],
                     __ATOMIC_RELAXED);
  PJRT_Error *error = real_call(LS_PJRT_Client_BufferFromHostBuffer, args);
  if (error != NULL) return error;
  count(&shim.live_buffers, 1);
  args->done = wrap(args->done, SHIM_UPLOAD_EVENT);
  return NULL;
}

static PJRT_Error *execute(ls_pjrt_execute_args *args) {
  for (size_t d = 0; d < args->num_devices; ++d)
    for (size_t i = 0; i < args->num_arguments; ++i)
      if (is_donated(args->arguments[d][i], false)) {
        count(&shim.misuses, 1);
        return fail();
      }
  if (fails(SHIM_EXECUTE)) return fail();
  const shim_program *program = find_program(args->executable);
  int ids[SHIM_DEVICES] = {0};
  list_devices(args->executable, ids);
  cross_launch(ids, args->num_devices, true);
  PJRT_Error *error = real_call(LS_PJRT_LoadedExecutable_Execute, args);
  cross_launch(ids, args->num_devices, false);
  if (error != NULL) return error;
  LS_PJRT_ARGS(ls_pjrt_object_args, executable, .object = args->executable);
  LS_PJRT_ARGS(ls_pjrt_object_args, results, .object = NULL);
  if (real_call(LS_PJRT_LoadedExecutable_GetExecutable, &executable) != NULL)
    abort();
  results.object = executable.answer.object;
  if (real_call(LS_PJRT_Executable_NumOutputs, &results) != NULL) abort();
  LS_PJRT_ARGS(ls_pjrt_object_args, end, .object = executable.answer.object);
  if (real_call(LS_PJRT_Executable_Destroy, &end) != NULL) abort();
  count(&shim.executes, 1);
  shim.num_devices = (int)args->num_devices;
  memcpy(shim.devices, ids, sizeof(ids));
  const bool refuses = fails(SHIM_EXECUTE_LATE);
  for (size_t d = 0; d < args->num_devices; ++d) {
    for (size_t i = 0; program != NULL && i < args->num_arguments; ++i)
      if (i < MOST && program->takes[i]) donate(args->arguments[d][i]);
    for (size_t i = 0; refuses && i < results.answer.count; ++i) {
      LS_PJRT_ARGS(ls_pjrt_object_args, result, .object = args->results[d][i]);
      if (real_call(LS_PJRT_Buffer_Destroy, &result) != NULL) abort();
    }
    if (refuses) {
      LS_PJRT_ARGS(ls_pjrt_object_args, event, .object = args->events[d]);
      if (real_call(LS_PJRT_Event_Await, &event) != NULL) abort();
      if (real_call(LS_PJRT_Event_Destroy, &event) != NULL) abort();
    } else {
      count(&shim.live_buffers, (int)results.answer.count);
      args->events[d] = wrap(args->events[d], SHIM_EXECUTE_EVENT);
    }
  }
  return refuses ? fail() : NULL;
}

static PJRT_Error *buffer_destroy(ls_pjrt_object_args *args) {
  (void)is_donated(args->object, true);
  count(&shim.live_buffers, -1);
  return real_call(LS_PJRT_Buffer_Destroy, args);
}

static PJRT_Error *buffer_deleted(ls_pjrt_object_args *args) {
  PJRT_Error *error = real_call(LS_PJRT_Buffer_IsDeleted, args);
  args->answer.flag |= is_donated(args->object, false);
  return error;
}

// Gives a host that does not ask for rows the columns of a device.
static PJRT_Error *download_columns(ls_pjrt_download_args *args) {
  enum { BUFFER_DIMENSIONS = 60, MOST_DIMS = 8 };
  int64_t order[MOST_DIMS];
  struct {
    LS_PJRT_HEAD;
    PJRT_Buffer *buffer;
    const int64_t *dims;
    size_t rank;
  } shape = {.size = sizeof(shape), .buffer = args->buffer};
  if (((call)real->slots[BUFFER_DIMENSIONS])(&shape) != NULL) abort();
  LS_PJRT_ARGS(ls_pjrt_layout, columns, .kind = 0);
  columns.tiled.size = sizeof(columns.tiled);
  columns.tiled.order = order;
  columns.tiled.rank = shape.rank;
  for (size_t i = 0; i < shape.rank && i < MOST_DIMS; ++i)
    order[i] = (int64_t)i;
  args->layout = &columns;
  return real_call(LS_PJRT_Buffer_ToHostBuffer, args);
}

static PJRT_Error *download(ls_pjrt_download_args *args) {
  if (is_donated(args->buffer, false)) {
    count(&shim.misuses, 1);
    return fail();
  }
  if (fails(SHIM_DOWNLOAD)) return fail();
  count(&shim.downloads, 1);
  __atomic_fetch_add(&shim.download_bytes, args->num_bytes, __ATOMIC_RELAXED);
  PJRT_Error *error = shim.has_columns && args->layout == NULL
                          ? download_columns(args)
                          : real_call(LS_PJRT_Buffer_ToHostBuffer, args);
  if (error == NULL) args->event = wrap(args->event, SHIM_DOWNLOAD_EVENT);
  return error;
}

// ---- The table -------------------------------------------------------------
static bool open_real(void) {
  const char *path = getenv("LS_SHIM_PLUGIN");
  void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  void *symbol = library != NULL ? dlsym(library, "GetPjrtApi") : NULL;
  const ls_pjrt_table *(*get)(void) = NULL;
  memcpy(&get, &symbol, sizeof(get));
  if (get != NULL) real = get();
  return real != NULL;
}

EXPORT const ls_pjrt_table *GetPjrtApi(void) {
  static ls_pjrt_table *table;
  if (fails(SHIM_NO_TABLE) || (real == NULL && !open_real())) return NULL;
  if (table == NULL) table = malloc(real->size);
  if (table == NULL) abort();
  memcpy(table, real, real->size);
#define SET(slot, function)                                                    \
  table->slots[LS_PJRT_##slot] = (ls_pjrt_function)(function)
  SET(Error_Destroy, error_destroy);
  SET(Error_Message, error_message);
  SET(Error_GetCode, error_code);
  SET(Plugin_Initialize, initialize);
  SET(Event_Destroy, event_destroy);
  SET(Event_IsReady, event_ready);
  SET(Event_Await, event_await);
  SET(Client_Create, create);
  SET(Client_PlatformName, platform_name);
  SET(Client_PlatformVersion, describe);
  SET(DeviceDescription_ProcessIndex, process_index);
  SET(DeviceDescription_Attributes, attributes);
  SET(Client_AddressableDevices, devices);
  SET(Client_Compile, compile);
  SET(Client_BufferFromHostBuffer, upload);
  SET(Executable_NumOutputs, num_results);
  SET(Executable_Serialize, serialize);
  SET(Executable_DeserializeAndLoad, load);
  SET(Executable_GetCompiledMemoryStats, memory_stats);
  SET(LoadedExecutable_Destroy, loaded_destroy);
  SET(LoadedExecutable_AddressableDevices, loaded_devices);
  SET(LoadedExecutable_Execute, execute);
  SET(Buffer_Destroy, buffer_destroy);
  SET(Buffer_IsDeleted, buffer_deleted);
  SET(Buffer_ToHostBuffer, download);
#undef SET
  if (fails(SHIM_SHORT_TABLE)) table->size = 256;
  if (fails(SHIM_OTHER_MAJOR)) table->version.major = 1;
  if (fails(SHIM_NO_EXECUTE))
    table->slots[LS_PJRT_LoadedExecutable_Execute] = NULL;
  return table;
}

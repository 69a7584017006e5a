// SPDX-License-Identifier: Apache-2.0
//
// The part of the PJRT C API that this back end calls, in declarations of its
// own: the table of a plug-in, the numbers of its slots, and the arguments of
// each call.
//
// A caller zeroes an argument struct and sets its size (LS_PJRT_ARGS); fields
// that later versions of the API appended are then zero. Names of handles and
// slots are those of PJRT, without its prefix in slots.
#ifndef LS_ENGINE_PJRT_API_H_
#define LS_ENGINE_PJRT_API_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct PJRT_Error PJRT_Error;
typedef struct PJRT_Event PJRT_Event;
typedef struct PJRT_Client PJRT_Client;
typedef struct PJRT_TopologyDescription PJRT_TopologyDescription;
typedef struct PJRT_Device PJRT_Device;
typedef struct PJRT_DeviceDescription PJRT_DeviceDescription;
typedef struct PJRT_Executable PJRT_Executable;
typedef struct PJRT_LoadedExecutable PJRT_LoadedExecutable;
typedef struct PJRT_Buffer PJRT_Buffer;

// Slots of the table: row(number, name).
// clang-format off
#define LS_PJRT_SLOTS(row) \
  row(0, Error_Destroy) row(1, Error_Message) row(2, Error_GetCode) \
  row(3, Plugin_Initialize) row(4, Plugin_Attributes) row(5, Event_Destroy) \
  row(6, Event_IsReady) row(8, Event_Await) row(10, Client_Create) \
  row(11, Client_Destroy) row(12, Client_PlatformName) \
  row(14, Client_PlatformVersion) row(16, Client_AddressableDevices) \
  row(20, Client_Compile) row(22, Client_BufferFromHostBuffer) \
  row(23, DeviceDescription_Id) row(24, DeviceDescription_ProcessIndex) \
  row(25, DeviceDescription_Attributes) row(26, DeviceDescription_Kind) \
  row(29, Device_GetDescription) row(40, Executable_Destroy) \
  row(44, Executable_NumOutputs) \
  row(45, Executable_SizeOfGeneratedCodeInBytes) \
  row(46, Executable_GetCostAnalysis) row(49, Executable_Serialize) \
  row(50, LoadedExecutable_Destroy) row(51, LoadedExecutable_GetExecutable) \
  row(52, LoadedExecutable_AddressableDevices) \
  row(55, LoadedExecutable_Execute) row(56, Executable_DeserializeAndLoad) \
  row(58, Buffer_Destroy) row(68, Buffer_IsDeleted) \
  row(70, Buffer_ToHostBuffer) row(82, TopologyDescription_Create) \
  row(83, TopologyDescription_Destroy) \
  row(84, TopologyDescription_PlatformName) \
  row(85, TopologyDescription_PlatformVersion) \
  row(86, TopologyDescription_GetDeviceDescriptions) row(89, Compile) \
  row(96, Executable_GetCompiledMemoryStats)
// clang-format on

typedef enum ls_pjrt_slot {
#define LS_PJRT_SLOT(number, name) LS_PJRT_##name = (number),
  LS_PJRT_SLOTS(LS_PJRT_SLOT)
#undef LS_PJRT_SLOT
} ls_pjrt_slot;

typedef void (*ls_pjrt_function)(void);

typedef struct ls_pjrt_table {
  size_t size;
  void *extensions;
  struct {
    size_t size;
    void *extensions;
    int major, minor;
  } version;
  ls_pjrt_function slots[];
} ls_pjrt_table;

// Types of elements.
enum {
  LS_PJRT_PRED = 1,
  LS_PJRT_S8,
  LS_PJRT_S16,
  LS_PJRT_S32,
  LS_PJRT_S64,
  LS_PJRT_U8,
  LS_PJRT_U16,
  LS_PJRT_U32,
  LS_PJRT_U64,
  LS_PJRT_F16,
  LS_PJRT_F32,
  LS_PJRT_F64,
  LS_PJRT_BF16,
};

// Promises about host memory that an upload reads.
enum {
  LS_PJRT_UNTIL_CALL_RETURNS = 0,
  LS_PJRT_UNTIL_TRANSFER_ENDS = 1,
};

// Kinds of named values.
enum {
  LS_PJRT_STRING = 0,
  LS_PJRT_INT64 = 1,
  LS_PJRT_INT64_LIST = 2,
  LS_PJRT_FLOAT = 3,
};

// ---- Arguments -------------------------------------------------------------
// Fields that the plug-in writes stand last in each struct, unless noted.
#define LS_PJRT_HEAD                                                           \
  size_t size;                                                                 \
  void *extensions
// Declares the arguments `name` of a call.
#define LS_PJRT_ARGS(Type, name, ...)                                          \
  Type name = {.size = sizeof(Type), __VA_ARGS__}

// Calls that take one object, or none, and answer at most one thing.
typedef struct ls_pjrt_object_args {
  LS_PJRT_HEAD;
  void *object;
  union {
    bool flag;
    int number;  // Also an id or an error's code.
    int64_t size;
    size_t count;
    void *object;
  } answer;
} ls_pjrt_object_args;

// Calls that answer a text.
typedef struct ls_pjrt_text_args {
  LS_PJRT_HEAD;
  void *object;
  const char *text;
  size_t text_size;
} ls_pjrt_text_args;

// Calls that answer a list of devices, or of a topology's descriptions.
typedef struct ls_pjrt_devices_args {
  LS_PJRT_HEAD;
  void *object;
  union {
    PJRT_Device *const *devices;
    PJRT_DeviceDescription *const *descriptions;
  };
  size_t count;
} ls_pjrt_devices_args;

typedef struct ls_pjrt_named_value {
  LS_PJRT_HEAD;
  const char *name;
  size_t name_size;
  int kind;
  union {
    const char *text;
    int64_t number;
    const int64_t *numbers;
    float real;
  } value;
  size_t value_size;  // Characters of a text, items of a list; else 1.
} ls_pjrt_named_value;

// Returns true if a value has this name.
static inline bool ls_pjrt_is_named(const ls_pjrt_named_value *value,
                                    const char *name) {
  return value->name_size == strlen(name) &&
         memcmp(value->name, name, value->name_size) == 0;
}

// Calls that answer named values.
typedef struct ls_pjrt_values_args {
  LS_PJRT_HEAD;
  void *object;
  size_t count;
  const ls_pjrt_named_value *values;
} ls_pjrt_values_args;

typedef struct ls_pjrt_create_args {
  LS_PJRT_HEAD;
  const ls_pjrt_named_value *options;
  size_t num_options;
  void *get, *get_user, *put, *put_user;  // Shared keys of several processes.
  PJRT_Client *client;                    // Written by the plug-in.
  void *try_get, *try_get_user;
} ls_pjrt_create_args;

typedef struct ls_pjrt_topology_args {
  LS_PJRT_HEAD;
  const char *name;
  size_t name_size;
  const ls_pjrt_named_value *options;
  size_t num_options;
  PJRT_TopologyDescription *topology;
} ls_pjrt_topology_args;

typedef struct ls_pjrt_program {
  LS_PJRT_HEAD;
  char *code;
  size_t code_size;
  const char *format;
  size_t format_size;
} ls_pjrt_program;

typedef struct ls_pjrt_compile_args {
  LS_PJRT_HEAD;
  PJRT_Client *client;
  const ls_pjrt_program *program;
  const char *options;
  size_t options_size;
  PJRT_LoadedExecutable *executable;
} ls_pjrt_compile_args;

typedef struct ls_pjrt_compile_ahead_args {
  LS_PJRT_HEAD;
  const PJRT_TopologyDescription *topology;
  const ls_pjrt_program *program;
  const char *options;
  size_t options_size;
  PJRT_Client *client;
  PJRT_Executable *executable;
} ls_pjrt_compile_ahead_args;

typedef struct ls_pjrt_serialize_args {
  LS_PJRT_HEAD;
  const PJRT_Executable *executable;
  const char *bytes;
  size_t num_bytes;
  void *owner;
  void (*free_owner)(void *owner);
} ls_pjrt_serialize_args;

typedef struct ls_pjrt_load_args {
  LS_PJRT_HEAD;
  PJRT_Client *client;
  const char *bytes;
  size_t num_bytes;
  PJRT_LoadedExecutable *executable;  // Written by the plug-in.
  const char *options;
  size_t options_size;
} ls_pjrt_load_args;

typedef struct ls_pjrt_upload_args {
  LS_PJRT_HEAD;
  PJRT_Client *client;
  const void *data;
  int type;
  const int64_t *dims;
  size_t num_dims;
  const int64_t *strides;
  size_t num_strides;
  int semantics;
  PJRT_Device *device;
  void *memory, *layout;
  PJRT_Event *done;
  PJRT_Buffer *buffer;
} ls_pjrt_upload_args;

// How elements lie in memory: dimensions from the one whose elements are
// adjacent on. The struct has room for another kind, and then tells the kind.
typedef struct ls_pjrt_layout {
  LS_PJRT_HEAD;
  struct {
    LS_PJRT_HEAD;
    const int64_t *order;
    size_t rank;
    const int64_t *tiles;
    const size_t *tile_sizes;
    size_t num_tiles;
  } tiled;
  int kind;  // 0: tiled.
} ls_pjrt_layout;

typedef struct ls_pjrt_download_args {
  LS_PJRT_HEAD;
  PJRT_Buffer *buffer;
  const ls_pjrt_layout *layout;  // The host's; NULL: the device's.
  void *data;
  size_t num_bytes;
  PJRT_Event *event;
} ls_pjrt_download_args;

typedef struct ls_pjrt_execute_options {
  LS_PJRT_HEAD;
  void *sends, *receives;
  size_t num_sends, num_receives;
  int launch;
  const int64_t *kept_arguments;  // Arguments that must not be donated.
  size_t num_kept_arguments;
  void *context;
  const char *place;
  size_t num_tasks;
  int *tasks;
  int64_t *incarnations;
} ls_pjrt_execute_options;

typedef struct ls_pjrt_execute_args {
  LS_PJRT_HEAD;
  PJRT_LoadedExecutable *executable;
  const ls_pjrt_execute_options *options;
  PJRT_Buffer *const *const *arguments;  // Lists by device.
  size_t num_devices, num_arguments;
  PJRT_Buffer **const *results;  // Lists of the caller, written by the plug-in.
  PJRT_Event **events;           // One per device, written by the plug-in.
  PJRT_Device *device;
} ls_pjrt_execute_args;

typedef struct ls_pjrt_memory_args {
  LS_PJRT_HEAD;
  PJRT_Executable *executable;
  int64_t code, arguments, results, aliases, temporary;
  int64_t host[5];
  int64_t peak, total;
} ls_pjrt_memory_args;

#endif  // LS_ENGINE_PJRT_API_H_

// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE  // dl_iterate_phdr, memmem
#include "base/threads/locked.h"
#include "engine/pjrt/client.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "lockstep/runtime_settings.h"

// ---- Search -----------------------------------------------------------------
// The search for a device's plug-in: a path that the user gives, the system's
// loader, installed Python wheels.

// A device with a plug-in in a wheel.
typedef struct plugin_wheel {
  const char *device, *library;
  const char *path;     // Pattern within a folder of packages.
  const char *package;  // As pip takes it.
} plugin_wheel;

static const plugin_wheel wheels[] = {
    {"gpu", "xla_cuda_plugin.so", "jax_plugins/xla_cuda*/xla_cuda_plugin.so",
     "'jax-cuda13-plugin[with-cuda]'"},
    {"tpu", "libtpu.so", "libtpu/libtpu.so", "libtpu"},
};

// Folders of packages, in the order of their search.
static const struct {
  const char *variable;  // Environment variable of the root; NULL: none.
  const char *path;
} folders[] = {
    {"VIRTUAL_ENV", "/lib/python3*/site-packages"},
    {"HOME", "/.local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/site-packages"},
    {NULL, "/usr/local/lib/python3*/dist-packages"},
    {NULL, "/usr/lib/python3/dist-packages"},
};

// Finds the library of an installed wheel, the last of several; `path` stays
// empty if there is none.
static ls_status find_installed(const ls_runtime *runtime,
                                const plugin_wheel *wheel, ls_text *path) {
  for (size_t i = 0; i < LS_COUNT_OF(folders) && path->size == 0; ++i) {
    const char *variable = folders[i].variable;
    const char *root =
        variable != NULL ? ls_runtime_environment(runtime, variable) : "";
    glob_t found = {0};
    if (root == NULL || (variable != NULL && root[0] != '/')) continue;
    LS_OWN(ls_text, pattern) = {.allocator = path->allocator};
    ls_text_append_format(&pattern, "%s%s/%s", root, folders[i].path,
                          wheel->path);
    LS_RETURN_IF_ERROR(ls_text_status(&pattern));
    if (glob(ls_text_data(&pattern), 0, NULL, &found) == 0)
      ls_text_append(path, found.gl_pathv[found.gl_pathc - 1]);
    globfree(&found);
  }
  return ls_text_status(path);
}

static ls_status open_library(const char *device, const char *path,
                              void **out_library) {
  *out_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (*out_library != NULL) return ls_ok();
  const char *reason = dlerror();
  return ls_not_found("the plug-in of device '%s' cannot be loaded: %s", device,
                      reason != NULL ? reason : path);
}

// Opens the library of a device: the loader's, else that of a wheel.
static ls_status open_wheel(const ls_runtime *runtime,
                            const plugin_wheel *wheel, ls_text *path,
                            void **out_library) {
  ls_text_append(path, wheel->library);
  const ls_status status =
      open_library(wheel->device, wheel->library, out_library);
  if (ls_status_is_ok(status)) return status;
  ls_text_clear(path);
  const ls_status searched = find_installed(runtime, wheel, path);
  if (!ls_status_is_ok(searched) || path->size > 0) {
    ls_status_free(status);
    LS_RETURN_IF_ERROR(searched);
    return open_library(wheel->device, ls_text_data(path), out_library);
  }
  return ls_status_annotate(
      status,
      "no installed Python package has it either: pip install %s; or set "
      "LS_PJRT_PLUGIN to the plug-in's path",
      wheel->package);
}

// Opens the library of the runtime's option `device`, and appends its
// path.
static ls_status plugin_open(const ls_runtime *runtime, ls_text *path,
                             void **out_library) {
  const char *device = ls_runtime_device(runtime);
  const char *given = ls_runtime_environment(runtime, "LS_PJRT_PLUGIN");
  // Keeps information of XLA from standard error, unless it is asked for.
  setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);
  if (strncmp(device, "pjrt:", 5) == 0) given = device + 5;
  if (given != NULL && given[0] != '\0') {
    ls_text_append(path, given);
    return open_library(device, given, out_library);
  }
  for (size_t i = 0; i < LS_COUNT_OF(wheels); ++i)
    if (strcmp(device, wheels[i].device) == 0)
      return open_wheel(runtime, &wheels[i], path, out_library);
  return ls_not_found("device 'pjrt' is the plug-in that the environment's "
                      "LS_PJRT_PLUGIN names, which is not set; 'pjrt:PATH' "
                      "names one too");
}

static ls_mutex plugins_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static ls_pjrt_plugin *plugins;  // Initialized plug-ins. Under the lock.

// ---- Calls -----------------------------------------------------------------
typedef PJRT_Error *(*pjrt_call)(void *args);

static const char *slot_name(ls_pjrt_slot slot) {
  switch (slot) {
#define LS_PJRT_SLOT(number, name)                                             \
  case LS_PJRT_##name:                                                         \
    return "PJRT_" #name;
    LS_PJRT_SLOTS(LS_PJRT_SLOT)
#undef LS_PJRT_SLOT
  }
  return "PJRT";
}

bool ls_pjrt_has(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot) {
  const size_t end = offsetof(ls_pjrt_table, slots) +
                     ((size_t)slot + 1) * sizeof(ls_pjrt_function);
  return plugin->table->size >= end && plugin->table->slots[slot] != NULL;
}

static PJRT_Error *call_slot(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot,
                             void *args) {
  return ((pjrt_call)plugin->table->slots[slot])(args);
}

// Calls one of the slots that give no error.
static void call_void(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot,
                      void *args) {
  ((void (*)(void *))plugin->table->slots[slot])(args);
}

ls_status ls_pjrt_take_error(const ls_pjrt_plugin *plugin, const char *call,
                             PJRT_Error *error) {
  enum { MOST = 2000 };
  if (error == NULL) return ls_ok();
  LS_PJRT_ARGS(ls_pjrt_text_args, message, .object = error);
  call_void(plugin, LS_PJRT_Error_Message, &message);
  LS_PJRT_ARGS(ls_pjrt_object_args, code, .object = error);
  LS_PJRT_ARGS(ls_pjrt_object_args, other, .object = NULL);
  other.object = call_slot(plugin, LS_PJRT_Error_GetCode, &code);
  if (other.object != NULL) call_void(plugin, LS_PJRT_Error_Destroy, &other);
  const bool is_known =
      code.answer.number > LS_OK && code.answer.number <= LS_DATA_LOSS;
  const size_t size = message.text_size < MOST ? message.text_size : MOST;
  ls_status status = LS_STATUS(
      is_known ? (ls_code)code.answer.number : LS_UNKNOWN,
      "%s: %.*s\nin plug-in '%s'", call, (int)size, message.text, plugin->path);
  other.object = error;
  call_void(plugin, LS_PJRT_Error_Destroy, &other);
  return status;
}

ls_status ls_pjrt_call(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot,
                       void *args) {
  if (!ls_pjrt_has(plugin, slot))
    return ls_unimplemented("plug-in '%s' has no %s", plugin->path,
                            slot_name(slot));
  return ls_pjrt_take_error(plugin, slot_name(slot),
                            call_slot(plugin, slot, args));
}

void ls_pjrt_destroy(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot,
                     void *object) {
  if (object == NULL) return;
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = object);
  ls_status_free(ls_pjrt_call(plugin, slot, &args));
}

ls_status ls_pjrt_await(const ls_pjrt_plugin *plugin, PJRT_Event *event) {
  if (event == NULL) return ls_ok();
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = event);
  const ls_status status = ls_pjrt_call(plugin, LS_PJRT_Event_Await, &args);
  ls_pjrt_destroy(plugin, LS_PJRT_Event_Destroy, event);
  return status;
}

// ---- Flags -----------------------------------------------------------------
// A plug-in aborts the process if XLA_FLAGS has a flag that it does not know.
// It knows the flags whose names it holds, as texts that end with a zero.
typedef struct text_search {
  uintptr_t within;  // An address in the library.
  const char *text;
  size_t size;
  bool is_found;
} text_search;

static int search_library(struct dl_phdr_info *info, size_t size, void *user) {
  (void)size;
  text_search *search = user;
  bool is_ours = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    const uintptr_t begin = info->dlpi_addr + part->p_vaddr;
    is_ours |= part->p_type == PT_LOAD && search->within >= begin &&
               search->within - begin < part->p_memsz;
  }
  for (int i = 0; is_ours && i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) *part = &info->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || (part->p_flags & PF_R) == 0) continue;
    search->is_found |=
        memmem((const void *)(info->dlpi_addr + part->p_vaddr), part->p_filesz,
               search->text, search->size) != NULL;
  }
  return is_ours;
}

// Checks one flag, "--name=value".
static ls_status check_flag(const ls_pjrt_plugin *plugin, const char *flag,
                            size_t size) {
  char name[256];
  const size_t dashes = strspn(flag, "-");
  size_t length = strcspn(flag, "=");
  if (length > size) length = size;
  length = length > dashes ? length - dashes : 0;
  bool is_known = dashes > 0 && length > 0 && length < sizeof(name);
  if (is_known) {
    memcpy(name, flag + dashes, length);
    name[length] = '\0';
    text_search search = {.within =
                              (uintptr_t)dlsym(plugin->library, "GetPjrtApi"),
                          .text = name,
                          .size = length + 1};
    dl_iterate_phdr(search_library, &search);
    is_known = search.is_found;
  }
  if (is_known) return ls_ok();
  return ls_invalid_argument(
      "XLA_FLAGS has '%.*s', which plug-in '%s' does not know: it would end "
      "the process",
      (int)size, flag, plugin->path);
}

static ls_status check_flags(ls_runtime *runtime,
                             const ls_pjrt_plugin *plugin) {
  static const char spaces[] = " \t\r\n";
  const char *at = ls_system_environment(NULL, "XLA_FLAGS");
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  const ls_file_system *files = ls_runtime_files(runtime);
  LS_OWN_MEMORY(allocator, char, text) = NULL;
  size_t size = 0;
  if (at != NULL) at += strspn(at, spaces);
  if (at == NULL || *at == '\0') return ls_ok();
  if (*at != '-') {  // The name of a file with flags.
    LS_RETURN_IF_ERROR(ls_status_annotate(
        files->read(files->user, at, 1 << 20, allocator, &text, &size),
        "with flags that XLA_FLAGS names"));
    at = text;
  }
  for (at += strspn(at, spaces); *at != '\0'; at += strspn(at, spaces)) {
    const size_t length = strcspn(at, spaces);
    LS_RETURN_IF_ERROR(check_flag(plugin, at, length));
    at += length;
  }
  return ls_ok();
}

// ---- Loading ---------------------------------------------------------------
static bool is_optional(ls_pjrt_slot slot) {
  return slot == LS_PJRT_Executable_SizeOfGeneratedCodeInBytes ||
         slot == LS_PJRT_Executable_GetCostAnalysis ||
         slot == LS_PJRT_Executable_Serialize ||
         slot == LS_PJRT_Executable_DeserializeAndLoad ||
         slot >= LS_PJRT_TopologyDescription_Create;
}

static ls_status check_table(const ls_pjrt_plugin *plugin) {
  static const ls_pjrt_slot slots[] = {
#define LS_PJRT_SLOT(number, name) LS_PJRT_##name,
      LS_PJRT_SLOTS(LS_PJRT_SLOT)
#undef LS_PJRT_SLOT
  };
  const ls_pjrt_table *table = plugin->table;
  if (table == NULL || table->size < sizeof(ls_pjrt_table))
    return ls_failed_precondition("plug-in '%s' gives no table of PJRT calls",
                                  plugin->path);
  if (table->version.major != 0)
    return ls_failed_precondition(
        "plug-in '%s' has version %d.%d of the PJRT API; this library uses "
        "versions 0.x",
        plugin->path, table->version.major, table->version.minor);
  for (size_t i = 0; i < LS_COUNT_OF(slots); ++i)
    if (!is_optional(slots[i]) && !ls_pjrt_has(plugin, slots[i]))
      return ls_failed_precondition(
          "plug-in '%s' has no %s: version 0.%d of the PJRT API is too old",
          plugin->path, slot_name(slots[i]), table->version.minor);
  return ls_ok();
}

// Keeps libtpu from asking the cloud's metadata service where there is no TPU:
// each of 30 questions would wait for half a minute. Answers two of them, lets
// several processes use it at a time, and keeps it from writing files of logs.
static void prepare_libtpu(void *library) {
  static const char *const settings[][2] = {
      {"TPU_SKIP_MDS_QUERY", "1"},
      {"TPU_ACCELERATOR_TYPE", "v5litepod-4"},
      {"TPU_WORKER_HOSTNAMES", "localhost"},
      {"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},
      {"TPU_LOG_DIR", "disabled"},
  };
  if (dlsym(library, "GetLibtpuSdkApi") == NULL ||
      access("/dev/accel0", F_OK) == 0 || access("/dev/vfio/0", F_OK) == 0)
    return;
  for (size_t i = 0; i < LS_COUNT_OF(settings); ++i)
    setenv(settings[i][0], settings[i][1], 0);
}

// Takes the size and time of the library's file, which tell builds apart.
static void note_file(ls_pjrt_plugin *plugin, const void *symbol) {
  Dl_info info;
  struct stat file;
  if (dladdr(symbol, &info) == 0 || stat(info.dli_fname, &file) != 0) return;
  plugin->num_bytes = file.st_size;
  plugin->modified = file.st_mtime;
}

static ls_status initialize_plugin(ls_runtime *runtime,
                                   ls_pjrt_plugin *plugin) {
  // Copies the pointer: C has no conversion from void * to a function's.
  const ls_pjrt_table *(*get)(void) = NULL;
  void *symbol = dlsym(plugin->library, "GetPjrtApi");
  if (symbol == NULL)
    return ls_invalid_argument("library '%s' is no PJRT plug-in: it has no "
                               "function GetPjrtApi",
                               plugin->path);
  memcpy(&get, &symbol, sizeof(get));
  prepare_libtpu(plugin->library);
  plugin->table = get();
  note_file(plugin, symbol);
  LS_RETURN_IF_ERROR(check_table(plugin));
  LS_RETURN_IF_ERROR(check_flags(runtime, plugin));
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = NULL);
  args.size = offsetof(ls_pjrt_object_args, object);
  return ls_pjrt_call(plugin, LS_PJRT_Plugin_Initialize, &args);
}

static void release_plugin(ls_pjrt_plugin *plugin) {
  if (plugin == NULL) return;
  ls_release(ls_allocator_system(), plugin->path);
  ls_release(ls_allocator_system(), plugin);
}
LS_OWNED_POINTER(ls_pjrt_plugin, release_plugin)

static const ls_pjrt_plugin *find_loaded(const void *library) {
  const ls_pjrt_plugin *at = plugins;
  while (at != NULL && at->library != library)
    at = at->next;
  return at;
}

static ls_status find_or_load(ls_runtime *runtime,
                              const ls_pjrt_plugin **out_plugin) {
  void *library = NULL;
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(runtime)};
  LS_RETURN_IF_ERROR(plugin_open(runtime, &path, &library));
  *out_plugin = find_loaded(library);
  if (*out_plugin != NULL) {
    dlclose(library);  // One handle of each library stays open.
    return ls_ok();
  }
  ls_allocator *allocator = ls_allocator_system();
  LS_OWN_NEW_OR_RETURN(allocator, ls_pjrt_plugin, plugin);
  plugin->library = library;
  plugin->path = ls_copy_text(allocator, ls_text_data(&path), path.size);
  LS_RETURN_IF_NO_MEMORY(plugin->path);
  LS_RETURN_IF_ERROR(initialize_plugin(runtime, plugin));
  plugin->next = plugins;
  plugins = plugin;
  return ls_hand_over(&plugin, out_plugin);
}

ls_status ls_pjrt_plugin_load(ls_runtime *runtime,
                              const ls_pjrt_plugin **out_plugin) {
  *out_plugin = NULL;
  return LS_LOCKED(&plugins_lock, find_or_load(runtime, out_plugin));
}

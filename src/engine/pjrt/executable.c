// SPDX-License-Identifier: Apache-2.0
//
// Executables: programs as StableHLO modules, compiled by the plug-in.
#include "base/runtime_internal.h"
#include "base/threads/locked.h"
#include "base/values/digest.h"
#include "engine/pjrt/host.h"
#include "engine/pjrt/pjrt.h"
#include "graph/walk.h"
#include "lockstep/runtime_settings.h"

// ---- Cache ------------------------------------------------------------------
// The cache of compiled programs: files in the user's cache folder, named by
// all that decides what is compiled. Each has a head with its name and the
// checksum of what follows, since a plug-in may crash on bytes that it has not
// written.

// Head of a file. A file of a machine of another byte order fits no name.
typedef struct cache_head {
  char magic[8];
  uint64_t key[2];
  uint64_t size;
  uint64_t checksum[2];
} cache_head;

static const char magic[8] = "LSPJRT1";

// ---- The folder ------------------------------------------------------------
ls_status ls_pjrt_cache_init(ls_pjrt_backend *self) {
  ls_runtime *runtime = self->base.runtime;
  ls_text *folder = &self->cache_folder;
  const char *given = ls_runtime_environment(runtime, "LS_PJRT_CACHE");
  const char *cache = ls_runtime_environment(runtime, "XDG_CACHE_HOME");
  const char *home = ls_runtime_environment(runtime, "HOME");
  // Programs for CPUs are those of one machine, and quick to compile.
  const bool is_cpu = strcmp(ls_text_data(&self->client.platform), "cpu") == 0;
  if (given != NULL && given[0] != '\0') {
    if (strcmp(given, "off") != 0) ls_text_append(folder, given);
  } else if (!is_cpu && cache != NULL && cache[0] == '/') {
    ls_text_append_format(folder, "%s/lockstep", cache);
  } else if (!is_cpu && home != NULL && home[0] == '/') {
    ls_text_append_format(folder, "%s/.cache/lockstep", home);
  }
  return ls_text_status(folder);
}

static void add_text(ls_digest *digest, const ls_text *text) {
  ls_digest_add_u64(digest, text->size);
  ls_digest_add(digest, ls_text_data(text), text->size);
}

// Makes the key of a program, and the path of its file. Returns false if there
// is no cache.
static bool find_file(const ls_pjrt_backend *self, const ls_text *module,
                      const ls_text *options, uint64_t key[2], ls_text *path) {
  const ls_pjrt_client *client = &self->client;
  ls_digest digest;
  ls_digest_begin(&digest);
  ls_digest_add_u64(&digest, (uint64_t)client->plugin->table->version.minor);
  ls_digest_add_u64(&digest, (uint64_t)client->plugin->num_bytes);
  ls_digest_add_u64(&digest, (uint64_t)client->plugin->modified);
  add_text(&digest, &client->platform);
  add_text(&digest, &client->version);
  add_text(&digest, &client->kind);
  add_text(&digest, options);
  add_text(&digest, module);
  ls_digest_end(&digest, key);
  ls_text_init(path, ls_runtime_allocator(self->base.runtime));
  ls_text_append_format(path, "%s/pjrt-%016llx%016llx",
                        ls_text_data(&self->cache_folder),
                        (unsigned long long)key[0], (unsigned long long)key[1]);
  return self->cache_folder.size > 0 && !path->failed &&
         ls_pjrt_has(client->plugin, LS_PJRT_Executable_Serialize) &&
         ls_pjrt_has(client->plugin, LS_PJRT_Executable_DeserializeAndLoad);
}

static cache_head make_head(const uint64_t key[2], const void *data,
                            size_t size) {
  cache_head head = {.key = {key[0], key[1]}, .size = size};
  ls_digest digest;
  memcpy(head.magic, magic, sizeof(magic));
  ls_digest_begin(&digest);
  ls_digest_add(&digest, data, size);
  ls_digest_end(&digest, head.checksum);
  return head;
}

// ---- Files -----------------------------------------------------------------
static ls_status load_file(const ls_pjrt_client *client, const char *path,
                           const uint64_t key[2], const char *data, size_t size,
                           PJRT_LoadedExecutable **out_loaded) {
  const char *bytes = data + sizeof(cache_head);
  const size_t num_bytes = size - sizeof(cache_head);
  if (size < sizeof(cache_head))
    return LS_STATUS(LS_DATA_LOSS, "'%s' is cut off", path);
  const cache_head wanted = make_head(key, bytes, num_bytes);
  if (memcmp(data, &wanted, sizeof(wanted)) != 0)
    return LS_STATUS(LS_DATA_LOSS, "'%s' is damaged", path);
  LS_PJRT_ARGS(ls_pjrt_load_args, args, .client = client->handle,
               .bytes = bytes, .num_bytes = num_bytes);
  LS_RETURN_IF_ERROR(ls_pjrt_call(
      client->plugin, LS_PJRT_Executable_DeserializeAndLoad, &args));
  *out_loaded = args.executable;
  return ls_ok();
}

// Loads a program that was compiled earlier; `*out_loaded` stays NULL if there
// is none. Logs faults of a file.
static void cache_load(const ls_pjrt_backend *self, const ls_text *module,
                       const ls_text *options,
                       PJRT_LoadedExecutable **out_loaded) {
  ls_runtime *runtime = self->base.runtime;
  const ls_file_system *files = ls_runtime_files(runtime);
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  uint64_t key[2];
  size_t size = 0;
  bool exists = false;
  LS_OWN(ls_text, path) = {0};
  LS_OWN_MEMORY(allocator, char, data) = NULL;
  if (!find_file(self, module, options, key, &path)) return;
  ls_status status = files->exists(files->user, ls_text_data(&path), &exists);
  if (ls_status_is_ok(status) && exists)
    status = files->read(files->user, ls_text_data(&path), SIZE_MAX, allocator,
                         &data, &size);
  if (ls_status_is_ok(status) && exists)
    status = load_file(&self->client, ls_text_data(&path), key, data, size,
                       out_loaded);
  if (!ls_status_is_ok(status))
    ls_runtime_log(runtime, LS_LOG_WARNING, "pjrt",
                   "a compiled program cannot be used again, and is compiled: "
                   "%s",
                   ls_status_message(status));
  ls_status_free(status);
}

static ls_status store_file(const ls_pjrt_backend *self, const char *path,
                            const uint64_t key[2], const char *bytes,
                            size_t num_bytes) {
  const ls_file_system *files = ls_runtime_files(self->base.runtime);
  const cache_head head = make_head(key, bytes, num_bytes);
  LS_OWN(ls_text,
         file) = {.allocator = ls_runtime_allocator(self->base.runtime)};
  ls_text_append_bytes(&file, &head, sizeof(head));
  ls_text_append_bytes(&file, bytes, num_bytes);
  LS_RETURN_IF_ERROR(ls_text_status(&file));
  LS_RETURN_IF_ERROR(
      files->make_directories(files->user, ls_text_data(&self->cache_folder)));
  return files->write(files->user, path, file.data, file.size);
}

static void cache_store(const ls_pjrt_backend *self, const ls_text *module,
                        const ls_text *options, PJRT_Executable *executable) {
  uint64_t key[2];
  LS_OWN(ls_text, path) = {0};
  if (!find_file(self, module, options, key, &path)) return;
  LS_PJRT_ARGS(ls_pjrt_serialize_args, args, .executable = executable);
  ls_status status =
      ls_pjrt_call(self->client.plugin, LS_PJRT_Executable_Serialize, &args);
  if (ls_status_is_ok(status)) {
    status =
        store_file(self, ls_text_data(&path), key, args.bytes, args.num_bytes);
    if (args.free_owner != NULL) args.free_owner(args.owner);
  }
  if (!ls_status_is_ok(status))
    ls_runtime_log(self->base.runtime, LS_LOG_WARNING, "pjrt",
                   "a compiled program is not kept: %s",
                   ls_status_message(status));
  ls_status_free(status);
}

static const ls_pjrt_executable *executable_of(const ls_executable *self) {
  return (const ls_pjrt_executable *)self;
}

void ls_pjrt_release_executable(ls_executable *executable) {
  ls_pjrt_executable *self = (ls_pjrt_executable *)executable;
  if (self == NULL || !ls_count_release(&self->references)) return;
  if (self->host != NULL)
    ls_pjrt_host_table(self)->release_executable(self->host);
  for (const ls_pjrt_code *code = self->codes; code != NULL; code = code->next)
    ls_pjrt_destroy(self->backend->client.plugin,
                    LS_PJRT_LoadedExecutable_Destroy, code->loaded);
  ls_object_release(self->program);
  ls_arena_deinit(&self->arena);
  ls_mutex_deinit(&self->lock);
  ls_release(ls_runtime_allocator(self->backend->base.runtime), self);
}

static void drop_executable(ls_pjrt_executable *self) {
  ls_pjrt_release_executable((ls_executable *)self);
}
LS_OWNED_POINTER(ls_pjrt_executable, drop_executable)

// ---- The module ------------------------------------------------------------
// Chooses the devices: those of the program, else the first ones, as many as
// divide the replicas evenly. Without replicas it is one.
static ls_status choose_devices(ls_pjrt_executable *self) {
  const ls_program *program = self->program;
  const bool is_placed = program->num_devices > 0;
  int32_t count = is_placed ? (int32_t)program->num_devices
                            : self->backend->client.num_devices;
  LS_ARENA_ARRAY_OR_RETURN(&self->arena, int32_t, devices, (size_t)count);
  for (int32_t d = 0; d < count; ++d)
    devices[d] = is_placed ? program->devices[d] : d;
  while (!is_placed && count > 1 && program->replicas % count != 0)
    --count;
  self->devices = devices;
  self->num_devices =
      ls_graph_any_type(program->body, LS_OP_REPLICATE) ? count : 1;
  return ls_ok();
}

// Lists the written uses. Lets a new value take over the memory of the old one,
// unless the program keeps both.
static ls_status list_written(ls_pjrt_executable *self) {
  const ls_program *program = self->program;
  const size_t count = program->num_inputs + program->num_uses;
  LS_ARENA_ARRAY_OR_RETURN(&self->arena, int32_t, aliases, count + 1);
  LS_ARENA_ARRAY_OR_RETURN(&self->arena, uint32_t, written,
                           program->num_uses + 1);
  for (size_t i = 0; i < count; ++i)
    aliases[i] = -1;
  for (size_t i = 0; i < program->num_uses; ++i) {
    if (!program->uses[i].written) continue;
    if (!program->apart)
      aliases[program->num_inputs + i] =
          (int32_t)(program->num_outputs + self->num_written);
    written[self->num_written++] = (uint32_t)i;
  }
  self->aliases = aliases;
  self->written = written;
  return ls_ok();
}

static ls_status write_module(const ls_pjrt_executable *self, int64_t room,
                              ls_arena *memory, ls_text *out,
                              ls_hlo_layout *out_layout) {
  return ls_hlo_write_program(
      &(ls_hlo_program){.body = self->program->body,
                        .aliases = self->aliases,
                        .num_devices = self->num_devices,
                        .exact = self->backend->exact,
                        .highest = self->backend->highest,
                        .bf16 = self->backend->bf16,
                        .room = room},
      memory, out, out_layout);
}

// ---- Compiling -------------------------------------------------------------
// Compiles the module; for a topology there is no more of it than
// `*out_executable`.
static ls_status compile_module(const ls_pjrt_executable *self,
                                const ls_text *module, const ls_text *options,
                                PJRT_LoadedExecutable **out_loaded,
                                PJRT_Executable **out_executable) {
  static const char format[] = "mlir";
  const ls_pjrt_client *client = &self->backend->client;
  LS_PJRT_ARGS(ls_pjrt_program, program, .code = module->data,
               .code_size = module->size, .format = format,
               .format_size = sizeof(format) - 1);
  if (client->topology != NULL) {
    LS_PJRT_ARGS(ls_pjrt_compile_ahead_args, ahead,
                 .topology = client->topology, .program = &program,
                 .options = options->data, .options_size = options->size);
    const ls_status status =
        ls_pjrt_call(client->plugin, LS_PJRT_Compile, &ahead);
    *out_executable = ahead.executable;
    return status;
  }
  LS_PJRT_ARGS(ls_pjrt_compile_args, args, .client = client->handle,
               .program = &program, .options = options->data,
               .options_size = options->size);
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(client->plugin, LS_PJRT_Client_Compile, &args));
  *out_loaded = args.executable;
  return ls_ok();
}

// Checks what runs rely on: the devices, in their order, and the number of
// results.
static ls_status check_loaded(const ls_pjrt_executable *self,
                              PJRT_LoadedExecutable *loaded,
                              PJRT_Executable *executable) {
  const ls_pjrt_client *client = &self->backend->client;
  LS_PJRT_ARGS(ls_pjrt_devices_args, devices, .object = loaded);
  LS_RETURN_IF_ERROR(ls_pjrt_call(
      client->plugin, LS_PJRT_LoadedExecutable_AddressableDevices, &devices));
  bool fits = devices.count == (size_t)self->num_devices;
  for (size_t i = 0; fits && i < devices.count; ++i)
    fits = devices.devices[i] == client->devices[self->devices[i]];
  LS_PJRT_ARGS(ls_pjrt_object_args, results, .object = executable);
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(client->plugin, LS_PJRT_Executable_NumOutputs, &results));
  if (fits && results.answer.count == ls_pjrt_num_results(self)) return ls_ok();
  return ls_internal("plug-in '%s' compiled a program of %zu results for %d "
                     "devices to one of %zu results for %zu others",
                     client->plugin->path, ls_pjrt_num_results(self),
                     self->num_devices, results.answer.count, devices.count);
}

// Reads what XLA estimates of a run.
static void note_costs(const ls_pjrt_plugin *plugin,
                       PJRT_Executable *executable,
                       ls_program_figures *figures) {
  LS_PJRT_ARGS(ls_pjrt_values_args, args, .object = executable);
  const ls_status status =
      ls_pjrt_call(plugin, LS_PJRT_Executable_GetCostAnalysis, &args);
  for (size_t i = 0; ls_status_is_ok(status) && i < args.count; ++i) {
    const ls_pjrt_named_value *cost = &args.values[i];
    if (cost->kind != LS_PJRT_FLOAT) continue;
    if (ls_pjrt_is_named(cost, "flops")) figures->flops = cost->value.real;
    if (ls_pjrt_is_named(cost, "bytes accessed"))
      figures->bytes_accessed = cost->value.real;
  }
  ls_status_free(status);
}

// Takes the figures that the plug-in gives; it may have a call and none.
static void note_figures(ls_pjrt_executable *self,
                         PJRT_Executable *executable) {
  const ls_pjrt_plugin *plugin = self->backend->client.plugin;
  ls_program_figures *figures = &self->facts.figures;
  *figures =
      (ls_program_figures){self->num_devices, -1, -1, -1, -1, -1, -1, -1, 0};
  self->facts.num_instructions = self->program->body->num_nodes;
  note_costs(plugin, executable, figures);
  LS_PJRT_ARGS(ls_pjrt_object_args, code, .object = executable);
  ls_status status = ls_pjrt_call(
      plugin, LS_PJRT_Executable_SizeOfGeneratedCodeInBytes, &code);
  if (ls_status_is_ok(status)) figures->code_bytes = code.answer.size;
  ls_status_free(status);
  LS_PJRT_ARGS(ls_pjrt_memory_args, args, .executable = executable);
  status =
      ls_pjrt_call(plugin, LS_PJRT_Executable_GetCompiledMemoryStats, &args);
  if (ls_status_is_ok(status)) {
    figures->argument_bytes = args.arguments;
    figures->result_bytes = args.results;
    figures->alias_bytes = args.aliases;
    figures->temporary_bytes = args.temporary;
    self->facts.shared_bytes = (size_t)args.temporary;
    self->facts.constant_bytes = (size_t)args.code;
  }
  ls_status_free(status);
}

// Checks the loaded executable and takes its figures; `keep` puts it into the
// cache.
static ls_status inspect(ls_pjrt_executable *self,
                         PJRT_LoadedExecutable *loaded, const ls_text *module,
                         const ls_text *options, bool keep) {
  const ls_pjrt_plugin *plugin = self->backend->client.plugin;
  LS_PJRT_ARGS(ls_pjrt_object_args, args, .object = loaded);
  LS_RETURN_IF_ERROR(
      ls_pjrt_call(plugin, LS_PJRT_LoadedExecutable_GetExecutable, &args));
  const ls_status status = check_loaded(self, loaded, args.answer.object);
  if (ls_status_is_ok(status)) note_figures(self, args.answer.object);
  if (ls_status_is_ok(status) && keep)
    cache_store(self->backend, module, options, args.answer.object);
  ls_pjrt_destroy(plugin, LS_PJRT_Executable_Destroy, args.answer.object);
  return status;
}

static ls_status load_or_compile(ls_pjrt_executable *self,
                                 const ls_text *module, const ls_text *options,
                                 PJRT_LoadedExecutable **loaded) {
  const ls_pjrt_plugin *plugin = self->backend->client.plugin;
  PJRT_Executable *ahead = NULL;
  if (self->backend->client.topology == NULL)
    cache_load(self->backend, module, options, loaded);
  if (*loaded != NULL) {
    const ls_status status = inspect(self, *loaded, module, options, false);
    if (ls_status_is_ok(status)) return ls_ok();
    ls_status_free(status);
    ls_pjrt_destroy(plugin, LS_PJRT_LoadedExecutable_Destroy, *loaded);
    *loaded = NULL;
  }
  LS_RETURN_IF_ERROR(compile_module(self, module, options, loaded, &ahead));
  if (*loaded != NULL) return inspect(self, *loaded, module, options, true);
  note_figures(self, ahead);
  ls_pjrt_destroy(plugin, LS_PJRT_Executable_Destroy, ahead);
  return ls_ok();
}

// Makes the code of a module, the first one with so much room. Requires the
// lock, if others may look.
static ls_status add_code(ls_pjrt_executable *self, const ls_text *module,
                          int64_t room) {
  LS_OWN(ls_text, options) = {.allocator = self->arena.allocator};
  LS_ARENA_ARRAY_OR_RETURN(&self->arena, ls_pjrt_code, code, 1);
  LS_RETURN_IF_ERROR(
      ls_pjrt_write_options(&self->backend->client,
                            &(ls_pjrt_options){.devices = self->devices,
                                               .num_devices = self->num_devices,
                                               .exact = self->backend->exact},
                            &options));
  const ls_status status =
      load_or_compile(self, module, &options, &code->loaded);
  code->room = room;
  code->next = self->codes;
  self->codes = code;  // Also after a failure: it may be loaded.
  if (!ls_status_is_ok(status)) code->room = -1;
  return status;
}

static ls_status find_or_add(ls_pjrt_executable *self, int64_t trips,
                             const ls_pjrt_code **out_code) {
  ls_hlo_layout layout;
  ls_runtime *runtime = self->backend->base.runtime;
  int64_t room = self->codes == NULL ? trips : 1;
  *out_code = NULL;
  for (const ls_pjrt_code *code = self->codes; code != NULL; code = code->next)
    if (code->room >= trips) *out_code = code;
  if (*out_code != NULL) return ls_ok();
  while (room < trips)
    room = room > INT64_MAX / 2 ? trips : 2 * room;
  const int64_t began = ls_runtime_now(runtime);
  LS_OWN(ls_text, module) = {.allocator = self->arena.allocator};
  LS_OWN(ls_arena, memory) = {.allocator = self->arena.allocator};
  LS_RETURN_IF_ERROR(write_module(self, room, &memory, &module, &layout));
  LS_RETURN_IF_ERROR(add_code(self, &module, room));
  self->facts.figures.compile_seconds =
      (double)(ls_runtime_now(runtime) - began) * 1e-9;
  *out_code = self->codes;
  return ls_ok();
}

ls_status ls_pjrt_find_code(ls_pjrt_executable *self, int64_t trips,
                            const ls_pjrt_code **out_code) {
  return LS_LOCKED(&self->lock, find_or_add(self, trips, out_code));
}

// Returns true if each run says how many trips a loop makes for whose calls the
// program needs room.
static bool is_compiled_later(const ls_pjrt_executable *self) {
  return self->layout.around.loop != NULL &&
         self->layout.around.trips.limit >= 0;
}

static ls_status compile_for_devices(ls_pjrt_executable *self) {
  ls_hlo_layout *layout = &self->layout;
  LS_OWN(ls_text, module) = {.allocator = self->arena.allocator};
  LS_RETURN_IF_ERROR(choose_devices(self));
  LS_RETURN_IF_ERROR(list_written(self));
  LS_RETURN_IF_ERROR(ls_pjrt_find_labels(self));
  LS_RETURN_IF_ERROR(write_module(self, 1, &self->arena, &module, layout));
  self->facts.is_late = layout->num_hosts == 0;
  if (layout->num_hosts > 0 && !layout->around.is_around)
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_pjrt_register_handler(&self->backend->client),
                           "%s", layout->around.other));
  return is_compiled_later(self) ? ls_ok()
                                 : add_code(self, &module, layout->around.room);
}

ls_status ls_pjrt_compile(ls_backend *backend, const ls_program *program,
                          ls_executable **out_executable) {
  ls_allocator *allocator = ls_runtime_allocator(backend->runtime);
  *out_executable = NULL;
  LS_NEW_OR_RETURN(allocator, ls_pjrt_executable, made);
  made->references = 1;
  made->backend = ls_pjrt_of(backend);
  made->program = ls_object_retain((ls_program *)(uintptr_t)program);
  ls_arena_init(&made->arena, allocator);
  LS_OWN(ls_pjrt_executable, self) = made;
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(program->on_host ? backend->host->vtable->compile(
                                            backend->host, program, &self->host)
                                      : compile_for_devices(self));
  *out_executable = (ls_executable *)ls_give(&self);
  return ls_ok();
}

// ---- Figures ---------------------------------------------------------------
ls_plan_facts ls_pjrt_facts(const ls_executable *executable) {
  ls_pjrt_executable *self = (ls_pjrt_executable *)(uintptr_t)executable;
  if (self->host != NULL) return ls_pjrt_host_table(self)->facts(self->host);
  if (!is_compiled_later(self)) return self->facts;
  return LS_LOCKED(&self->lock, self->facts);
}

ls_status ls_pjrt_print_plan(const ls_executable *executable, ls_text *text) {
  const ls_pjrt_executable *self = executable_of(executable);
  if (self->host != NULL)
    return ls_pjrt_host_table(self)->print_plan(self->host, text);
  ls_hlo_layout layout;
  LS_OWN(ls_arena, memory) = {.allocator = text->allocator};
  ls_text_append_format(
      text, "# %d of the devices '%s'; %zu bytes of temporary memory on each\n",
      self->num_devices, ls_text_data(&self->backend->client.kind),
      ls_pjrt_facts(executable).shared_bytes);
  return write_module(self, 1, &memory, text, &layout);
}

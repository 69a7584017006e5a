// SPDX-License-Identifier: Apache-2.0
//
// The cache of compiled programs: files in the user's cache folder, named by
// all that decides what is compiled. Each has a head with its name and the
// checksum of what follows, since a plug-in may crash on bytes that it has not
// written.
#include "base/runtime_internal.h"
#include "base/values/digest.h"
#include "engine/pjrt/pjrt.h"
#include "lockstep/runtime_settings.h"

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

void ls_pjrt_cache_load(const ls_pjrt_backend *self, const ls_text *module,
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

void ls_pjrt_cache_store(const ls_pjrt_backend *self, const ls_text *module,
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

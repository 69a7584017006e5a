// SPDX-License-Identifier: Apache-2.0
// Any text is the name of a TPU system or refused; addresses of one have a
// host and a port, and a pod has as many cores as it says.
#include <stdlib.h>
#include <string.h>

#include "tpu/system/resolver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_addresses(const ls_tpu_resolver *resolver) {
  ls_cluster_spec *spec = NULL;
  ls_status status = ls_tpu_resolver_cluster_spec(resolver, &spec);
  if (!ls_status_is_ok(status) || spec->num_jobs != 1) abort();
  for (size_t i = 0; i < spec->jobs[0].num_addresses; ++i) {
    const char *address = spec->jobs[0].addresses[i];
    const char *port = strrchr(address, ':');
    if (port == NULL || port == address || atoi(port + 1) < 1) abort();
  }
  ls_cluster_spec_destroy(spec);
}

static void check_shape(const ls_pod_shape *shape) {
  int64_t cores = 1;
  for (int k = 0; k < LS_MESH_RANK; ++k) {
    if (shape->mesh[k] < 1) abort();
    cores *= shape->mesh[k];
  }
  if (cores > LS_MAX_POD_CORES || shape->hosts < 1 ||
      shape->mesh[0] % shape->hosts != 0)
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = malloc(size + 1);
  if (text == NULL) return 0;
  memcpy(text, data, size);
  text[size] = '\0';
  ls_tpu_resolver *resolver = NULL;
  ls_status status = ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = text, .local = text}, &resolver);
  if (ls_status_is_ok(status) != (resolver != NULL)) abort();
  if (resolver != NULL && resolver->kind == LS_TPU_ADDRESSES)
    check_addresses(resolver);
  if (resolver != NULL && ls_tpu_is_pod(resolver))
    check_shape(&resolver->shape);
  ls_status_free(status);
  ls_tpu_resolver_release(resolver);
  ls_pod_shape shape;
  status = ls_pod_shape_parse(text, text, &shape);
  if (ls_status_is_ok(status)) check_shape(&shape);
  ls_status_free(status);
  free(text);
  return 0;
}

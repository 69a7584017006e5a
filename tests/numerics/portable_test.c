// SPDX-License-Identifier: Apache-2.0
//
// Trained models have the same bytes on every machine: on x86-64 whatever its
// vectors, on AArch64, with any compiler. Their digests stand here; who changes
// bits on purpose makes a new numerics id (engine/cpu/backend.c) and new ones.
#include "support/expect.h"

#include "lockstep/runtime_settings.h"
#include "support/small_models.h"
#include "support/training.h"

typedef struct portable {
  const ls_model_type *type;
  ls_math math;
  uint64_t digest;
} portable;

static const portable all[] = {
    {&small_mlp, LS_MATH_FAST, 0x7fa3b6ae34b85aba},
    {&small_mlp, LS_MATH_BF16, 0xd79699e0d5ea5828},
    {&small_cnn, LS_MATH_FAST, 0x1221139e42ebd97f},
    {&small_cnn, LS_MATH_DIRECT, 0xc0cdb26e22d48e04},
    {&small_cnn, LS_MATH_BF16, 0xabe83c7e5686d339},
    {&small_cnn, LS_MATH_BF16_DIRECT, 0x823a4b1b3e43b7e7},
    {&small_gpt, LS_MATH_FAST, 0x2bf416795075245e},
    {&small_gpt, LS_MATH_BF16, 0x5a26c91f57db110e},
};

// FNV-1a.
static uint64_t digest_of(const training *self) {
  uint64_t digest = 0xCBF29CE484222325U;
  for (size_t i = 0; i < self->num_values; ++i) {
    const uint8_t *bytes = ls_array_data(self->values[i]);
    for (size_t k = 0; k < ls_array_size(self->values[i]); ++k)
      digest = (digest ^ bytes[k]) * 0x100000001B3U;
  }
  return digest;
}

TEST(trained_models_have_the_bytes_of_every_machine) {
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    const training_job job = {.model = all[i].type->name,
                              .type = all[i].type,
                              .batch = 8,
                              .steps = 3,
                              .replicas = 2,
                              .threads = 2,
                              .math = all[i].math};
    training got;
    training_run(&job, &got);
    const uint64_t digest = digest_of(&got);
    training_deinit(&got);
    if (digest != all[i].digest)
      fail_msg("%s, %s: %#llx", job.model, ls_math_name(job.math),
               (unsigned long long)digest);
  }
}

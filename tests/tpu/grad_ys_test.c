// SPDX-License-Identifier: Apache-2.0
//
// Gradients that a walk starts with lie beside their ys, also beside those that
// are compiled outside, for which the call of gradients must be known.
#include "grad/walk.h"
#include "lockstep/gradients.h"
#include "support/computation.h"
#include "support/spec.h"

static ls_nest double_it(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul(args.as.tensor, f32_of(2)));
}

// A y of a core, and one of cluster "0".
typedef struct filling {
  bool outside;
  const char *uid;
  bool given;
} filling;

static ls_nest fill(ls_nest args, void *user) {
  const filling *f = user;
  const ls_nest x = ls_nest_item(args, 0);
  const ls_tensor y = f->outside
                          ? ls_outside_compilation(double_it, NULL, x).as.tensor
                          : ls_neg(x.as.tensor);
  const ls_gradient_context context = {.colocate = true, .uid = f->uid};
  const ls_nest given = ls_nest_f64(7);
  ls_tensor gradient;
  const ls_status status =
      ls_gradient_fill(&context, f->given ? &given : NULL, &y, 1, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  expect_outside(gradient, f->outside ? "0.u" : NULL);
  return LS_LIST(ls_leaf(gradient));
}

TEST(what_a_walk_starts_with_needs_a_call_outside) {
  LS_SPEC("O53 O186");
  const filling rows[] = {{false, NULL, false}, {false, NULL, true},
                          {false, "u", false},  {true, "u", false},
                          {true, "u", true},    {true, NULL, false},
                          {true, NULL, true}};
  for (int replicas = 1; replicas <= 2; ++replicas)
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
      filling f = rows[i];
      LS_OWN_BEGUN(computation, c, computation_open);
      const ls_nest inputs = computation_inputs((size_t)replicas);
      const ls_status status = ls_replicate(fill, &f, inputs, NULL, &c.outputs);
      ls_nest_release(inputs);
      if (f.outside && f.uid == NULL) {
        expect_status(status, LS_UNIMPLEMENTED,
                      "No gradient_uid calling gradient within");
      } else {
        expect_ok(status);
        assert_true(computation_output(&c, 0, 0) == (f.given ? 7 : 1));
      }
    }
}

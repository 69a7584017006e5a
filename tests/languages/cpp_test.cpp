// SPDX-License-Identifier: Apache-2.0
//
// lockstep.hpp beyond what examples/mlp.cpp uses; run by cpp_test.sh.
#include <cstdio>
#include <cstring>

#include "lockstep/lockstep.hpp"

namespace {

int failures = 0;

#define EXPECT(condition)                                                      \
  (static_cast<void>((condition) || ((std::printf("%s:%d: %s\n", __FILE__,     \
                                                  __LINE__, #condition),       \
                                      ++failures) < 0)))

// Expects that `body` throws this code and text.
template <typename Body>
void expect_error(ls_code code, const char *part, Body body) {
  try {
    body();
    EXPECT(failures < 0 && "no exception");
  } catch (const lockstep::error &failure) {
    EXPECT(failure.code() == code);
    if (std::strstr(failure.what(), part) == nullptr) {
      std::printf("'%s' lacks '%s'\n", failure.what(), part);
      ++failures;
    }
  }
}

lockstep::nest numbers(std::initializer_list<float> values) {
  auto made = lockstep::array(
      LS_DTYPE_F32, LS_SHAPE(static_cast<std::int64_t>(values.size())));
  float *out = lockstep::elements<float>(made);
  for (const float value : values)
    *out++ = value;
  return made;
}

// Counts the lambdas that are alive.
struct counted {
  explicit counted(int *number) : count(number) { ++*count; }
  counted(const counted &other) : count(other.count) { ++*count; }
  counted &operator=(const counted &) = delete;
  ~counted() { --*count; }
  int *count;
};

void test_functions() {
  int alive = 0, traces = 0;
  {
    const counted held(&alive);
    const lockstep::function function([&traces, held](ls_nest args) {
      ++traces;
      const ls_tensor x = ls_nest_tensor(args, 0);
      return ls_reduce_sum((2.0 * x - 1.0) / -x + x * x, LS_ALL_AXES);
    });
    lockstep::nest result;
    for (int i = 0; i < 3; ++i)
      function(lockstep::nest::tuple(numbers({1, 2})), result);
    EXPECT(result.number() == -1 + 1 - 1.5 + 4);
    EXPECT(traces == 1);
    expect_error(LS_INVALID_ARGUMENT, "matmul", [] {
      lockstep::function([](ls_nest args) {
        return ls_matmul(ls_nest_tensor(args, 0), ls_nest_tensor(args, 0));
      })(lockstep::nest::tuple(numbers({1, 2, 3})));
    });
    expect_error(LS_UNKNOWN, "thrown by a step", [] {
      lockstep::function([](ls_nest) -> ls_tensor {
        throw std::runtime_error("thrown by a step");
      })(ls_none());
    });
    expect_error(LS_ABORTED, "ABORTED: mine", [] {
      lockstep::function([](ls_nest) -> ls_tensor {
        throw lockstep::error(LS_ABORTED, "mine");
      })(ls_none());
    });
    expect_error(LS_UNKNOWN, "no code", [] {
      lockstep::function([](ls_nest) -> ls_tensor {
        throw lockstep::error(LS_OK, "no code");
      })(ls_none());
    });
  }
  EXPECT(alive == 0);
}

void test_data() {
  int alive = 0;
  {
    const counted held(&alive);
    const auto data =
        lockstep::dataset(ls_dataset_range(0, 10, 1))
            .skip(2)
            .take(5)
            .map([held](ls_nest element) -> lockstep::nest {
              auto made = lockstep::array(LS_DTYPE_I64, LS_SCALAR);
              ls_array_set_i64(made, 0,
                               10 * ls_array_i64(ls_nest_as_array(element), 0));
              return made;
            })
            .repeat(1)
            .batch(3)
            .parts(2);
    lockstep::iterator elements(data);
    lockstep::nest element;
    double sum = 0;
    int count = 0;
    for (; elements.next(element); ++count)
      for (std::size_t r = 0; r < 2; ++r) {
        ls_array *part = ls_nest_as_array(ls_distributed_component(element, r));
        for (std::int64_t i = 0; i < ls_array_num_elements(part); ++i)
          sum += ls_array_f64(part, i);
      }
    EXPECT(count == 2);
    EXPECT(sum == 20 + 30 + 40 + 50 + 60);
  }
  EXPECT(alive == 0);
  expect_error(LS_INVALID_ARGUMENT, "step",
               [] { lockstep::dataset(ls_dataset_range(0, 1, 0)); });
}

void test_values() {
  const auto frame = [] { lockstep::check(ls_frame_begin()); };
  frame();
  {
    const lockstep::scope names(ls_name_scope_begin, "outer");
    EXPECT(std::strcmp(ls_name_scope_current(), "outer/") == 0);
  }
  EXPECT(std::strcmp(ls_name_scope_current(), "") == 0);
  expect_error(LS_INVALID_ARGUMENT, "nonsense", [] {
    const lockstep::scope device(ls_device_scope_begin, "/nonsense:x");
  });
  auto initial = lockstep::array(LS_DTYPE_F32, LS_SHAPE(2));
  lockstep::elements<float>(initial)[1] = 3;
  expect_error(LS_INVALID_ARGUMENT, "f32",
               [&] { lockstep::elements<double>(initial); });
  expect_error(LS_INVALID_ARGUMENT, "f32",
               [&] { lockstep::elements<std::int32_t>(initial); });
  const auto halves = lockstep::array(LS_DTYPE_F16, LS_SHAPE(2));
  EXPECT(lockstep::elements<std::uint16_t>(halves)[1] == 0);
  const auto w = lockstep::variable("w", initial);
  double value = 0;
  lockstep::check(ls_tensor_item(
      ls_reduce_max(ls_variable_read(w) + 1.0, LS_ALL_AXES), &value));
  EXPECT(value == 4);
  const ls_tensor bytes = ls_scalar(LS_DTYPE_U8, 200);
  lockstep::check(ls_tensor_item(bytes + 55.0, &value));
  EXPECT(value == 255);
  expect_error(LS_INVALID_ARGUMENT, "a tensor of u8 and 0.5",
               [&] { (void)(0.5 * bytes); });
  expect_error(LS_INVALID_ARGUMENT, "a tensor of u8 and 300.0",
               [&] { (void)(bytes < 300.0); });
  expect_error(LS_INVALID_ARGUMENT, "a tensor of i64 and 92233720368547758", [] {
    (void)(ls_scalar(LS_DTYPE_I64, 0) + 9223372036854775808.0);
  });
  expect_error(LS_INVALID_ARGUMENT, "a tensor of u64 and 18446744073709551", [] {
    (void)(ls_scalar(LS_DTYPE_U64, 0) + 18446744073709551616.0);
  });
  lockstep::check(ls_tensor_item(
      ls_scalar(LS_DTYPE_U64, 0) + 9223372036854775808.0, &value));
  EXPECT(value == 9223372036854775808.0);
  const lockstep::nest dict = lockstep::nest::dict(
      std::make_pair("a", 1.5),
      std::make_pair("b", lockstep::nest::tuple(2.0, 3.0)));
  EXPECT(ls_nest_number(ls_nest_find(dict, "a")) == 1.5);
  EXPECT(ls_nest_count(ls_nest_find(dict, "b")) == 2);
  EXPECT(ls_nest_count(lockstep::nest::tuple()) == 0);
  EXPECT(ls_nest_count(lockstep::nest::dict()) == 0);
  lockstep::check(ls_frame_end(nullptr));
}

void test_replicas() {
  ls_mirrored_options options{};
  options.num_replicas = LS_SOME(4);
  const auto strategy = lockstep::make<ls_mirrored_strategy_create>(options);
  const lockstep::function step([](ls_nest args) {
    return ls_all_reduce(LS_REDUCE_SUM,
                         ls_reduce_sum(ls_nest_tensor(args, 0), LS_ALL_AXES));
  });
  lockstep::nest parts, sum;
  auto whole = lockstep::array(LS_DTYPE_F32, LS_SHAPE(8));
  for (int i = 0; i < 8; ++i)
    lockstep::elements<float>(whole)[i] = static_cast<float>(i);
  lockstep::check(ls_strategy_split(strategy, whole, parts.address()));
  step.run(strategy, lockstep::nest::tuple(std::move(parts)), sum);
  EXPECT(sum.number(3) == 28);
}

void test_runtimes() {
  ls_runtime *const before = ls_runtime_current();
  lockstep::runtime runtime;
  {
    const lockstep::function kept(
        [](ls_nest args) { return ls_leaf(ls_nest_tensor(args, 0)); });
    lockstep::nest result;
    auto x = lockstep::array(LS_DTYPE_F32, LS_SHAPE(2));
    kept(lockstep::nest::tuple(std::move(x)), result);
    expect_error(LS_FAILED_PRECONDITION, "function", [&] { runtime.close(); });
    EXPECT(ls_runtime_current() == runtime);
  }
  runtime.close();
  EXPECT(runtime == nullptr && ls_runtime_current() == before);
}

}  // namespace

int main() {
  try {
    test_functions();
    test_data();
    test_values();
    test_replicas();
    test_runtimes();
  } catch (const std::exception &failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
  return failures == 0 ? 0 : 1;
}

# SPDX-License-Identifier: Apache-2.0
"""Tests of python/lockstep.py; run by python_test.sh, in a scratch folder."""

import array
import ctypes
import gc
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

import lockstep as ls
from mlp import make_mlp

HERE = tempfile.mkdtemp(prefix="lockstep_python.")


def bytes_of(path):
  with open(path, "rb") as file:
    return file.read()


class Declarations(unittest.TestCase):

  def test_structs_are_laid_out_as_by_the_compiler(self):
    lines, wanted = [], []
    for name, kind in sorted(ls._declared.types.items()):
      if kind.kind != "struct" or not kind.fields or kind.name != name:
        continue
      made = ls._ctype(kind)
      lines.append('printf("%s %%zu\\n", sizeof(%s%s));' % (
          name, "" if name in TYPEDEFS else "struct ", name))
      wanted.append("%s %d" % (name, ctypes.sizeof(made)))
      for field, _ in kind.fields:
        if name == "ls_nest" and field == "as":
          wanted.append("ls_nest.as %d" % made.word.offset)
        else:
          wanted.append("%s.%s %d" % (name, field,
                                      getattr(made, field).offset))
        lines.append('printf("%s.%s %%zu\\n", offsetof(%s%s, %s));' % (
            name, field, "" if name in TYPEDEFS else "struct ", name, field))
    self.assertGreater(len(wanted), 1000)
    source, program = os.path.join(HERE, "a.c"), os.path.join(HERE, "a")
    with open(source, "w") as file:
      file.write('#include "lockstep/full.h"\n#include <stdio.h>\n'
                 "int main(void) {%s}\n" % "\n".join(lines))
    subprocess.run(
        [os.environ.get("CC", "cc"), "-w", "-o", program, source,
         "-I" + os.environ["LS_SOURCE_DIR"] + "/include",
         "-I" + os.environ["LS_BUILD_DIR"] + "/include"], check=True)
    found = subprocess.run([program], check=True, stdout=subprocess.PIPE,
                           universal_newlines=True).stdout.splitlines()
    self.assertEqual(found, wanted)

  def test_the_package_has_the_version_of_the_library(self):
    project = bytes_of(os.path.join(os.path.dirname(ls.__file__),
                                    "pyproject.toml")).decode()
    self.assertIn('\nversion = "%s"\n' % ls.version(), project)

  def test_every_function_is_there(self):
    self.assertGreater(len(ls._declared.functions), 1000)
    for name in ls._declared.functions:
      getattr(ls.lib, name)
    with self.assertRaisesRegex(AttributeError, "no function 'ls_nothing'"):
      ls.lib.ls_nothing
    with self.assertRaisesRegex(AttributeError, "no 'nothing'"):
      ls.nothing
    with self.assertRaisesRegex(TypeError, "no field 'units_'"):
      ls.dense_layer(units_=3)
    with self.assertRaisesRegex(TypeError, "no 'tanh_': one of"):
      ls.dense_layer(inputs=1, units=3, activation="tanh_")
    with self.assertRaisesRegex(TypeError, "ls_relu: too many"):
      ls.relu(1.0, 2.0)
    with self.assertRaisesRegex(TypeError, "ls_add: no y"):
      ls.add(1.0)


# Structs that have a typedef of their name.
TYPEDEFS = {name for name, kind in ls._declared.types.items()
            if kind.kind == "struct"} - {"ls_object", "ls_allocator"} | {
                "ls_object", "ls_allocator"}


class Values(unittest.TestCase):

  def test_operators_are_those_of_numpy(self):
    with ls.frame():
      x = ls.constant([[1.0, 2.0], [3.0, 4.0]])
      self.assertEqual((x @ x + 1).array().tolist(), [[8, 11], [16, 23]])
      self.assertEqual((2 - x / 2).array().tolist(), [[1.5, 1], [0.5, 0]])
      self.assertEqual((-x ** 2).array().tolist(), [[-1, -4], [-9, -16]])
      self.assertEqual((x > 2).array().tolist(), [[False, False], [True, True]])
      self.assertEqual(x[0].array().tolist(), [1, 2])
      self.assertEqual(x[-1, 0:1].array().tolist(), [3])
      self.assertEqual(x[..., 1].array().tolist(), [2, 4])
      self.assertEqual(x[::2].array().tolist(), [[1, 2]])
      self.assertEqual(float(ls.reduce_sum(x, None)), 10)
      self.assertEqual(ls.reduce_max(x, 1).array().tolist(), [2, 4])
      self.assertEqual(ls.concatenate([x, x], 0).shape, (4, 2))
      self.assertEqual(ls.not_(x > 2).dtype, "bool")
      self.assertEqual((x.dtype, x.shape), ("f32", (2, 2)))

  def test_nests_come_back_as_they_went(self):
    value = {"b": [1, 2.5, None, True], "a": (3, {"c": -1})}
    self.assertEqual(ls.Nest(value).value(), value)
    self.assertEqual(ls.Nest(value)["a"][1], {"c": -1})
    with self.assertRaises(KeyError):
      ls.Nest(value)["d"]

  def test_arrays_are_views(self):
    memory = array.array("f", [1, 2, 3])
    view = ls.array(memory)
    self.assertEqual((view.dtype, view.shape), ("f32", (3,)))
    memory[1] = 7
    self.assertEqual(view.tolist(), [1, 7, 3])
    self.assertEqual(len(ls._viewed), 1)
    del view
    gc.collect()
    self.assertEqual(len(ls._viewed), 0)
    self.assertEqual(ls.array(b"ab").tolist(), [97, 98])
    self.assertEqual(ls.array([[1, 2], [3, 4]], "f64").dtype, "f64")
    empty = memoryview((ctypes.c_double * 13 * 0 * 2)())
    self.assertEqual(ls.array(empty, "f32").shape, (2, 0, 13))
    with self.assertRaises(ValueError):
      ls.array([[1, 2], [3]])

  def test_numbers_that_a_type_does_not_hold_are_refused(self):
    for data, dtype in ((2**63, None), ([2**64 + 5], None), ([1, 300], "i8"),
                        ([-1], "u8"), ([2**64], "u64"), ([2], "bool"),
                        ([1e30], "i64")):
      with self.assertRaisesRegex(OverflowError, "does not fit (i|u|bool).*: "):
        ls.array(data, dtype)
    with self.assertRaisesRegex(TypeError, "1.5 has a fraction.* i32 .*round"):
      ls.array([1.0, 1.5], "i32")
    with self.assertRaises(OverflowError):
      ls.Nest(2**63)
    self.assertEqual(ls.array([2**64 - 1, 5.0], "u64").tolist(), [2**64 - 1, 5])
    self.assertEqual(ls.array([-128, 127], "i8").tolist(), [-128, 127])
    self.assertEqual(ls.array([2**70], "f32").tolist(), [2.0**70])
    for number in (2**53 + 1, -2**63):
      self.assertEqual(int(ls.array([number])), number)
    self.assertEqual(int(ls.array([2**64 - 1], "u64")), 2**64 - 1)
    self.assertEqual((int(ls.array(2.5)), int(ls.array(True))), (2, 1))
    with self.assertRaisesRegex(TypeError, "is no number"):
      int(ls.array([1, 2]))
    with ls.frame():
      x = ls.constant(ls.array([200], "u8"))
      self.assertEqual((x + 55.0).array().tolist(), [255])
      self.assertEqual((ls.constant([1.0]) + 2**70).array().tolist(), [2.0**70])
      with self.assertRaisesRegex(OverflowError, "1000 does not fit u8"):
        x + 1000  # pylint: disable=pointless-statement
      with self.assertRaisesRegex(TypeError, "convert to a type of floats"):
        0.5 * x  # pylint: disable=pointless-statement

  def test_a_part_from_the_end_needs_a_size(self):
    graph = ls.graph_create("graph")
    with ls.scope("graph", graph):
      x = ls.placeholder("f32", [-1, 3], "x")
      self.assertEqual((x[1:, -1].shape, x[0].shape), ((-1,), (3,)))
      for key in (-1, slice(-1), slice(-2, None)):
        with self.assertRaisesRegex(IndexError, "count from the start"):
          x[key]  # pylint: disable=pointless-statement

  def test_a_part_has_as_many_unknown_sizes_as_the_tensor(self):
    graph = ls.graph_create("graph")
    with ls.scope("graph", graph):
      y = ls.placeholder("f32", [-1, -1, 3, 5], "y")
      self.assertEqual((y[:, 1:, 0].shape, y[..., 2, 4].shape),
                       ((-1, -1, 5), (-1, -1)))
      part = y[:, 1:, 0, 2]
      total = ls.reduce_sum(ls.gradients(part, [y])[0], None)
    session = ls.session_create(graph)
    value = ls.array([[[[10 * i + j for j in range(5)] for i in range(3)]] * 3],
                     "f32")
    found = session.run((part, total), [{"tensor": y, "value": value}])
    self.assertEqual([x.tolist() for x in found], [[[2, 2]], 2])

  def test_makers_do_not_hide_what_python_has(self):
    with ls.frame():
      x = ls.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
      self.assertEqual(ls.slice(x, (0, 1), (2, 3), ()).shape, (2, 2))
      self.assertEqual(x[0:1, 1].array().tolist(), [2])
      self.assertEqual(len(ls.top_k(x, 2)[:]), 2)
      self.assertEqual(ls.abs(-x).array().tolist(), x.array().tolist())

  def test_arrays_of_numpy_are_views(self):
    try:
      import numpy
    except ImportError:
      self.skipTest("no NumPy")
    mine = numpy.arange(6, dtype=numpy.int32).reshape(2, 3)
    view = ls.array(mine)
    mine[1, 2] = 9
    self.assertEqual(view.tolist(), [[0, 1, 2], [3, 4, 9]])
    back = view.numpy()
    self.assertEqual(back.ctypes.data, mine.ctypes.data)
    self.assertFalse(back.flags.writeable)
    self.assertEqual(ls.array(mine.T).tolist(), mine.T.tolist())
    with ls.frame():
      self.assertEqual(ls.fill(numpy.dtype("float32"), (2,), 1).dtype, "f32")

  def test_variables_are_tensors_in_arithmetic(self):
    with ls.frame():
      v = ls.variable(name="v", initial_array=[1.0, 2.0])
      self.assertEqual((v * v + 1).array().tolist(), [2, 5])
      v.assign(v + 1)
      self.assertEqual(v.value().tolist(), [2, 3])
      self.assertEqual(repr(v), "<Variable v f32[2]>")


class Lent(unittest.TestCase):

  def test_records_in_records_are_lent(self):
    record = ls.record_create()
    ls.record_set_i64(ls.record_add(record, "inner"), "n", 5)
    for _ in range(3):
      self.assertEqual(ls.record_get_i64(ls.record_find(record, "inner"), "n"),
                       5)
    inner = ls.record_find(record, "inner")
    del record
    gc.collect()
    self.assertEqual(ls.record_get_i64(inner, "n"), 5)

  def test_variables_of_others_are_lent(self):
    graph = ls.graph_create("graph")
    ls.global_step_create(graph)
    for _ in range(3):
      self.assertEqual(ls.global_step_get(graph).name, "global_step")
      self.assertEqual(ls.eval_step_get(graph).name, "eval_step")
    v = ls.variable(name="v", initial_array=[1.0])
    for _ in range(3):
      self.assertEqual(ls.variable_handle(v).name, "v")
      self.assertEqual(ls.variable_as_reference(v).name, "v")
    self.assertEqual(v.value().tolist(), [1])

  def test_logits_of_a_decoder_stay_as_long_as_they_are_used(self):
    graph = ls.graph_create("graph")
    with ls.scope("graph", graph):
      tokens = ls.placeholder("i32", [-1, 4], "tokens")
      logits = ls.gather(ls.constant([[1.0, 2.0], [3.0, 4.0]]), tokens, 0)
    session = ls.session_create(graph)
    decoder = ls.decoder_create(session, tokens, logits)
    kept = [decoder.begin((ctypes.c_int32 * 2)(0, 1), 2)]
    kept += [decoder.next(i % 2) for i in range(6)]
    self.assertEqual([row.tolist() for row in kept],
                     [[[[3, 4]]]] + [[[[1, 2]]], [[[3, 4]]]] * 3)


class Functions(unittest.TestCase):

  def test_a_function_is_traced_once(self):
    traces = []

    @ls.function
    def f(x, y):
      traces.append(x.shape)
      return {"sum": x + y, "pair": (x, 2)}

    for i in range(3):
      result = f(ls.array([1.0 * i, 2.0]), ls.array([1.0, 1.0]))
      self.assertEqual(result["sum"].tolist(), [i + 1, 3])
    self.assertEqual(traces, [(2,)])
    kept = [f(ls.array([1.0 * i]), ls.array([0.0]))["sum"] for i in range(3)]
    self.assertEqual([item.tolist() for item in kept], [[0], [1], [2]])

  def test_errors_name_the_line_of_the_program(self):
    @ls.function(name="wrong")
    def f(x):
      return x @ ls.constant([[1.0, 2.0, 3.0]])

    with self.assertRaises(ls.Error) as caught:
      f(ls.array([[1.0, 2.0]]))
    self.assertEqual(caught.exception.code, "INVALID_ARGUMENT")
    self.assertRegex(str(caught.exception), "matmul of f32.1,2. by f32.1,3.")
    self.assertRegex(str(caught.exception), r"python_test.py:\d+")
    self.assertIsInstance(caught.exception.__cause__, ls.Error)

  def test_exceptions_pass_through(self):
    @ls.function
    def f(x):
      raise KeyError("mine")

    with self.assertRaisesRegex(ls.Error, "KeyError: 'mine'") as caught:
      f(1.0)
    self.assertIsInstance(caught.exception.__cause__, KeyError)

    @ls.function
    def g(x):
      raise KeyboardInterrupt()

    with self.assertRaises(KeyboardInterrupt):
      g(1.0)
    with self.assertRaises(ls.Error) as caught:  # Without an old cause.
      ls.dense_layer(inputs=-1, units=2)
    self.assertIsNone(caught.exception.__cause__)

  def test_loops_branches_and_gradients_are_callbacks(self):
    @ls.function
    def f(n):
      total = ls.while_(lambda i, s: i < n, lambda i, s: (i + 1, s + i),
                        (ls.scalar_i64("i64", 0), ls.scalar_i64("i64", 0)), 0)
      small = ls.cond(n < 3, lambda: ls.constant(1.0), lambda: ls.constant(2.0))
      return total[1], small

    self.assertEqual([int(x) for x in f(ls.array(5))], [10, 2])
    self.assertEqual([int(x) for x in f(ls.array(2))], [1, 1])

    @ls.function
    def g(x):
      y = ls.custom_gradient(lambda x: x * x, lambda x, y, dy: dy * 100, x)
      return y, *ls.gradients(y, [x])

    self.assertEqual([float(z) for z in g(ls.array(3.0))], [9, 100])
    v = ls.variable(name="v", initial_array=[2.0])

    @ls.function
    def h():
      return ls.gradients(v * v * v, [v, ls.variable(name="u", initial_array=
                                                     [1.0])])

    grads = h()
    self.assertEqual((grads[0].tolist(), grads[1]), ([12], None))

  def test_functions_are_called_from_many_threads(self):
    @ls.function
    def f(x):
      return x * 2

    found = []
    threads = [threading.Thread(target=lambda i=i: found.extend(
        float(f(ls.array([1.0 * i]))) for _ in range(50))) for i in range(4)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    self.assertEqual(sorted(found), sorted(2.0 * i for i in range(4)
                                           for _ in range(50)))


class Data(unittest.TestCase):

  def test_data_sets_are_made_of_arrays_and_functions(self):
    rows = ls.dataset_from_arrays((ls.array([[1.0], [2.0], [3.0]]),
                                   ls.array([7, 8, 9])))
    doubled = rows.map(call=lambda x, y: (
        ls.array([2 * x.tolist()[0]]), y)).batch(size=2)
    del rows
    gc.collect()
    self.assertEqual([[leaf.tolist() for leaf in batch.value()]
                      for batch in doubled],
                     [[[[2], [4]], [7, 8]], [[[6]], [9]]])
    made = ls.dataset_from_function(size=3, element=ls.nest_spec("f64", ()),
                                    make=lambda i: ls.array(i / 2, "f64"))
    self.assertEqual([float(x.value()) for x in made], [0, 0.5, 1])
    with self.assertRaisesRegex(ls.Error, "numbers of rows|rows"):
      ls.dataset_from_arrays((ls.array([1, 2]), ls.array([1])))

  def test_elements_stay_as_long_as_they_are_used(self):
    iterator = ls.dataset_range(0, 1000, 1).batch(size=1).iterator()
    kept = [next(iterator) for _ in range(5)]
    value = next(iterator).value()
    view = next(iterator).value().memory()
    addresses = {ls.lib.ls_array_data(next(iterator).value().address)
                 for _ in range(500)}
    self.assertEqual([item.value().tolist() for item in kept],
                     [[i] for i in range(5)])
    self.assertEqual((value.tolist(), view.tolist()), ([5], [6]))
    # Memory of dropped ones is used again; a thread that reads ahead adds some.
    self.assertLess(len(addresses), 250)

  def test_a_failed_function_fails_its_element(self):
    def fail(x):
      raise ValueError("no %d" % int(x))

    with self.assertRaisesRegex(ls.Error, "ValueError: no 4"):
      list(ls.dataset_range(4, 6, 1).map(call=fail))


class Training(unittest.TestCase):

  @classmethod
  def setUpClass(cls):
    cls.data = ls.dataset_synthetic(size=8192, shape=(784,), num_classes=10)

  def train(self, make, folder, **options):
    strategy = ls.mirrored_strategy(num_replicas=8)
    with strategy.scope():
      made = make()
    folder = os.path.join(HERE, folder)
    result = ls.train(model=made, strategy=strategy, train=self.data, steps=12,
                      run_folder=folder, **options)
    return result, bytes_of(os.path.join(folder, "model.safetensors"))

  def test_a_step_in_python_has_the_bytes_of_c(self):
    reports = []
    result, python = self.train(lambda: make_mlp()[0], "python",
                                report=lambda r: reports.append(r.step))
    self.assertEqual((result.steps, sorted(set(reports))),
                     (12, list(range(1, 13))))
    _, table = self.train(lambda: ls.model("mlp", metrics=True), "table")
    self.assertEqual(python, table)
    command = os.path.join(HERE, "command")
    subprocess.run([os.environ["LOCKSTEP"], "train", "--model", "mlp", "--data",
                    "synthetic", "--replicas", "8", "--steps", "12",
                    "--schedule", "constant", "--run-dir", command], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    self.assertEqual(python,
                     bytes_of(os.path.join(command, "model.safetensors")))

  def test_a_loop_in_python_learns_and_saves(self):
    for replicas in (1, 8):
      strategy = ls.mirrored_strategy(num_replicas=replicas)
      with strategy.scope():
        made, train_step = make_mlp()

      @ls.function
      def step(x, y):
        return ls.all_reduce("mean", train_step(x, y)["loss"])

      batches = self.data.batch(size=256).parts(replicas)
      losses = [float(strategy.run(step, batch)) for batch in batches]
      self.assertEqual(len(losses), 32)
      self.assertLess(losses[-1], losses[0] / 2)
      variables = made.variables()
      path = os.path.join(HERE, "loop%d.safetensors" % replicas)
      ls.save(path, variables)
      saved = ls.read_saved(path)
      self.assertEqual(saved["logits/bias"].shape, (10,))
      self.assertEqual(len(saved), 6)
      variables[0].assign(variables[0] * 0)
      ls.restore(path, variables)
      self.assertEqual(variables[0].value().tolist(),
                       saved["hidden1/kernel"].tolist())

  def test_an_error_of_a_report_ends_the_run(self):
    def report(progress):
      if progress.step == 3:
        raise RuntimeError("enough")

    with self.assertRaisesRegex(RuntimeError, "enough"):
      self.train(lambda: ls.model("mlp", metrics=True), "stopped",
                 report=report)

  def test_an_interrupt_ends_and_saves_the_run(self):
    steps, handler = [], signal.getsignal(signal.SIGINT)

    def report(progress):
      steps.append(progress.step)
      if progress.step == 3:
        os.kill(os.getpid(), signal.SIGINT)

    with self.assertRaises(KeyboardInterrupt):
      self.train(lambda: ls.model("mlp", metrics=True), "interrupted",
                 report=report)
    self.assertIn(max(steps), (3, 4))
    self.assertTrue(os.path.exists(os.path.join(HERE, "interrupted",
                                                "model.safetensors")))
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    data = ls.dataset_synthetic(size=64, shape=(16,), num_classes=4)
    with self.assertRaises(KeyboardInterrupt):
      ls.train(model=ls.model("tiny", metrics=True), train=data, epochs=10**9,
               strategy=ls.mirrored_strategy(num_replicas=1))
    timer.join()
    self.assertIs(signal.getsignal(signal.SIGINT), handler)

  def test_without_a_launcher_a_process_is_alone(self):
    with ls.ranks(threads=1) as ranks:
      self.assertEqual((ranks.rank, ranks.count), (0, 1))
      self.assertEqual(ls.lib.ls_runtime_current(), ranks._runtime)
      doubled = ls.function(lambda x: x * 2)
      self.assertEqual(doubled(ls.array([1.0])).tolist(), [2])
      del doubled
    self.assertNotEqual(ls.lib.ls_runtime_current(), ranks._runtime)
    with self.assertRaisesRegex(ls.Error, "FAILED_PRECONDITION: .*function"):
      with ls.ranks(threads=1) as ranks:
        kept = ls.function(lambda x: x)
        kept(ls.array([1.0]))
    del kept
    ls._check(ls.lib.ls_runtime_destroy(ranks._runtime))
    with self.assertRaises(ZeroDivisionError):
      with ls.ranks(threads=1):
        1 // 0  # pylint: disable=pointless-statement

  def test_a_merge_call_of_many_replicas_is_refused(self):
    strategy = ls.mirrored_strategy(num_replicas=2)

    @ls.function
    def step(x):
      return ls.replica_merge_call(ls.replica_context(),
                                   lambda strategy, x: x, x)

    batch = ls.nest_distributed("per_replica", [ls.array(1.0), ls.array(2.0)])
    with self.assertRaisesRegex(ls.Error, "UNIMPLEMENTED: merge_call"):
      strategy.run(step, (batch,))


if __name__ == "__main__":
  try:
    unittest.main(verbosity=1)
  finally:
    shutil.rmtree(HERE, ignore_errors=True)

# SPDX-License-Identifier: Apache-2.0
"""Tests of what python/lockstep.py refuses, and of how long it keeps what it
gives away; run by python_test.sh."""

import array
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

import lockstep as ls


def run(program):
  """Returns the exit code and the output of a program."""
  done = subprocess.run([sys.executable, "-c", program], timeout=60,
                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                        universal_newlines=True, check=False)
  return done.returncode, done.stdout + done.stderr


def read(data):
  return [value.tolist() if isinstance(value, ls.Array) else value
          for value in (element.value() for element in data)]


class Ends(unittest.TestCase):

  def test_a_program_ends_while_an_iterator_reads_ahead(self):
    code, text = run(
        "import ctypes, lockstep as ls, time\n"
        "def slow(x):\n"
        "  time.sleep(0.005)\n"
        "  return ls.array(float(x))\n"
        "data = ls.dataset_range(0, 100000, 1).map(call=slow).prefetch(8)\n"
        "iterator = iter(data.shuffle(buffer=4))\n"
        "next(iterator)\n"
        "parts = ls.create('distributed_iterator', data)\n"
        "element = ctypes.byref(ls.Nest().c)\n"
        "ls.lib.ls_distributed_iterator_next(parts.address, element)\n"
        "print('end')\n")
    self.assertEqual((code, text), (0, "end\n"))

  def test_a_program_ends_while_a_thread_reads(self):
    for _ in range(3):
      code, text = run(
          "import lockstep as ls, threading, time\n"
          "def slow(x):\n"
          "  time.sleep(0.001)\n"
          "  return ls.array(float(x))\n"
          "iterator = iter(ls.dataset_range(0, 10**6, 1).map(call=slow))\n"
          "def read():\n"
          "  for _ in iterator:\n"
          "    pass\n"
          "threading.Thread(target=read, daemon=True).start()\n"
          "time.sleep(0.05)\n"
          "print('end')\n")
      self.assertEqual((code, text), (0, "end\n"))

  def test_a_program_ends_after_a_function_has_failed(self):
    code, text = run(
        "import lockstep as ls\n"
        "data = ls.dataset_range(0, 1000, 1).map(\n"
        "    call=lambda x: ls.array(1 / (float(x) - 6)))\n"
        "for batch in data.shuffle(buffer=4).batch(size=4).prefetch(4):\n"
        "  pass\n")
    self.assertEqual(code, 1, text)
    self.assertIn("ZeroDivisionError", text)


class Kept(unittest.TestCase):

  def test_a_data_set_that_a_callback_returns_keeps_its_callbacks(self):
    strategy = ls.mirrored_strategy(num_replicas=2)

    def make(context):
      del context
      factor = 3.5
      return ls.dataset_range(0, 8, 1).map(
          call=lambda x: ls.array(float(x) * factor)).batch(size=2)

    gc.collect()
    before = len(ls._entrusted)
    made = ls.strategy_distribute_datasets_from_function(strategy, make)
    gc.collect()
    wrong = [ls._FOREIGN(lambda a, b, c, d: os._exit(9)) for _ in range(100)]
    iterator = ls.create("distributed_iterator", made)
    element, found = ls.Nest(), []
    for _ in range(2):
      ls._check(ls.lib.ls_distributed_iterator_next(
          iterator.address, ctypes.byref(element.c)))
      value = element.value()
      found.append([value[i].tolist() for i in range(2)])
    self.assertEqual(found, [[[0, 3.5], [7, 10.5]], [[14, 17.5], [21, 24.5]]])
    del element, iterator, made, wrong, value
    gc.collect()
    self.assertEqual(len(ls._entrusted), before)

  def test_a_data_set_in_a_nest_keeps_its_callbacks(self):
    gc.collect()
    before = len(ls._entrusted)
    nest = ls.Nest([ls.dataset_range(0, 2, 1).map(
        call=lambda x: ls.array(float(x) + 1))])
    inner = ls.nest_retain(nest)[0]
    del nest
    gc.collect()
    self.assertEqual(len(ls._entrusted), before + 1)
    del inner

  def test_views_made_on_many_threads_are_kept_apart(self):
    memory = array.array("f", [1, 2])
    gc.collect()
    before, made = len(ls._viewed), []
    threads = [threading.Thread(target=lambda: made.extend(
        ls.array(memory) for _ in range(200))) for _ in range(4)]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    self.assertEqual(len(ls._viewed), before + 800)
    made.clear()
    gc.collect()
    self.assertEqual(len(ls._viewed), before)


class Arrays(unittest.TestCase):

  def test_a_buffer_is_converted_to_another_type(self):
    self.assertEqual(ls.array(array.array("d", [0, 1, 2, 3]), "f32").tolist(),
                     [0, 1, 2, 3])
    self.assertEqual(ls.array(bytearray(b"\0\1\2"), "f64").tolist(), [0, 1, 2])
    with self.assertRaises(OverflowError):
      ls.array(array.array("i", [300]), "u8")
    with self.assertRaises(TypeError):
      ls.array(array.array("f", [1.5]), "i32")
    bits = array.array("H", [0x3f80, 0x4000])
    self.assertEqual(ls.array(bits, "bf16").tolist(), [1, 2])

  def test_a_numpy_array_of_any_layout_is_taken(self):
    try:
      import numpy
    except ImportError:
      self.skipTest("no NumPy")
    halves = numpy.arange(12).reshape(3, 4).astype("f2")
    record = numpy.zeros(3, dtype=[("a", "u1"), ("b", "f4")])
    record["b"] = [1, 2, 3]
    for found in (halves.T, halves[:, ::2], halves[::-1], record["b"],
                  numpy.broadcast_to(halves[0], (2, 4))):
      made = ls.array(found)
      self.assertEqual(made.shape, found.shape)
      self.assertEqual(made.tolist(), found.tolist())
      self.assertEqual(ls.array(found, "f64").tolist(), found.tolist())
    self.assertEqual(ls.array(halves, "i32").tolist(), halves.tolist())

  def test_arrays_that_nothing_else_holds_are_arguments_and_operands(self):
    rows = [1, 2, 3, 4], [10, 20, 30, 40]
    makers = [lambda row: array.array("f", row)]
    try:
      import numpy
      makers.append(lambda row: numpy.array(row, numpy.float32))
    except ImportError:
      pass
    for make in makers:
      add = ls.function(lambda a, b: ls.add(a, b))
      more = ls.function(lambda a, make=make: ls.add(a, make(rows[1])))
      for _ in range(20):
        self.assertEqual(add(make(rows[0]), make(rows[1])).tolist(),
                         [11, 22, 33, 44])
        self.assertEqual(more(make(rows[0])).tolist(), [11, 22, 33, 44])

  def test_half_floats_have_their_numbers(self):
    for dtype in ("f16", "bf16"):
      made = ls.array([[1, 2], [3, 0.5]], dtype)
      self.assertEqual(made.tolist(), [[1, 2], [3, 0.5]])
      self.assertEqual(made.memory().shape, (2, 2))
      self.assertEqual(ls.array(3, dtype).tolist(), 3)

  def test_lists_and_shapes_are_those_of_numpy(self):
    for empty, shape in (([], (0,)), ([[], []], (2, 0))):
      made = ls.array(empty)
      self.assertEqual((made.dtype, made.shape), ("f32", shape))
    with ls.frame():
      x = ls.constant([[5, 2**62 + 1]])
      self.assertEqual((int(x[0, 1]), float(x[0, 0])), (2**62 + 1, 5))
      v = ls.variable(name="v", initial_array=2.5)
      self.assertEqual((int(v), float(v)), (2, 2.5))
      with self.assertRaisesRegex(TypeError, "no number"):
        int(x)
      with self.assertRaisesRegex(ValueError, "at most 8 dimensions, not 9"):
        ls.fill("f32", [1] * 9, 1)
      try:
        import numpy
      except ImportError:
        self.skipTest("no NumPy")
      self.assertEqual(ls.fill("f32", numpy.array([2, 3]), 1).shape, (2, 3))
      self.assertEqual(ls.array([numpy.bool_(True), False]).dtype, "bool")
      with self.assertRaisesRegex(ValueError, "at most 8 dimensions, not 9"):
        ls.array(numpy.zeros((1,) * 9))

  def test_a_number_has_no_length(self):
    with self.assertRaises(TypeError):
      len(ls.array(3.0))
    self.assertEqual([bool(ls.array(x)) for x in (0.0, 2.0, [0])],
                     [False, True, False])

  def test_operators_of_numpy_leave_it_to_those_of_tensors(self):
    try:
      import numpy
    except ImportError:
      self.skipTest("no NumPy")
    with ls.frame():
      x = ls.constant([1.0, 2.0])
      for factor in (numpy.float32(2), numpy.array([2, 2], numpy.float32)):
        self.assertEqual((factor * x).array().tolist(), [2, 4])
        self.assertEqual((x * factor).array().tolist(), [2, 4])
      self.assertEqual((x * numpy.float64(2)).array().tolist(), [2, 4])
      self.assertEqual((x * numpy.int64(2)).array().tolist(), [2, 4])
      self.assertEqual(numpy.mean(x.numpy()), 1.5)
      self.assertEqual(x[numpy.int64(1)].array().tolist(), 2)
      v = ls.variable(name="v", initial_array=[1.0, 2.0])
      self.assertEqual(numpy.asarray(v).tolist(), [1, 2])
      self.assertEqual(numpy.asarray(v, numpy.int32).tolist(), [1, 2])
      two = numpy.int64(2)
      self.assertEqual(ls.fill("f32", (two,), 1).shape, (2,))
      raw = ls.array([1, 2], "bf16").numpy()
      self.assertEqual(ls.array(raw, "bf16").tolist(), [1, 2])
      with self.assertRaises(TypeError):
        ls.array(numpy.zeros(2, ">f4"), "f32")


class Tensors(unittest.TestCase):

  def test_the_outputs_of_an_op_are_its_items(self):
    x = ls.array([1, 3, 2], "f32")
    indices = ls.function(lambda x: ls.top_k(x, 2)[1])
    self.assertEqual(indices(x).tolist(), [1, 2])
    with ls.frame():
      values, places = op = ls.top_k(x, 2)
      self.assertEqual((values.array().tolist(), places.array().tolist()),
                       ([3, 2], [1, 2]))
      self.assertEqual(values.op[-1].ref, places.ref)
      self.assertEqual((op.name, repr(op)), ("", "<Op top_k>"))
      self.assertEqual(ls.Nest([op])[0].id, op.id)
      self.assertEqual([x.ref for x in op[:1]], [values.ref])
      with self.assertRaises(IndexError):
        op[2]
      with self.assertRaisesRegex(ls.Error, "top_k of .* with k 20"):
        ls.top_k(x, 20)

  def test_an_op_that_fails_in_eager_raises_where_it_was_made(self):
    with ls.frame():
      v = ls.variable(name="v", initial_array=[1.0, 2.0])
      layer = ls.dense_layer(inputs=3, units=2)
      loss = ls.reduce_mean(layer.apply([[1.0, 2.0, 3.0]]), None)
      for text, make in (
          ("'v' is f32.2., the value f32.3.", lambda: v.assign([1.0, 2.0, 3.0])),
          ("the value i64..", lambda: v.assign_add(ls.constant(ls.array(1)))),
          ("add of f32.2. and f32.3.", lambda: ls.add(v, [1.0, 2.0, 3.0])),
          ("w must be .in, out.", lambda: layer.apply([[1.0]])),
          ("record a tape", lambda: ls.sgd().minimize(loss))):
        with self.assertRaisesRegex(
            ls.Error, r"(?s)%s.*python_guards_test.py:\d+" % text):
          make()
      v.assign(v + 1.0)
      self.assertEqual(v.value().tolist(), [2, 3])

  def test_numbers_take_the_type_of_their_variable(self):
    with ls.frame():
      v = ls.variable(name="v", initial_array=ls.array([1.0, 2.0], "f64"))
      v.assign_add([1, 1])
      v.assign_sub([0.5, 1])
      self.assertEqual(v.value().tolist(), [1.5, 2])
      v.assign([3, 4])
      self.assertEqual((v.dtype, (v + [1, 2]).array().tolist()),
                       ("f64", [4, 6]))
      n = ls.variable(name="n", initial_array=ls.array(2.0, "f64"))
      n.assign_add(1)
      self.assertEqual(float(n), 3)

  def test_the_truth_of_a_tensor_is_that_of_its_element(self):
    with ls.frame():
      x = ls.constant([1.0, 0.0])
      self.assertEqual([bool(x[0] > 100.0), bool(x[0] < 100.0), bool(x[1])],
                       [False, True, False])
      self.assertTrue(ls.variable(name="v", initial_array=[2.0]))
      with self.assertRaises(TypeError):
        bool(x)

    @ls.function
    def step(x):
      return x * 0 if x[0] > 100.0 else x

    with self.assertRaisesRegex(ls.Error, "ls.cond") as caught:
      step(ls.array([1.0]))
    self.assertIsInstance(caught.exception.__cause__, TypeError)

  def test_tensors_are_compared_element_by_element(self):
    with ls.frame():
      x, v = ls.constant([1.0, 2.0]), ls.variable(name="v",
                                                  initial_array=[2.0, 2.0])
      self.assertEqual((x == 1).array().tolist(), [True, False])
      self.assertEqual((1 != x).array().tolist(), [False, True])
      self.assertEqual((x == v).array().tolist(), [False, True])
      self.assertEqual((v != [2.0, 3.0]).array().tolist(), [False, True])
      self.assertEqual(ls.select(x == 1, x, -x).array().tolist(), [1, -2])
      for other in (None, "a", object()):
        self.assertEqual((x == other, x != other), (False, True))
      self.assertIn(x, ["a", x])
      self.assertEqual(len({x, v, x}), 2)
      try:
        import numpy
        self.assertEqual((numpy.float32(1) == x).array().tolist(),
                         [True, False])
      except ImportError:
        pass
    mask = ls.function(lambda x: ls.select(x == 0, x + 9, x))
    self.assertEqual(mask(ls.array([0.0, 3.0])).tolist(), [9, 3])

  def test_a_quotient_of_integers_is_refused(self):
    with ls.frame():
      x = ls.constant([7, -7])
      for divide in (lambda: x / 2, lambda: 2 / x, lambda: x / x):
        with self.assertRaisesRegex(TypeError, "i64 .* ls.div"):
          divide()
      self.assertEqual(ls.div(x, 2).array().tolist(), [3, -3])
      self.assertEqual((ls.convert(x, "f32") / 2).array().tolist(),
                       [3.5, -3.5])

  def test_subscripts_that_an_axis_does_not_have_are_refused(self):
    with ls.frame():
      x = ls.constant([[1.0, 2.0], [3.0, 4.0]])
      for key in ((0, 1, 7), (Ellipsis, 0, 1, 0), 2, (0, -3)):
        with self.assertRaises(IndexError):
          x[key]  # pylint: disable=pointless-statement
      self.assertEqual([row.array().tolist() for row in x], [[1, 2], [3, 4]])
      with self.assertRaises(TypeError):
        iter(x[0, 0])


class Arguments(unittest.TestCase):

  def test_a_number_or_bytes_is_no_object(self):
    with ls.frame():
      self.assertEqual(ls.constant(3).array().tolist(), 3)
      self.assertEqual(ls.constant(b"ab").array().tolist(), [97, 98])
      x = ls.constant(1.0)
    for made in (lambda: ls.call("ls_dataset_batch", 3, size=2),
                 lambda: ls.call("ls_variable_name", b"v"),
                 lambda: ls.call("ls_variable_name", x),
                 lambda: ls.saver_save({"variables": [ls.adam()]}, "a"),
                 lambda: ls.saver_save({"variables": [3]}, "a"),
                 lambda: ls.call("ls_variable_name", ls.adam())):
      with self.assertRaisesRegex(TypeError, "expected ls_(dataset|variable)"):
        made()

  def test_numbers_that_c_does_not_hold_are_refused(self):
    for made in (lambda: ls.dataset_range(0, 5, 1).batch(size=2**64 + 2),
                 lambda: ls.dense_layer(inputs=2, units=2**64 + 3),
                 lambda: ls.reduce_sum(ls.constant([1.0]), 2**32),
                 lambda: ls.create("array", "f32", (2**64 + 3,)),
                 lambda: ls.dataset_range(2**63, 5, 1)):
      with self.assertRaisesRegex(OverflowError, "does not fit"):
        made()
    with self.assertRaises(TypeError):
      ls.dataset_range(0, 5, 1).batch(size=2.0)

  def test_a_text_is_not_cut(self):
    v = ls.variable(name="v", initial_array=[1.0])
    for path in ("b\0c.safetensors", b"b\0c.safetensors"):
      with self.assertRaisesRegex(ValueError, "character 0"):
        ls.save(path, [v])
    with self.assertRaises(TypeError):
      ls.save([1], [v])
    self.assertFalse(os.path.exists("b"))

  def test_nests_are_deep_or_refused(self):
    value = 1
    for _ in range(200):
      value = [value]
    self.assertEqual(len(ls.Nest(value)), 1)
    with unittest.mock.patch("sys.unraisablehook") as hook:
      with self.assertRaises(TypeError):
        ls.Nest(1, 2)  # pylint: disable=too-many-function-args
      gc.collect()
      hook.assert_not_called()


class Callbacks(unittest.TestCase):

  def failure(self, error):
    @ls.function
    def f(x):
      raise error

    with self.assertRaises(ls.Error) as caught:
      f(1.0)
    self.assertIs(caught.exception.__cause__, error)
    return caught.exception

  def test_each_exception_fails_the_call(self):
    self.assertEqual(self.failure(ls.Error("NOT_FOUND", "no")).code,
                     "NOT_FOUND")
    for code in ("FOO", "OK", 3):
      failed = self.failure(ls.Error(code, "text"))
      self.assertEqual(failed.code, "UNKNOWN")
      self.assertIn("%s: text" % code, failed.message)
    self.assertIn("bad \\udcff", str(self.failure(ValueError("bad \udcff"))))
    self.failure(ls.Error("FOO", "a\0b"))

  def test_filters_are_functions(self):
    data = ls.dataset_range(0, 6, 1)
    self.assertEqual(read(data.filter(call=lambda x: int(x) % 2 == 0)),
                     [0, 2, 4])
    pairs = ls.dataset_zip((data, data)).filter(call=lambda x, y: int(x) + int(y) > 9)
    self.assertEqual([[int(x) for x in pair] for pair in read(pairs)],
                     [[5, 5]])

    def fail(x):
      raise KeyError("mine")

    with self.assertRaisesRegex(ls.Error, "KeyError: 'mine'"):
      read(data.filter(call=fail))

  def test_flat_functions_return_data_sets(self):
    gc.collect()
    before, spec = len(ls._entrusted), ls.nest_spec("i64", ())

    def expand(x):
      return ls.dataset_range(0, 2, 1).map(
          call=lambda y: ls.array(10 * int(x) + int(y)))

    data = ls.dataset_range(0, 3, 1)
    self.assertEqual(read(data.flat_map(call=expand, result=spec)),
                     [0, 1, 10, 11, 20, 21])
    self.assertEqual(
        read(data.interleave(call=expand, result=spec, cycle=3)),
        [0, 10, 20, 1, 11, 21])
    gc.collect()
    self.assertEqual(len(ls._entrusted), before)
    with self.assertRaisesRegex(ls.Error, "expected ls_dataset, got 3"):
      read(data.flat_map(call=lambda x: 3, result=spec))
    with self.assertRaisesRegex(ls.Error, "ZeroDivisionError"):
      read(data.flat_map(call=lambda x: 1 // 0, result=spec))

  def test_generators_are_functions(self):
    data = ls.dataset_from_generator(
        element=ls.nest_spec("i64", ()), next=next,
        open=lambda epoch: (ls.array(i * i) for i in range(4)))
    for _ in range(2):
      self.assertEqual(read(data), [0, 1, 4, 9])
    gc.collect()
    self.assertEqual(ls._states, {})

  def test_a_generator_may_fill_its_memory_again(self):
    def fill(epoch):
      memory = array.array("f", [0, 0])
      for i in range(6):
        memory[0] = memory[1] = i + epoch
        yield memory

    data = ls.dataset_from_generator(element=ls.nest_spec("f32", (2,)),
                                     open=fill, next=next)
    self.assertEqual(read(data.batch(size=2)),
                     [[[i, i], [i + 1, i + 1]] for i in (0, 2, 4)])

  def test_an_exception_on_a_thread_that_reads_ahead_is_the_cause(self):
    error = ValueError("mine")

    def fail(epoch):
      yield ls.array(epoch)
      raise error

    data = ls.dataset_from_generator(element=ls.nest_spec("i64", ()),
                                     open=fail, next=next)
    for _ in range(10):
      with self.assertRaisesRegex(ls.Error, "ValueError: mine") as caught:
        read(data.prefetch(4))
      self.assertIs(caught.exception.__cause__, error)
    self.assertEqual([item for item in ls._raised if item[2] is error], [])

  def test_the_cause_is_known_after_many_failures_read_ahead(self):
    last = threading.Event()

    def fail(x):
      if x.tolist() == 17:
        last.set()
      if x.tolist() > 0:
        raise ValueError("row %d" % x.tolist())
      return x

    data = iter(ls.dataset_range(0, 18, 1).map(call=fail).prefetch(32))
    next(data)
    last.wait(10)
    with self.assertRaisesRegex(ls.Error, "ValueError: row 1") as caught:
      next(data)
    self.assertIsInstance(caught.exception.__cause__, ValueError)

  def test_an_exception_that_nobody_sees_holds_no_block_of_ranks(self):
    raised = threading.Event()

    def use():
      double = ls.function(lambda x: x * 2)
      double(ls.array([1.0]))

      def fail(epoch):
        yield ls.array(1)
        raised.set()
        raise ValueError(double)

      data = iter(ls.dataset_from_generator(
          element=ls.nest_spec("i64", ()), open=fail,
          next=next).prefetch(4))
      next(data)
      raised.wait(10)

    with ls.ranks(threads=1):
      use()

  def test_a_training_calls_python_only_for_a_report_or_an_interrupt(self):
    data = ls.dataset_synthetic(size=64, shape=(16,), num_classes=4)
    calls = []

    def train(steps):
      calls.clear()
      sys.setprofile(lambda frame, event, arg: calls.append(event))
      try:
        ls.train(model=ls.model("tiny", metrics=True), train=data, steps=steps,
                 strategy=ls.mirrored_strategy(num_replicas=1))
      finally:
        sys.setprofile(None)
      return len(calls)

    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
      train(1)  # Finds declarations.
      self.assertEqual(train(1), train(40))
    finally:
      signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
  unittest.main(verbosity=1)

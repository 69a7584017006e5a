# SPDX-License-Identifier: Apache-2.0
"""Lockstep from Python: training in lock step on many replicas.

The module needs liblockstep and ctypes, nothing else; NumPy arrays are taken
and given without a copy where NumPy is there. It has no table of its own: the
library describes its functions, structs and enums (ls_declarations), and a
name of this module that is not written below is made from them:

    lockstep.relu(x)                      ls_relu(x)
    lockstep.adam(learning_rate=0.01)     ls_adam_create(&(ls_adam_options){...})
    optimizer.minimize(loss)              ls_optimizer_minimize(optimizer, loss)
    dataset.batch(size=32)                ls_dataset_batch(dataset, &(...){...})
    lockstep.lib.ls_relu                  the C function, with its types

Keyword arguments are the fields of a call's options. Texts stand for enum
values ("relu" for LS_ACTIVATION_RELU), tuples for shapes, numbers and arrays
for tensors, lists, tuples and dicts for nests. A failed call raises Error with
the library's text. docs/languages.md has an introduction.

A callback runs on the library's stack, of 256 KiB for a replica: deep
recursion in a step ends the process.
"""

import atexit
import builtins
import collections
import contextlib
import ctypes
import functools
import gc
import itertools
import keyword
import numbers
import operator
import os
import re
import signal
import struct
import sys
import threading
import traceback
import weakref

__all__ = ["Array", "Dataset", "Error", "Function", "Handle", "Model", "Nest",
           "Op", "PerReplica", "Tensor", "Variable", "array", "call", "create",
           "frame", "function", "gradients", "lib", "model", "ranks",
           "read_saved", "restore", "save", "scope", "struct_of", "train"]


# ---- Declarations ------------------------------------------------------------
class _Type:
  """A C type. Pointers are void pointers to ctypes, but texts."""

  def __init__(self, kind, name="", target=None, ctype=None):
    self.kind = kind  # void number enum struct union pointer array function
    self.name = name
    self.target = target  # Of a pointer, an array; the result of a function.
    self.ctype = ctype
    self.fields = []      # (name, type) of structs; parameters of functions.
    self.length = 0
    self.constants = ()   # Names of an enum.

  def is_pointer_to(self, name):
    return self.kind == "pointer" and self.target.name == name

  @property
  def signature(self):
    """Describes a function type without the names of its parameters."""
    if self.kind == "pointer":
      return self.target.signature + "*"
    if self.kind == "function":
      return "%s(%s)" % (self.target.signature,
                         ",".join(t.signature for _, t in self.fields))
    return self.name


_NUMBERS = {
    "bool": ctypes.c_bool, "char": ctypes.c_char, "int": ctypes.c_int,
    "unsigned": ctypes.c_uint, "unsigned char": ctypes.c_ubyte,
    "long long": ctypes.c_longlong, "unsigned long long": ctypes.c_ulonglong,
    "long": ctypes.c_long, "unsigned int": ctypes.c_uint,
    "float": ctypes.c_float, "double": ctypes.c_double,
    "size_t": ctypes.c_size_t, "uintptr_t": ctypes.c_size_t,
    "int8_t": ctypes.c_int8, "int16_t": ctypes.c_int16,
    "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64,
    "uint8_t": ctypes.c_uint8, "uint16_t": ctypes.c_uint16,
    "uint32_t": ctypes.c_uint32, "uint64_t": ctypes.c_uint64,
    "va_list": ctypes.c_void_p}

class _Declarations:
  """Parses C declarations: those of ls_declarations."""

  def __init__(self, text):
    self.types = {name: _Type("number", name, ctype=ctype)
                  for name, ctype in _NUMBERS.items()}
    self.types["void"] = _Type("void", "void")
    self.constants = {}
    self.functions = {}
    self.tokens = re.findall(r"\.\.\.|<<|\w+|[^\s\w]", text)
    self.at = 0
    while self.at < len(self.tokens):
      self._declaration()

  def _take(self, token=None):
    if token is not None and self.tokens[self.at] != token:
      return False
    self.at += 1
    return True

  def _declaration(self):
    if self._take(";"):
      return
    is_typedef = self._take("typedef")
    base = self._base()
    while not self._take(";"):
      name, found = self._declarator(base)
      if is_typedef:
        # A struct of the same name may be known already, without its fields.
        if found.name != name:
          self.types.setdefault(name, found)
        if not found.name:
          found.name = name
      elif found.kind == "function":
        self.functions[name] = found
      self._take(",")

  def _base(self):
    is_const, words, found = False, [], None
    while True:
      token = self.tokens[self.at]
      if token in ("const", "extern"):
        is_const |= token == "const"
      elif token in ("struct", "union", "enum"):
        self.at += 1
        found = self._tagged(token)
        continue
      elif found is None and token in _NUMBERS and (
          not words or " ".join(words + [token]) in _NUMBERS):
        words.append(token)
      elif found is None and not words and re.match(r"\w", token):
        # Declared later, or opaque.
        found = self.types.setdefault(token, _Type("struct", token))
      else:
        break
      self.at += 1
    found = found or self.types[" ".join(words)]
    return _Const(found) if is_const else found

  def _tagged(self, kind):
    name = ""
    if re.match(r"\w", self.tokens[self.at]):
      name = self.tokens[self.at]
      self.at += 1
    found = self.types.setdefault(name, _Type(kind, name)) if name else _Type(
        kind)
    if not self._take("{"):
      return found
    found.kind = kind
    if kind == "enum":
      found.ctype = ctypes.c_int
      self._constants(found)
      return found
    while not self._take("}"):
      base = self._base()
      while not self._take(";"):
        found.fields.append(self._declarator(base))
        self._take(",")
    return found

  def _constants(self, enum):
    value, names = -1, []
    while not self._take("}"):
      name = self.tokens[self.at]
      self.at += 1
      value = self._number((",", "}")) if self._take("=") else value + 1
      self._take(",")
      self.constants[name] = value
      names.append(name)
    enum.constants = tuple(names)

  def _number(self, ends):
    start = self.at
    while self.tokens[self.at] not in ends:
      self.at += 1
    words = [re.sub(r"^(\d\w*?)[uUlL]+$", r"\1", word)
             for word in self.tokens[start:self.at]]
    return int(eval(" ".join(words).replace("/", "//"),  # Of the library's.
                    {"__builtins__": {}}, self.constants))

  def _declarator(self, base):
    found = base
    while True:
      if self._take("*"):
        found = _Type("pointer", target=found, ctype=ctypes.c_void_p)
        is_text = found.target.name == "char" and isinstance(found.target,
                                                             _Const)
        found.ctype = ctypes.c_char_p if is_text else ctypes.c_void_p
      elif not self._take("const"):
        break
    if self.tokens[self.at] == "(" and self.tokens[self.at + 1] == "*":
      self.at += 2  # A pointer to a function, or to an array.
      name = self.tokens[self.at]
      self.at += 2
      return name, _Type("pointer", target=self._suffix(found),
                         ctype=ctypes.c_void_p)
    name = ""
    if re.match(r"\w", self.tokens[self.at]):
      name = self.tokens[self.at]
      self.at += 1
    return name, self._suffix(found)

  def _suffix(self, found):
    if self._take("["):
      length = self._number("]")
      self.at += 1
      found = _Type("array", target=self._suffix(found))
      found.length = length
    elif self._take("("):
      function = _Type("function", target=found)
      while not self._take(")"):
        if self._take("..."):
          function.fields.append(("...", None))
          continue
        name, parameter = self._declarator(self._base())
        if parameter.kind == "array":
          parameter = _Type("pointer", target=parameter.target,
                            ctype=ctypes.c_void_p)
        if parameter.kind != "void":
          function.fields.append((name, parameter))
        self._take(",")
      found = function
    return found


class _Const(_Type):
  """A view of a type as constant."""

  def __init__(self, of):  # pylint: disable=super-init-not-called
    self.__dict__ = of.__dict__


# ---- Values by value ---------------------------------------------------------
class _CNest(ctypes.Structure):
  """An ls_nest. ctypes passes no unions by value: `as` is its two words."""
  _fields_ = [("kind", ctypes.c_int), ("dtype", ctypes.c_int),
              ("word", ctypes.c_uint64), ("second", ctypes.c_uint64)]


class _Arithmetic:
  """Operators of tensors and variables, which broadcast as in NumPy."""

  __array_ufunc__ = None  # An operator of NumPy leaves it to the one below.

  def __add__(self, other): return call("ls_add", *_pair(self, other))
  def __radd__(self, other): return call("ls_add", *_pair(other, self))
  def __sub__(self, other): return call("ls_sub", *_pair(self, other))
  def __rsub__(self, other): return call("ls_sub", *_pair(other, self))
  def __mul__(self, other): return call("ls_mul", *_pair(self, other))
  def __rmul__(self, other): return call("ls_mul", *_pair(other, self))
  def __truediv__(self, other): return _divide(*_pair(self, other))
  def __rtruediv__(self, other): return _divide(*_pair(other, self))
  def __pow__(self, other): return call("ls_pow", *_pair(self, other))
  def __rpow__(self, other): return call("ls_pow", *_pair(other, self))
  def __matmul__(self, other): return call("ls_matmul", *_pair(self, other))
  def __rmatmul__(self, other): return call("ls_matmul", *_pair(other, self))
  def __lt__(self, other): return call("ls_less", *_pair(self, other))
  def __le__(self, other): return call("ls_less_equal", *_pair(self, other))
  def __gt__(self, other): return call("ls_greater", *_pair(self, other))
  def __ge__(self, other): return call("ls_greater_equal", *_pair(self, other))

  def __eq__(self, other):
    return (call("ls_equal", *_pair(self, other)) if _is_operand(other) else
            NotImplemented)

  def __ne__(self, other):
    return (call("ls_not_equal", *_pair(self, other)) if _is_operand(other) else
            NotImplemented)

  __hash__ = object.__hash__

  def __neg__(self): return call("ls_neg", self)
  def __abs__(self): return call("ls_abs", self)

  def __bool__(self):
    """The truth of the one element of an eager tensor."""
    try:
      value = _to_tensor(self).array()
    except Error as error:
      raise TypeError("%s has no value while a graph is built: use ls.cond, "
                      "ls.while_ or ls.select" % self) from error
    return bool(value)

  def __float__(self):
    return call("ls_tensor_item", self)

  def __int__(self):
    return int(_to_tensor(self).array())

  def __iter__(self):
    shape = self.shape
    if not shape or shape[0] < 0:
      raise TypeError("%s has no known number of rows" % self)
    return (self[i] for i in range(shape[0]))

  def __getitem__(self, key):
    """Returns a part: slices, numbers and `...` for each axis."""
    x, keys = _to_tensor(self), key if isinstance(key, tuple) else (key,)
    if x.shape is None:
      raise TypeError("%s has no known number of dimensions" % self)
    at = next((i for i, item in enumerate(keys) if item is Ellipsis), None)
    if at is not None:
      missing = len(x.shape) - len(keys) + 1
      keys = keys[:at] + (slice(None),) * missing + keys[at + 1:]
    if len(keys) > len(x.shape):
      raise IndexError("%s has fewer dimensions than %r" % (self, key))
    keys += (slice(None),) * (len(x.shape) - len(keys))
    starts, limits, strides, kept = [], [], [], []
    for size, item in zip(x.shape, keys):
      bounds = (item.start, item.stop) if isinstance(item, slice) else (item,)
      if size < 0 and any(bound is not None and bound < 0 for bound in bounds):
        raise IndexError("%s is sliced from its end, but a size is not known: "
                         "count from the start" % self)
      if isinstance(item, slice):
        start, limit = item.start or 0, -1 if item.stop is None else item.stop
        if size >= 0:
          start, limit, _ = item.indices(size)
          limit = max(start, limit)
        strides.append(item.step or 1)
        kept.append(-1 if size < 0 else -(-(limit - start) // strides[-1]))
      else:
        item = operator.index(item)
        if 0 <= size and not -size <= item < size:
          raise IndexError("%d is out of the bounds of a size of %d"
                           % (item, size))
        start = item + size if item < 0 else item
        limit = start + 1
        strides.append(1)
      starts.append(start)
      limits.append(limit)
    part = call("ls_slice", x, starts, limits, strides)
    if len(kept) == len(x.shape):
      return part
    if kept.count(-1) < 2:  # A reshape finds one size.
      return call("ls_reshape", part, kept)
    for axis in reversed(range(len(keys))):
      if not isinstance(keys[axis], slice):
        part = call("ls_gather", part, 0, axis)
    return part


class Tensor(_Arithmetic, ctypes.Structure):
  """A value in a graph, or in eager: an ls_tensor."""
  _fields_ = [("graph", ctypes.c_void_p), ("ref", ctypes.c_uint64)]

  @property
  def shape(self):
    """The sizes, -1 for one that is not known; None: the rank is not known."""
    return _from_shape(lib.ls_tensor_shape(self))

  @property
  def dtype(self):
    return _dtype_name(lib.ls_tensor_dtype(self))

  @property
  def name(self):
    return lib.ls_tensor_name(self).decode()

  @property
  def op(self):
    """The op of which this is an output."""
    return Op(self.graph,
              self.ref >> _declared.constants["LS_TENSOR_OUTPUT_BITS"])

  def array(self):
    """Returns the value of an eager tensor."""
    return call("ls_tensor_value", self)

  def numpy(self):
    return self.array().numpy()

  def __repr__(self):
    return "<Tensor %s %s>" % (self.name, _type_text(self.dtype, self.shape))


class Op(ctypes.Structure):
  """An op in a graph: an ls_op. Its items are its outputs: `values, indices =
  lockstep.top_k(x, 2)`."""
  _fields_ = [("graph", ctypes.c_void_p), ("id", ctypes.c_uint64)]

  def __getitem__(self, output):
    count = lib.ls_op_num_outputs(self)
    if isinstance(output, slice):
      return [self[i] for i in range(count)[output]]
    output = range(count)[output]
    bits = _declared.constants["LS_TENSOR_OUTPUT_BITS"]
    return Tensor(self.graph, self.id << bits | output)

  @property
  def name(self):
    return lib.ls_op_name(self).decode()

  def __repr__(self):
    return "<Op %s>" % (self.name or lib.ls_op_type_name(self).decode())


# ---- The library -------------------------------------------------------------
def _load():
  given = os.environ.get("LOCKSTEP_LIBRARY")
  path = given or "liblockstep.so.0"
  try:
    library = ctypes.CDLL(path)
  except OSError as error:
    raise ImportError(
        "LOCKSTEP_LIBRARY names a file that is no library: %s" % error
        if given else
        "lockstep needs liblockstep, which the system does not find (%s). "
        "Install it (apt-get install liblockstep0, or in the tree make install "
        "and ldconfig), or name its file in LOCKSTEP_LIBRARY" % error) from None
  if not hasattr(library, "ls_declarations"):
    raise ImportError("%s is no liblockstep, or one that is older than this "
                      "module" % path)
  library.ls_declarations.restype = ctypes.c_char_p
  declared = _Declarations(library.ls_declarations().decode())
  declared.types["ls_nest"].ctype = _CNest
  declared.types["ls_tensor"].ctype = Tensor
  declared.types["ls_op"].ctype = Op
  return path, library, declared


_path, _library, _declared = _load()


class _Functions:
  """The C functions, by name, with the types of their declarations."""

  def __getattr__(self, name):
    declared = _declared.functions.get(name)
    if declared is None:
      raise AttributeError("liblockstep has no function '%s'" % name)
    symbol = getattr(_library, name, None) or getattr(_io(), name)
    symbol.restype = (None if declared.target.kind == "void"
                      else _ctype(declared.target))
    symbol.argtypes = [_ctype(t) for _, t in declared.fields if t is not None]
    setattr(self, name, symbol)
    return symbol


lib = _Functions()


@functools.lru_cache(None)
def _io():
  """liblockstep-io, for functions that read files of data."""
  folder, file = os.path.split(_path)
  return ctypes.CDLL(
      os.path.join(folder, file.replace("liblockstep", "liblockstep-io")))


def _ctype(of):
  """Returns the ctypes type."""
  if of.ctype is None:
    if of.kind == "array":
      of.ctype = _ctype(of.target) * of.length
    else:
      base = ctypes.Union if of.kind == "union" else ctypes.Structure
      of.ctype = type(of.name or of.kind, (base,), {"_type": of})
      of.ctype._fields_ = [(n, _ctype(t)) for n, t in of.fields]
  return of.ctype


def struct_of(name, /, **fields):
  """Makes a struct, such as struct_of("ls_clip", norm=1)."""
  made = _ctype(_declared.types[name])()
  made._keep = []
  _fill(_declared.types[name], made, fields, made._keep)
  return made


def __getattr__(name):  # Of the module: see its text.
  if name.endswith("_") and keyword.iskeyword(name[:-1]):
    return getattr(sys.modules[__name__], name[:-1])  # Such as while_.
  for prefix in ("ls_", "LS_"):
    if prefix + name in _declared.constants:
      return _declared.constants[prefix + name]
  if "ls_" + name in _declared.functions:
    made = functools.partial(call, "ls_" + name)
  elif "ls_%s_create" % name in _declared.functions:
    made = functools.partial(create, name)
  else:
    raise AttributeError("lockstep has no '%s'" % name)
  if not hasattr(builtins, name):  # This module needs Python's `slice`.
    globals()[name] = made
  return made


# ---- Errors ------------------------------------------------------------------
class Error(Exception):
  """A failed call: `code` is a name such as "INVALID_ARGUMENT"."""

  def __init__(self, code, message):
    super().__init__("%s: %s" % (code, message))
    self.code, self.message = code, message


# Exceptions that callbacks have raised: thread, text, exception. Those on
# threads that read ahead, one an element, may be ones that nobody comes to see.
_raised = collections.deque(maxlen=64)


def _check(status):
  """Raises the error of a status, which it frees."""
  if not status:
    return
  code, message = lib.ls_status_code(status), lib.ls_status_message(status)
  error = Error(lib.ls_code_name(code).decode(), message.decode(errors="replace"))
  lib.ls_status_free(status)
  cause = _take_cause(error.message)
  if cause is not None and not isinstance(cause, Exception):
    raise cause  # Such as KeyboardInterrupt.
  raise error from cause


def _take_cause(message):
  """Returns the exception that a message is about, or None. Forgets it, and
  those of this thread, whose failures the library has passed over."""
  cause = None
  for item in list(_raised):
    thread, text, error = item
    if text in message:
      cause = error
    elif thread != threading.get_ident():
      continue
    with contextlib.suppress(ValueError):  # Another thread was faster.
      _raised.remove(item)
  return cause


def _text_of(error):
  """Returns the code and the message for an exception of a callback."""
  code, text = "UNKNOWN", None
  if isinstance(error, Error):
    code, text = str(error.code), str(error.message)
    if code == "OK" or "LS_" + code not in _declared.types["ls_code"].constants:
      code, text = "UNKNOWN", "%s: %s" % (code, text)
  if text is None:
    text = "".join(
        traceback.format_exception_only(type(error), error)).strip()
  text = text.encode(errors="backslashreplace").decode()
  return code, text.replace("\0", "\\0")


def _status_of(error):
  """Makes the status that a callback returns for an exception."""
  file, line = __file__, 0
  try:
    code, text = _text_of(error)
    _raised.append((threading.get_ident(), text, error))
    for at, line in traceback.walk_tb(error.__traceback__):
      file = at.f_code.co_filename
  except BaseException:  # pylint: disable=broad-except
    code, text = "UNKNOWN", "an exception without a text"  # It has raised.
  return lib.ls_status_make(_declared.constants["LS_" + code],
                            _file_text(file), line, b"%s", text.encode())


@functools.lru_cache(None)
def _file_text(name):
  """Returns a text that stays, as the library keeps file names."""
  return ctypes.c_char_p(name.encode(errors="backslashreplace"))


def _placed(value):
  """Records the caller's line for ops, and raises the error of a failed one."""
  frame_of = sys._getframe(1)
  while frame_of.f_code.co_filename == __file__ and frame_of.f_back:
    frame_of = frame_of.f_back
  record = lib.ls_at_tensor if isinstance(value, Tensor) else lib.ls_at_op
  record(value, _file_text(frame_of.f_code.co_filename), frame_of.f_lineno)
  output = value if isinstance(value, Tensor) else Tensor(
      value.graph, value.id << _declared.constants["LS_TENSOR_OUTPUT_BITS"])
  if not output.ref:
    _check(lib.ls_graph_take_error(lib.ls_graph_current()))
    raise Error("FAILED_PRECONDITION", "a value that failed was used")
  if lib.ls_tensor_is_failed(output):  # In eager; or an op without outputs.
    _check(lib.ls_tensor_status(output))
  return value


# ---- To C --------------------------------------------------------------------
_NUMPY_NAMES = {"float64": "f64", "float32": "f32", "float16": "f16",
                "bfloat16": "bf16", "int8": "i8", "int16": "i16",
                "int32": "i32", "int64": "i64", "uint8": "u8",
                "uint16": "u16", "uint32": "u32", "uint64": "u64"}


def _to_enum(of, value):
  if isinstance(value, bool) and of.name == "ls_flag":
    return 1 if value else 2
  if isinstance(value, int):
    return _to_number(of, value)
  text = str(getattr(value, "name", value))  # NumPy's types have names.
  text = _NUMPY_NAMES.get(text, text).upper()
  for name in of.constants:
    if name == text or name.endswith("_" + text):
      return _declared.constants[name]
  raise TypeError("%s has no '%s': one of %s" % (of.name, value,
                                                ", ".join(of.constants)))


def _to_number(of, value):
  """Returns a number for a C type, which must hold it."""
  if of.ctype._type_ not in "bBhHiIlLqQ":
    return value
  value = operator.index(value)
  bits = 8 * ctypes.sizeof(of.ctype)
  first = -2**(bits - 1) if of.ctype(-1).value < 0 else 0
  if not first <= value < first + 2**bits:
    raise OverflowError("%d does not fit %s" % (value, of.name))
  return value


def _to_shape(value):
  shape = _ctype(_declared.types["ls_shape"])()
  if value is None:
    shape.rank = -1
    return shape
  sizes = (value,) if isinstance(value, numbers.Integral) else tuple(value)
  shape.rank = len(sizes)
  if len(sizes) > len(shape.dim):
    raise ValueError("a shape has at most %d dimensions, not %d"
                     % (len(shape.dim), len(sizes)))
  for i, size in enumerate(sizes):
    shape.dim[i] = _to_number(_declared.types["int64_t"], size)
  return shape


def _to_struct(of, value, keep):
  """Returns a struct passed by value."""
  if isinstance(value, _ctype(of)):
    return value
  if of.name == "ls_nest":
    made = Nest(value)
    keep.append(made)
    return made.c
  if of.name == "ls_tensor":
    return _to_tensor(value)
  if of.name == "ls_shape":
    return _to_shape(value)
  if of.name == "ls_callable":
    if not isinstance(value, Function):
      raise TypeError("expected a lockstep.function, got %r" % (value,))
    return value.callable
  made = _ctype(of)()
  if of.name == "ls_opt":
    made.set = value is not None
    made.value = _to_c(dict(of.fields)["value"], value or 0, keep)
  elif of.name == "ls_axes":
    made.all = value is None
    axes = (() if value is None else
            (value,) if isinstance(value, numbers.Integral) else value)
    items = (ctypes.c_int * len(axes))(
        *[_to_number(_declared.types["int"], axis) for axis in axes])
    keep.append(items)
    made.items, made.count = ctypes.addressof(items), len(axes)
  elif isinstance(value, dict):
    _fill(of, made, value, keep)
  else:
    raise TypeError("expected %s, got %r" % (of.name, value))
  return made


def _to_pointer(of, value, keep):
  """Returns an address, or the bytes of a text; what it points to is kept."""
  target = of.target
  if value is None:
    return None
  if of.ctype is ctypes.c_char_p and not isinstance(
      value, (ctypes._SimpleCData, ctypes.Array)):
    text = os.fsencode(value)
    if b"\0" in text:
      raise ValueError("%r has a character 0, at which a text ends" % (value,))
    return text
  if isinstance(value, (int, bytes)) and (
      target.kind in ("void", "number") or
      target.kind == "function" and isinstance(value, int)):
    return value
  keep.append(value)
  if isinstance(value, Handle):
    if target.kind != "void" and target.name != value.type_name:
      raise TypeError("expected %s, got %r" % (target.name, value))
    return value.address
  if target.name == "ls_array":
    return _to_pointer(of, array(value), keep)
  if target.name == "ls_model" and isinstance(value, Model):
    return ctypes.addressof(value.c)
  if isinstance(value, ctypes.c_void_p):
    return value.value
  if target.kind == "struct" and target.fields and isinstance(value, dict):
    made = _to_struct(target, value, keep)
  elif isinstance(value, (list, tuple)) and target.name != "ls_shape":
    items = [_to_c(target, item, keep) for item in value]
    made = (_ctype(target) * len(items))(*items)
  elif target.name == "ls_shape" and isinstance(
      value, (list, tuple, numbers.Integral)):
    made = _to_shape(value)
  else:
    made = value  # A ctypes object: its address.
    is_struct = isinstance(made, ctypes.Structure)
    if isinstance(made, int) or target.kind == "struct" and (
        not target.fields or is_struct and type(made) is not _ctype(target)):
      raise TypeError("expected %s, got %r" % (target.name, value))
  keep.append(made)
  return ctypes.addressof(made)


def _to_c(of, value, keep):
  if of.kind == "enum":
    return _to_enum(of, value)
  if of.kind == "struct":
    return _to_struct(of, value, keep)
  if of.kind == "pointer":
    return _to_pointer(of, value, keep)
  return _to_number(of, value) if of.kind == "number" else value


def _fill(of, made, fields, keep):
  """Sets fields of a struct by name; a list also sets its count."""
  types, calls = dict(of.fields), {}
  if of.name == "ls_generator_options":
    fields = {"close": lambda state: None, **fields}  # Drops the state.
  for name, value in fields.items():
    if name not in types:
      raise TypeError("%s has no field '%s': one of %s"
                      % (of.name, name, ", ".join(types)))
    kind = types[name]
    if kind.kind == "pointer" and kind.target.kind == "function" and callable(
        value):
      user = name + "_user" if name + "_user" in types else "user"
      setattr(made, name, _callback(kind, value,
                                    calls.setdefault(user, _Callbacks())))
      continue
    setattr(made, name, _to_c(kind, value, keep))
    if isinstance(value, (list, tuple)) and kind.kind == "pointer":
      for count in ("num_" + name, "count"):
        if count in types:
          setattr(made, count, len(value))
          break
  for user, callbacks in calls.items():
    keep.append(callbacks)
    if user in types and user not in fields:
      setattr(made, user, callbacks.user())
      if user == "user" and "release" in types and "release" not in fields:
        made.release = callbacks.release()


# ---- Callbacks ---------------------------------------------------------------
_FOREIGN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p,
                            ctypes.c_void_p, ctypes.c_void_p)


@functools.lru_cache(None)
def _adapters(signature):
  """The adapters of lockstep/foreign.h for a type of callbacks."""
  return [name for name, function in _declared.functions.items()
          if name.startswith("ls_foreign_") and
          function.signature == signature]


class _Callbacks:
  """The Python functions of one `user`. They stay as long as the object that the
  call has returned, or, of one that was given away, until their release."""

  def __init__(self):
    self.foreign = []  # Functions of adapters; None: it has no first one.
    self.direct = []   # C functions of others.
    self.address, self.is_released = None, False

  def user(self):
    """Returns the address of the ls_foreign_calls that `user` points to."""
    kind = _ctype(_declared.types["ls_foreign_call"])
    self.calls = (kind * max(1, len(self.foreign)))()
    for made, item in zip(self.calls, self.foreign):
      if item is not None:
        made.call = ctypes.cast(item, ctypes.c_void_p).value
        made.one_stack = True
    self.address = ctypes.addressof(self.calls)
    return self.address

  def release(self):
    """Returns the address of the function that the library calls at the end."""
    self.is_released = True
    return ctypes.cast(_release_callbacks, ctypes.c_void_p).value


_entrusted = {}  # Callbacks of data sets that were given away, by their `user`.


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _release_callbacks(user, entrusted=_entrusted):
  entrusted.pop(user, None)


def _entrust(holder):
  """Leaves the callbacks that a value needs to the library, which owns it too."""
  waiting, seen = [holder], set()
  while waiting:
    item = waiting.pop()
    if id(item) in seen:
      continue
    seen.add(id(item))
    if isinstance(item, _Callbacks) and item.is_released:
      _entrusted[item.address] = item
    elif isinstance(item, (Handle, Nest, ctypes.Structure)):
      waiting.append(getattr(item, "_keep", None))
    elif isinstance(item, (list, tuple)):
      waiting.extend(item)


def _callback(of, function, calls):
  """Returns the address of a C function that calls a Python function."""
  kind = of.target
  names = _adapters(kind.signature)
  if not names:
    calls.direct.append(_direct(kind, function))
    return ctypes.cast(calls.direct[-1], ctypes.c_void_p).value
  second = [name for name in names if name.endswith("_second")]
  name = names[0] if not calls.foreign else second[0]
  if not calls.foreign and second == names:
    calls.foreign.append(None)
  calls.foreign.append(_foreign(_declared.functions[name], function))
  return ctypes.cast(getattr(lib, name), ctypes.c_void_p).value


def _spread(values):
  """Returns the arguments of a callback of one nest: the items of a tuple."""
  if len(values) != 1:
    return values
  return (() if values[0] is None else
          values[0] if type(values[0]) is tuple else values)


def _foreign(adapter, function):
  """Makes an ls_foreign_function of a Python function.

  The items of a tuple are the arguments of a callback of one nest. The
  context, such as an ls_step_context, comes first, but a map's is left out.
  """
  count, context = 0, None
  for name, kind in adapter.fields:
    if name in ("call", "map"):
      continue
    if kind.kind == "pointer" or kind.name == "ls_input_context":
      context = kind.target if kind.kind == "pointer" else kind
    else:
      count += 1

  def invoke(args, where, _, out):
    try:
      values = _spread([_from_nest(_CNest.from_address(
          args + i * ctypes.sizeof(_CNest)), False) for i in range(count)])
      if context is not None:
        values = [_from_pointer(context, where, False), *values]
      _write_nest(out, function(*values))
    except BaseException as error:  # pylint: disable=broad-except
      _move(out, lib.ls_fail(_status_of(error)))

  return _FOREIGN(invoke)


def _move(address, value):
  ctypes.memmove(address, ctypes.byref(value), ctypes.sizeof(value))


def _write_nest(address, value):
  """Writes a nest, which becomes the library's. Its arrays are copies: a
  generator may fill the same memory again while the library reads ahead."""
  _move(address, _to_nest(value, is_copied=True))


_states = {}  # What functions of generators have opened, by address.


def _state(key, is_last):
  box = _states.pop(key, None) if is_last else _states.get(key)
  return key if box is None else box.value


def _is_result(name, kind):
  """Returns true for a parameter that the caller of a function gets back. Structs
  are arguments of a callback, which sets their fields."""
  return name.startswith("out_") and kind.kind == "pointer" and (
      kind.target.name == "ls_nest" or not kind.target.fields)


def _write(of, address, value):
  """Writes a result of a callback, which becomes the library's."""
  if of.name == "ls_nest":
    _write_nest(address, value)
  elif of.kind == "pointer" and of.target.kind == "void":
    box = ctypes.py_object(value)
    key = ctypes.addressof(box)
    _states[key] = box
    _move(address, ctypes.c_void_p(key))
  elif of.kind == "pointer":
    _move(address, ctypes.c_void_p(_hand_over(of.target, value)))
  else:
    value = bool(value) if of.name == "bool" else _to_c(of, value, [])
    _move(address, _ctype(of)(value))


def _hand_over(target, value):
  """Returns the address of an object with a reference for the library."""
  if not isinstance(value, Handle) or value.type_name != target.name:
    raise TypeError("expected %s, got %r" % (target.name, value))
  call(target.name + "_retain", value)
  _entrust(value)
  return value.address


def _direct(kind, function):
  """Makes a C function whose result ctypes can return. Of a callback with `out_`
  parameters they are the results: one, or a tuple."""
  target = kind.target
  is_status = target.name == "ls_status"
  is_dataset = target.is_pointer_to("ls_dataset")
  restype = None if target.kind == "void" else _ctype(target)
  results = [(i, t.target) for i, (name, t) in enumerate(kind.fields)
             if _is_result(name, t)]
  given = [(i, name, t) for i, (name, t) in enumerate(kind.fields)
           if name not in ("user", "self") and not _is_result(name, t) and
           not t.is_pointer_to("ls_map_call")]
  is_of_nest = [t.name for _, _, t in given] == ["ls_nest"]
  is_source = [name for _, name, _ in given] == ["state"]

  def invoke(*args):
    try:
      values = [_state(args[i], restype is None) if name == "state" else
                _from_c(t, args[i], False) for i, name, t in given]
      result = function(*(_spread(values) if is_of_nest else values))
      written = (result,) if len(results) == 1 else result if results else ()
      for (i, t), value in zip(results, written):
        _write(t, args[i], value)
      if is_dataset:
        return _hand_over(target.target, result)
      return None if is_status or restype is None else result
    except BaseException as error:  # pylint: disable=broad-except
      if is_source and results and isinstance(error, StopIteration):
        error = Error("OUT_OF_RANGE", "the end of a generator")
      if is_status:
        return _status_of(error)
      if is_dataset:
        return lib.ls_dataset_zip(lib.ls_fail(_status_of(error)))
      sys.excepthook(type(error), error, error.__traceback__)
      return None if restype is None else 0

  return ctypes.CFUNCTYPE(restype, *[_ctype(t) for _, t in kind.fields])(invoke)


# ---- From C ------------------------------------------------------------------
def _dtype_name(number):
  return lib.ls_dtype_name(number).decode()


def _from_shape(shape):
  return None if shape.rank < 0 else tuple(shape.dim[:shape.rank])


def _type_text(dtype, shape):
  sizes = "..." if shape is None else ",".join(
      "?" if size < 0 else str(size) for size in shape)
  return "%s[%s]" % (dtype, sizes)


def _from_pointer(target, address, owned):
  if not address:
    return None
  if target.kind == "struct" and target.fields:
    return _ctype(target).from_address(address)
  if target.kind == "struct":
    return _CLASSES.get(target.name, Handle)._wrap(target.name, address, owned)
  return address


def _from_c(of, value, owned):
  """Returns a result, or a callback's argument, as Python has it."""
  if of.name == "ls_nest":
    return _from_nest(value, owned)
  if of.name == "ls_shape":
    return _from_shape(value)
  if of.name == "ls_dtype":
    return _dtype_name(value)
  if of.ctype is ctypes.c_char_p:
    return None if value is None else value.decode(errors="replace")
  if of.kind == "pointer":
    return _from_pointer(of.target, value, owned)
  return value


def _from_nest(nest, owned):
  """Returns the Python value of a nest; `owned`: releases it."""
  kind = _KINDS[nest.kind]
  if kind in ("TENSOR", "OP"):
    return (Tensor if kind == "TENSOR" else Op)(nest.word, nest.second)
  if kind == "NONE":
    return None
  if kind == "SCALAR":
    return _from_scalar(nest)
  if kind == "FAILED":
    status = lib.ls_nest_status(nest)
    if owned:
      lib.ls_nest_release(nest)
    _check(status)
  whole = nest if owned else lib.ls_nest_retain(nest)
  if kind == "ARRAY":
    return Array._wrap("ls_array", whole.word, True)
  holder = Nest._adopt(whole)
  if kind == "DISTRIBUTED":
    return PerReplica(holder)
  if kind in ("LIST", "TUPLE", "DICT"):
    return holder.value()
  if kind == "VARIABLE":
    return Variable._wrap(
        "ls_variable", lib.ls_variable_retain(lib.ls_nest_as_variable(whole)),
        True)
  return holder


def _from_scalar(nest):
  if _dtype_name(nest.dtype) == "bool":
    return bool(nest.word)
  if lib.ls_dtype_is_float(nest.dtype):
    return struct.unpack("d", struct.pack("Q", nest.word))[0]
  return struct.unpack("q", struct.pack("Q", nest.word))[0]


# ---- Calls -------------------------------------------------------------------
# Functions whose results are lent although they are called out_..., and are not
# constant, as others that are lent.
_LENT = {"ls_strategy_default", "ls_packed_variable_on", "ls_export_resource",
         "ls_optimizer_slot", "ls_optimizer_kept_gradient", "ls_record_add",
         "ls_global_step_create", "ls_global_step_get", "ls_eval_step_get",
         "ls_iterations_per_loop", "ls_user_context_assignment",
         "ls_variable_handle", "ls_variable_as_reference"}
_TAKES_NESTS = {"ls_while", "ls_step_while", "ls_custom_gradient", "ls_barrier",
                "ls_nest_dataset", "ls_nest_dict", "ls_nest_distributed",
                "ls_nest_distributed_on", "ls_nest_named_tuple",
                "ls_nest_sequence"}
_RETAINS = {"ls_train_examples", "ls_iterator_dataset"}
_forever = []


@functools.lru_cache(None)
def _takes(name):
  """Returns true if a call takes over the nests and data sets it gets."""
  declared = _declared.functions[name]
  return name in _TAKES_NESTS or (
      declared.target.is_pointer_to("ls_dataset") and name not in _RETAINS)


def call(name, /, *args, **options):
  """Calls a function of the library.

  Arguments come in the order of the declaration, without those that the call
  makes itself: `out_...`, whose values it returns, `user`, and the counts of
  lists. Keyword arguments are fields of its options.
  """
  declared = _declared.functions.get(name)
  if declared is None:
    raise AttributeError("liblockstep has no function '%s'" % name)
  calls = _Callbacks()
  function, rest, keep = getattr(lib, name), list(args), [calls]
  c_args, outs, count, used = [], [], None, not options
  for parameter, kind in declared.fields:
    is_struct = kind.kind == "pointer" and bool(kind.target.fields)
    if parameter == "out" or parameter.startswith("out_") or (
        parameter == "results"):
      box = _ctype(kind.target)()
      outs.append((kind.target, box))
      c_args.append(ctypes.byref(box))
    elif parameter == "user" and kind.kind == "pointer":
      c_args.append(calls.user() if calls.foreign or calls.direct else None)
    elif count is not None and kind.name == "size_t":
      c_args.append(count)
      count = None
    elif not used and is_struct and not rest:
      c_args.append(_to_pointer(kind, options, keep))
      used = True
    elif not rest and is_struct and kind.target.name.endswith("_options"):
      c_args.append(None)
    elif not rest:
      raise TypeError("%s: no %s" % (name, parameter))
    else:
      value = rest.pop(0)
      if (kind.kind == "pointer" and kind.target.kind == "function" and
          callable(value)):
        c_args.append(_callback(kind, value, calls))
      else:
        c_args.append(_to_c(kind, value, keep))
        if kind.kind == "pointer" and isinstance(value, (list, tuple)):
          count = len(value)
  if rest or not used:
    raise TypeError("%s: too many arguments" % name)
  if _takes(name):
    _give(keep)
  result = function(*c_args)
  if declared.target.name == "ls_status":
    _check(result)
    values = []
  elif declared.target.kind == "void":
    values = []
  elif declared.target.name in ("ls_tensor", "ls_op"):
    values = [_placed(result)]
  else:
    owned = declared.target.name == "ls_nest" or _takes(name)
    values = [_from_c(declared.target, result, owned)]
  for kind, box in outs:
    values.append(_from_out(name, kind, box))
  for value in values:
    if isinstance(value, (Handle, Nest)):
      value._keep.append(keep)
    if isinstance(value, Dataset):
      _check(lib.ls_dataset_status(value.address))
  if name == "ls_custom_gradient":
    _forever.append(keep)  # A graph may outlive all that is known of it.
  return values[0] if len(values) == 1 else tuple(values) or None


def _give(keep):
  """Hands references over to a call that takes what it gets."""
  for item in list(keep):
    if isinstance(item, Nest):
      lib.ls_nest_retain(item.c)
    elif isinstance(item, Dataset):
      lib.ls_dataset_retain(item.address)


def _from_out(name, kind, box):
  if kind.kind == "pointer":
    if kind.target.name == "char" and kind.ctype is ctypes.c_void_p:
      text = ctypes.string_at(box.value).decode(errors="replace")
      lib.ls_text_release(box)
      return text
    owned = name not in _LENT and not isinstance(kind.target, _Const)
    if kind.is_pointer_to("ls_array") and box.value and not owned:
      lib.ls_array_retain(box.value)
      owned = True
    return _from_c(kind, box.value, owned)
  value = box.value if isinstance(box, ctypes._SimpleCData) else box
  return _from_c(kind, value, True)


def create(noun, /, *args, **options):
  """Makes an object by ls_<noun>_create."""
  return call("ls_%s_create" % noun, *args, **options)


# ---- Objects -----------------------------------------------------------------
_reading = weakref.WeakSet()  # Iterators: they may read ahead on threads.


@atexit.register
def _end_reading():
  """Ends the threads that call Python, which they cannot when it has ended. An
  iterator that another thread is reading is left alone."""
  for iterator in list(_reading):
    iterator._is_ended = True
    if not iterator._is_read:
      iterator._drop()


class Handle:
  """An object of the library. A method `f` is its function ls_<noun>_f."""

  type_name = ""
  _is_read = _is_ended = False  # Of iterators.

  @classmethod
  def _wrap(cls, type_name, address, owned):
    made = cls.__new__(cls)
    made._hold(type_name, address, owned)
    return made

  def _hold(self, type_name, address, owned):
    self.type_name, self.address, self._keep = type_name, address, []
    self._release = _release_of(type_name) if owned else None
    if owned and type_name.endswith("_iterator"):
      _reading.add(self)

  def _drop(self):
    release, self._release = self.__dict__.get("_release"), None
    if release is not None and lib is not None:
      release(self.address)

  def __del__(self):
    self._drop()

  def __getattr__(self, name):
    function = "%s_%s" % (self.type_name, name)
    if name.startswith("_") or function not in _declared.functions:
      raise AttributeError("%s has no '%s'" % (self.type_name, name))
    return functools.partial(call, function, self)

  def __repr__(self):
    return "<%s at %#x>" % (self.type_name, self.address)


@functools.lru_cache(None)
def _release_of(type_name):
  for verb in ("release", "destroy", "close"):
    declared = _declared.functions.get("%s_%s" % (type_name, verb))
    if declared is None or len(declared.fields) != 1:
      continue
    function = getattr(lib, "%s_%s" % (type_name, verb))
    if declared.target.kind == "void":
      return function
    return lambda address: lib.ls_status_free(function(address))
  return None


class Nest:
  """A tree of values of the library, which it owns."""

  __slots__ = ("c", "_keep")

  def __init__(self, value=None):
    self.c = _CNest()
    self._keep = [value]  # Such as a data set with callbacks.
    self.c = _to_nest(value)

  @classmethod
  def _adopt(cls, c):
    made = cls.__new__(cls)
    made.c, made._keep = c, []
    return made

  def __del__(self):
    if lib is not None and hasattr(self, "c"):
      lib.ls_nest_release(self.c)

  def __len__(self):
    return lib.ls_nest_count(self.c)

  def __getitem__(self, key):
    """Returns an item, by its position or key, as Python has it."""
    if isinstance(key, str):
      for i in range(len(self)):
        if (lib.ls_nest_key(self.c, i) or b"").decode() == key:
          return self[i]
      raise KeyError(key)
    if not -len(self) <= key < len(self):
      raise IndexError(key)
    return _from_nest(lib.ls_nest_item(self.c, key % len(self)), False)

  def value(self):
    """Returns lists, tuples and dicts of arrays, tensors and numbers."""
    kind = _KINDS[self.c.kind]
    if kind == "LIST":
      return [self[i] for i in range(len(self))]
    if kind == "DICT":
      return {lib.ls_nest_key(self.c, i).decode(): self[i]
              for i in range(len(self))}
    if kind != "TUPLE":
      return _from_nest(self.c, False)
    items = tuple(self[i] for i in range(len(self)))
    names = [lib.ls_nest_key(self.c, i) for i in range(len(self))]
    if not names or names[0] is None:
      return items
    return _tuple_type(lib.ls_nest_tag(self.c).decode() or "named",
                       tuple(name.decode() for name in names))(*items)

  def __repr__(self):
    text = ctypes.create_string_buffer(2000)
    return lib.ls_nest_print(self.c, text, len(text)).decode(errors="replace")


@functools.lru_cache(None)
def _tuple_type(name, fields):
  return collections.namedtuple(name, fields, rename=True)


def _to_nest(value, is_copied=False):
  """Returns an ls_nest, which the caller owns; `is_copied`: without views."""
  if isinstance(value, Nest):
    _entrust(value)
    return lib.ls_nest_retain(value.c)
  if value is None:
    return _CNest()
  if isinstance(value, Tensor):
    return _CNest(_KINDS.index("TENSOR"), 0, value.graph or 0, value.ref)
  if isinstance(value, bool):
    return lib.ls_nest_bool(value)
  if isinstance(value, int):
    return lib.ls_nest_i64(_fit(value, "i64"))
  if isinstance(value, float):
    return lib.ls_nest_f64(value)
  if isinstance(value, Variable):
    return lib.ls_nest_variable(value.address)
  if isinstance(value, Dataset):
    _entrust(value)
    return lib.ls_nest_dataset(lib.ls_dataset_retain(value.address))
  if isinstance(value, PerReplica):
    return lib.ls_nest_retain(value._nest.c)
  if isinstance(value, Op):
    return _CNest(_KINDS.index("OP"), 0, value.graph or 0, value.id)
  if isinstance(value, dict):
    keys = [str(key).encode() for key in value]
    return lib.ls_nest_dict(b"", (ctypes.c_char_p * len(keys))(*keys),
                            _to_items(value.values(), is_copied), len(keys))
  if isinstance(value, tuple) and hasattr(value, "_fields"):
    names = [name.encode() for name in value._fields]
    return lib.ls_nest_named_tuple(
        type(value).__name__.encode(), (ctypes.c_char_p * len(names))(*names),
        _to_items(value, is_copied), len(names))
  if isinstance(value, (list, tuple)):
    kind = "LIST" if isinstance(value, list) else "TUPLE"
    return lib.ls_nest_sequence(_KINDS.index(kind),
                                _to_items(value, is_copied), len(value))
  if is_copied and not isinstance(value, Array):
    value = memoryview(value).toreadonly()
  made = array(value)  # Held by a name: a temporary is freed before the call.
  return lib.ls_nest_array(lib.ls_array_retain(made.address))


def _to_items(values, is_copied):
  # All are converted before any is given away.
  items = (_CNest * len(values))()
  try:
    for i, value in enumerate(values):
      items[i] = _to_nest(value, is_copied)
  except BaseException:
    for item in items:
      lib.ls_nest_release(item)
    raise
  return items


class PerReplica:
  """A value for each replica: a sequence."""

  __slots__ = ("_nest",)

  def __init__(self, nest):
    self._nest = nest

  def __len__(self):
    return lib.ls_distributed_count(self._nest.c)

  def __getitem__(self, replica):
    if not -len(self) <= replica < len(self):
      raise IndexError(replica)
    return _from_nest(lib.ls_distributed_component(
        self._nest.c, replica % len(self)), False)

  def __float__(self):
    """The number of replica 0."""
    return lib.ls_nest_number(lib.ls_distributed_component(self._nest.c, 0))

  def __repr__(self):
    return repr(self._nest)


_FORMATS = {"f64": "d", "f32": "f", "f16": "e", "i8": "b", "i16": "h",
            "i32": "i", "i64": "q", "u8": "B", "u16": "H", "u32": "I",
            "u64": "Q", "bool": "?"}
_NUMPY_TYPES = {"f64": "<f8", "f32": "<f4", "f16": "<f2", "bf16": "<V2",
                "i8": "|i1", "i16": "<i2", "i32": "<i4", "i64": "<i8",
                "u8": "|u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
                "bool": "|b1"}


class Array(Handle):
  """Data of the library. NumPy's arrays of it are views."""

  @property
  def shape(self):
    return _from_shape(lib.ls_array_shape(self.address))

  @property
  def dtype(self):
    return _dtype_name(lib.ls_array_dtype(self.address))

  @property
  def __array_interface__(self):
    data = lib.ls_array_data(self.address)
    return {"version": 3, "shape": self.shape, "data": (data or 0, True),
            "typestr": _NUMPY_TYPES[self.dtype]}

  def numpy(self):
    """Returns a read-only NumPy array over the same memory."""
    import numpy  # pylint: disable=import-outside-toplevel
    return numpy.asarray(self)

  def memory(self):
    """Returns a read-only memoryview of the elements; of bf16 and f16 it has
    their bits."""
    size = lib.ls_array_size(self.address)
    block = (ctypes.c_char * size).from_address(
        lib.ls_array_data(self.address) or 0) if size else (ctypes.c_char * 0)()
    block._owner = self
    view = memoryview(block).toreadonly().cast("B")
    code = {"f16": "H", "bf16": "H"}.get(self.dtype) or _FORMATS[self.dtype]
    return view.cast(code, self.shape or ()) if size else view

  def tolist(self):
    if self.dtype not in ("f16", "bf16"):
      return self.memory().tolist()
    items = [lib.ls_array_f64(self.address, i)
             for i in range(lib.ls_array_num_elements(self.address))]
    for size in self.shape[:0:-1]:
      items = [items[i:i + size] for i in range(0, len(items), size or 1)]
    return items if self.shape else items[0]

  def __bool__(self):
    """The truth of the one element."""
    return float(self) != 0

  def __float__(self):
    if lib.ls_array_num_elements(self.address) != 1:
      raise TypeError("%r is no number" % self)
    return lib.ls_array_f64(self.address, 0)

  def __int__(self):
    if lib.ls_dtype_is_float(lib.ls_array_dtype(self.address)):
      return int(float(self))
    self.__float__()  # Refuses an array that is no number.
    value = lib.ls_array_i64(self.address, 0)
    return value % 2**64 if self.dtype == "u64" else value

  def __len__(self):
    if not self.shape:
      raise TypeError("%r is a number, without a length" % self)
    return self.shape[0]

  def __repr__(self):
    return repr(Nest(self))


_viewed = {}  # Memory that arrays of the library are views of.
_view_keys = itertools.count(1)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _drop_view(key, viewed=_viewed):
  viewed.pop(key, None)


def array(data, dtype=None):
  """Makes an Array: a view of data with a buffer that may be written, such as
  a NumPy array, which must not change while the library uses it; a copy of
  other buffers, of numbers and of lists of numbers. A `dtype` other than the
  buffer's is converted to, but f16 and bf16 are the bits of a buffer of u16."""
  if isinstance(data, Array) and dtype is None:
    return data
  if isinstance(data, (int, float, list, tuple)):
    return _array_of_numbers(data, dtype)
  view = memoryview(data)
  code = view.format.lstrip("<=@")
  found = {"l": "i64", "L": "u64"}.get(code) or next(
      (name for name, of in _FORMATS.items() if of == code), None)
  if dtype is not None:
    number = _to_enum(_declared.types["ls_dtype"], dtype)
    dtype = _dtype_name(number)
    is_raw = found == "u16" and dtype in ("f16", "bf16") or (
        re.fullmatch(r"\d+[xs]", code) and  # Elements that are bytes alone.
        view.itemsize == lib.ls_dtype_size(number))
    if found not in (None, dtype) and not is_raw:
      return (_array_of_numbers(array(data).tolist(), dtype) if view.nbytes else
              call("ls_array_create", dtype, view.shape))
    found = dtype if is_raw else found
  if found is None:
    raise TypeError("no array of elements '%s'" % view.format)
  kind = _to_enum(_declared.types["ls_dtype"], found)
  box = ctypes.c_void_p()
  if view.readonly or not view.c_contiguous or view.nbytes == 0:
    _check(lib.ls_array_create_copy(kind, _to_shape(view.shape), view.tobytes(),
                                    ctypes.byref(box)))
  else:
    block = (ctypes.c_char * view.nbytes).from_buffer(view)
    key = next(_view_keys)
    _viewed[key] = (block, data)
    status = lib.ls_array_create_view(
        kind, _to_shape(view.shape), ctypes.addressof(block), _drop_view, key,
        ctypes.byref(box))
    if status:
      _drop_view(key)
    _check(status)
  return Array._wrap("ls_array", box.value, True)


@functools.lru_cache(None)
def _range_of(dtype):
  """Returns the numbers that a type of integers holds; None: one of others."""
  found = re.fullmatch("([iu])(8|16|32|64)|bool", dtype)
  if found is None:
    return None
  bits = int(found[2] or 1)
  return (range(-2**(bits - 1), 2**(bits - 1)) if found[1] == "i"
          else range(2**bits))


def _fit(number, dtype):
  """Returns a number for an element of this type. Floats round it; integers must
  hold it."""
  held = _range_of(dtype)
  if held is None:
    is_long = isinstance(number, int) and number not in _range_of("i64")
    return float(number) if is_long else number
  if number != int(number):
    raise TypeError("%r has a fraction, which %s cannot hold: round it, or "
                    "convert to a type of floats, such as f32" % (number, dtype))
  if int(number) not in held:
    raise OverflowError("%r does not fit %s, from %d to %d: name a type that "
                        "holds it, such as u64 or f64"
                        % (number, dtype, held.start, held.stop - 1))
  return int(number)


def _is_bool(value):
  """Returns true for a truth of Python or NumPy."""
  return isinstance(value, bool) or str(getattr(value, "dtype", "")) == "bool"


def _array_of_numbers(data, dtype):
  shape, flat = [], [data]
  while flat and isinstance(flat[0], (list, tuple)):
    shape.append(len(flat[0]))
    if any(len(item) != shape[-1] for item in flat):
      raise ValueError("rows of different lengths")
    flat = [number for item in flat for number in item]
  if dtype is None:
    dtype = ("f64" if not flat else "bool" if all(map(_is_bool, flat)) else
             "i64" if all(isinstance(x, numbers.Integral) for x in flat)
             else "f64")
    if isinstance(data, (list, tuple)) and dtype == "f64":
      dtype = "f32"
  made = call("ls_array_create", dtype, shape)
  dtype = made.dtype
  kind = (lib.ls_array_set_f64 if lib.ls_dtype_is_float(
      lib.ls_array_dtype(made.address)) else lib.ls_array_set_i64)
  for i, number in enumerate(flat):
    kind(made.address, i, _fit(number, dtype))
  return made


def _to_tensor(value, dtype=None):
  """Returns a tensor; numbers, also in lists, get the type `dtype`."""
  if isinstance(value, Tensor):
    return value
  if isinstance(value, Variable):
    return value.read()
  if value is None:
    return Tensor()  # Such as no bias.
  if isinstance(value, bool):
    return lib.ls_scalar_i64(_to_enum(_declared.types["ls_dtype"], "bool"),
                             value)
  if isinstance(value, (int, float)) or (
      dtype and isinstance(value, numbers.Number)):
    value = int(value) if isinstance(value, numbers.Integral) else float(value)
    dtype = dtype or ("i64" if isinstance(value, int) else "f32")
    value = _fit(value, dtype)
    make = lib.ls_scalar_i64 if isinstance(value, int) else lib.ls_scalar
    return make(_to_enum(_declared.types["ls_dtype"], dtype), value)
  # As in _to_nest.
  made = array(value, dtype if isinstance(value, (list, tuple)) else None)
  return lib.ls_constant(made.address)


def _is_operand(value):
  """Returns true for tensors, variables, numbers, lists and buffers."""
  if isinstance(value, (_Arithmetic, Array, numbers.Number, list, tuple)):
    return True
  try:
    memoryview(value)
  except TypeError:
    return False
  return True


def _pair(x, y):
  """Returns two operands; numbers take the type of the other one."""
  if isinstance(x, (Tensor, Variable)):
    x = _to_tensor(x)
    return x, _to_tensor(y, x.dtype)
  y = _to_tensor(y)
  return _to_tensor(x, y.dtype), y


def _divide(x, y):
  """Returns the quotient of two operands of floats."""
  if _range_of(x.dtype) is not None:
    raise TypeError("a quotient of %s by / has fractions: convert to a type of "
                    "floats, such as f32, or use ls.div, which rounds to 0"
                    % x.dtype)
  return call("ls_div", x, y)


class Variable(_Arithmetic, Handle):
  """A variable; in arithmetic it is its value."""

  @property
  def name(self):
    return lib.ls_variable_name(self.address).decode()

  @property
  def shape(self):
    return _from_shape(lib.ls_variable_shape(self.address))

  @property
  def dtype(self):
    return _dtype_name(lib.ls_variable_dtype(self.address))

  def assign(self, value):
    """Numbers take the variable's type, here and in the next two."""
    return call("ls_variable_assign", self, _to_tensor(value, self.dtype))

  def assign_add(self, value):
    return call("ls_variable_assign_add", self, _to_tensor(value, self.dtype))

  def assign_sub(self, value):
    return call("ls_variable_assign_sub", self, _to_tensor(value, self.dtype))

  def __array__(self, dtype=None, copy=None):
    made = self.value().numpy()
    return made.astype(dtype or made.dtype, copy=bool(copy))

  def __repr__(self):
    return "<Variable %s %s>" % (self.name, _type_text(self.dtype, self.shape))


class Dataset(Handle):
  """A data set. Iterating reads an epoch, each element a Nest."""

  def iterator(self, **options):
    return create("iterator", self, **options)

  def __iter__(self):
    return iter(self.iterator())


def _count_references(items):
  for item in items:
    return sys.getrefcount(item)


_ALONE = _count_references((Nest(),))


def _find_dropped(items):
  """Returns an item that nothing else refers to, or else a new nest."""
  for item in items:
    if sys.getrefcount(item) == _ALONE:
      return item
  return Nest()


class _Iterator(Handle):
  """A position in a data set. An element that the program has dropped gives its
  memory to a later one; of two, a loop has the last."""

  def _hold(self, type_name, address, owned):
    super()._hold(type_name, address, owned)
    self._elements = (Nest(), Nest())

  def __iter__(self):
    return self

  def __next__(self):
    element = _find_dropped(self._elements)
    self._is_read = True
    try:
      if self._is_ended:
        raise StopIteration
      status = lib.ls_iterator_next(self.address, ctypes.byref(element.c))
    finally:
      self._is_read = False
    if status:
      if lib.ls_status_code(status) == _declared.constants["LS_OUT_OF_RANGE"]:
        lib.ls_status_free(status)
        raise StopIteration
      _check(status)
    return element

class Function(Handle):
  """A Python function that is traced once for each signature of its arguments,
  and then runs as a compiled program. Use it as a decorator."""

  def __init__(self, python, **options):
    options.setdefault("name", getattr(python, "__name__", "function"))
    made = create("function", call=python, **options)
    self._hold("ls_function", made.address, True)
    made._release = None
    self._keep = made._keep
    functools.update_wrapper(self, python)
    self.callable = _ctype(_declared.types["ls_callable"])(traced=self.address)
    self._results = []  # Nests of earlier calls, filled again.

  def __call__(self, *args):
    """Calls it with these arguments."""
    return self._run(lib.ls_function_call, (self.address,), Nest(args))

  def run(self, strategy, args):
    """Calls it on each replica of a strategy; see ls_strategy_run."""
    return self._run(lib.ls_strategy_run, (strategy.address, self.callable),
                     args if isinstance(args, Nest) else Nest(args))

  def _run(self, function, first, args):
    results = self._results.pop() if self._results else Nest()
    _check(function(*first, args.c, ctypes.byref(results.c)))
    value = _from_nest(results.c, False)
    self._results.append(results)
    return value


def function(python=None, **options):
  """Makes a Function: a decorator, with or without options (name, seed)."""
  if python is None:
    return functools.partial(Function, **options)
  return Function(python, **options)


class _Strategy(Handle):
  """A strategy: runs a Function on its replicas."""

  def run(self, step, args):
    """Runs a step on every replica. `args` is a tuple or a batch: replica r
    gets component r of each distributed value, as Dataset.parts makes them."""
    return step.run(self, args)

  def scope(self):
    return scope("strategy_scope", self)


class Model:
  """A model for `train`: of the library's table, or of Python functions.

  `train_step(examples, labels)` makes a step and returns a dict with "loss"
  and "accuracy"; `logits(examples)` returns the logits. `description` are
  fields of ls_model_type, such as example_shape, num_classes, batch_size.
  """

  def __init__(self, name, train_step=None, logits=None, variables=(),
               optimizer=None, options=None, **description):
    self.c = _ctype(_declared.types["ls_model"])()
    self._keep = keep = []
    kind = _declared.types["ls_model_type"]
    if train_step is None:
      found = lib.ls_model_find(name.encode())
      keep.append(options)
      _check(lib.ls_model_create(found, _to_pointer(_Type(
          "pointer", target=_declared.types["ls_model_options"]), options or {},
          keep), ctypes.byref(self.c)))
      self.type = _ctype(kind).from_address(found)
      return
    self.type = made = _ctype(kind)()
    keep.extend((variables, optimizer))
    description.setdefault("example_dtype", "f32")
    fields = dict(description, name=name, variables=_list_variables(variables),
                  optimizer=lambda: optimizer.address, destroy=lambda: None)
    _fill(kind, made, fields, keep)
    types, calls = dict(kind.fields), _Callbacks()
    made.train_step = _callback(types["train_step"], train_step, calls)
    made.logits = _callback(types["logits"], logits or train_step, calls)
    keep.append(calls)
    self.c.type = ctypes.addressof(made)
    self.c.self = calls.user()

  def __del__(self):
    if lib is not None and self.c.type:
      lib.ls_model_destroy(ctypes.byref(self.c))

  def variables(self):
    """Returns the variables of the model."""
    kind = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p,
                            ctypes.c_size_t)
    return _variables(kind(self.type.variables), self.c.self)


def _list_variables(variables):
  def write(address, capacity):
    if address:
      room = (ctypes.c_void_p * capacity).from_address(address)
      for i, variable in enumerate(variables[:capacity]):
        room[i] = variable.address
    return len(variables)
  return write


def model(name, /, **options):
  """Makes a model of the library's table: "mlp", "cnn", ..."""
  return Model(name, options=options)


def variables_of(layer):
  """Returns the variables of a layer."""
  return _variables(getattr(lib, layer.type_name + "_variables"), layer.address)


def _variables(list_of, owner):
  items = (ctypes.c_void_p * list_of(owner, None, 0))()
  list_of(owner, items, len(items))
  return [Variable._wrap("ls_variable", lib.ls_variable_retain(item), True)
          for item in items]


_CLASSES = {"ls_array": Array, "ls_variable": Variable, "ls_dataset": Dataset,
            "ls_iterator": _Iterator, "ls_strategy": _Strategy}
_KINDS = [name[len("LS_KIND_"):]
          for name in _declared.types["ls_kind"].constants]


# ---- Scopes ------------------------------------------------------------------
class scope:  # pylint: disable=invalid-name
  """A scope of the library: `with scope("name_scope", "dense"):` is
  ls_name_scope_begin to ls_scope_end."""

  def __init__(self, kind, *args):
    self._begin, self._args = "ls_%s_begin" % kind, args
    self._scope = _ctype(_declared.types["ls_scope"])()

  def __enter__(self):
    call(self._begin, self._scope, *self._args)
    status = lib.ls_scope_status()
    if status:
      lib.ls_scope_end(ctypes.byref(self._scope))
    _check(status)
    return self

  def __exit__(self, *_):
    lib.ls_scope_end(ctypes.byref(self._scope))


class frame:  # pylint: disable=invalid-name
  """Frees the eager values made in it at its end."""

  def __enter__(self):
    _check(lib.ls_frame_begin())
    return self

  def __exit__(self, *_):
    _check(lib.ls_frame_end(None))


def gradients(y, xs, **options):
  """Returns the gradient of the sum of y with respect to each of xs, tensors or
  variables; None for one that y does not depend on. Not in eager."""
  keep, grads = [], (_CNest * len(xs))()
  ys = [Nest(item) for item in (y if isinstance(y, (list, tuple)) else [y])]
  nests = [Nest(x) for x in xs]
  made = _to_struct(_declared.types["ls_gradient_options"], options, keep)
  _check(lib.ls_gradients(_lent(ys), len(ys), _lent(nests), len(nests),
                          ctypes.byref(made), grads))
  return [_from_nest(nest, True) for nest in grads]


def _lent(nests):
  return (_CNest * len(nests))(*[nest.c for nest in nests])


# ---- Training and files ------------------------------------------------------
class ranks:  # pylint: disable=invalid-name
  """Trains on the processes that mpirun has started: `with ranks():` opens them
  as ranks and makes a runtime over them current, with these fields of
  ls_runtime_options. Without a launcher the runtime is of this process alone.

  What is made in the block must be gone at its end, so that a program makes all
  in a function that it calls there. After an exception the ranks stay open, and
  the launcher ends the others when this process ends with a code other than 0.
  """

  def __init__(self, **options):
    self._options, self._communicator = options, None
    self._runtime = self._previous = None
    self.rank, self.count = 0, 1  # Set when the block begins.

  def __enter__(self):
    if lib.ls_mpi_find_launcher(None).name:
      self._communicator = opened = call("ls_mpi_open")
      self.rank, self.count = opened.rank, opened.ranks
      if "threads" not in self._options:
        call("ls_communicator_share_cores", opened)
    made = call("ls_runtime_create", communicator=self._communicator,
                **self._options)
    made._release = None
    self._runtime = made.address
    self._previous = lib.ls_runtime_make_current(self._runtime)
    return self

  def __exit__(self, kind, *_):
    if kind is not None:
      return
    _raised.clear()  # Their frames hold objects.
    gc.collect()  # Functions and graphs in cycles, too.
    lib.ls_runtime_make_current(self._previous)
    _check(lib.ls_runtime_destroy(self._runtime))
    if self._communicator:
      call("ls_mpi_close", self._communicator)


def train(**options):
  """Trains by ls_train: fields of ls_train_options. Returns its result. A
  `report` is called with an ls_train_report. What a report or the handler of
  SIGINT raises, such as KeyboardInterrupt, ends the run after its step and is
  raised when the run is saved."""
  stop = options.setdefault("stop", _ctype(_declared.types["ls_train_stop"])())
  report, raised = options.get("report"), []

  def guard(function, *args):
    try:
      function(*args)
    except BaseException as error:  # pylint: disable=broad-except
      raised.append(error)
      lib.ls_train_stop_request(ctypes.byref(stop))

  handler = signal.getsignal(signal.SIGINT)
  is_guarded = callable(handler) and (
      threading.current_thread() is threading.main_thread())
  if report is None and is_guarded:
    report = lambda progress: None  # Python runs handlers in it.
  if report is not None:
    options["report"] = functools.partial(guard, report)
  keep = []
  made = _to_struct(_declared.types["ls_train_options"], options, keep)
  result = _ctype(_declared.types["ls_train_result"])()
  if is_guarded:
    signal.signal(signal.SIGINT, functools.partial(guard, handler))
  try:
    status = lib.ls_train(ctypes.byref(made), ctypes.byref(result))
  finally:
    if is_guarded:
      signal.signal(signal.SIGINT, handler)
  if raised:
    lib.ls_status_free(status)
    raise raised[0]
  _check(status)
  return result


def save(path, variables):
  """Writes the values of variables to a .safetensors file."""
  call("ls_saver_save", {"variables": list(variables)}, path)


def restore(path, variables):
  """Sets variables to the values of a file that `save` wrote."""
  call("ls_saver_restore", {"variables": list(variables)}, path)


def read_saved(path):
  """Reads a checkpoint, a folder of them, a .safetensors or .npz file: a dict
  of arrays by name."""
  file = call("ls_saved_file_open", path)
  info = _ctype(_declared.types["ls_saved_info"])()
  lib.ls_saved_file_describe(file.address, ctypes.byref(info))
  found = {}
  for i in range(info.num_entries):
    entry = call("ls_saved_file_entry", file, i)
    found[entry.name.decode()] = call("ls_saved_file_read", file, i)
  return found

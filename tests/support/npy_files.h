// SPDX-License-Identifier: Apache-2.0
// Files as NumPy 2.4.6 writes them.
#ifndef LS_TESTS_SUPPORT_NPY_FILES_H_
#define LS_TESTS_SUPPORT_NPY_FILES_H_

// np.array([[1, 2.5, -3], [4, 5, 6]], "<f4")
static const char npy_floats[] =
    "\223NUMPY\001\000v\000{'descr': '<f4', 'fortran_order': False, 'shape'"
    ": (2, 3), }                                                          "
    "\012\000\000\200\?\000\000 @\000\000@\300\000\000\200@\000\000\240@"
    "\000\000\300@";

// The same in Fortran's order.
static const char npy_columns[] =
    "\223NUMPY\001\000v\000{'descr': '<f4', 'fortran_order': True, 'shape':"
    " (2, 3), }                                                           "
    "\012\000\000\200\?\000\000\200@\000\000 @\000\000\240@\000\000@\300"
    "\000\000\300@";

// np.array([1, -2], ">i2"), version 2
static const char npy_big_endian[] =
    "\223NUMPY\002\000t\000\000\000{'descr': '>i2', 'fortran_order': False,"
    " 'shape': (2,), }                                                     "
    "     \012\000\001\377\376";

// np.array([[True], [False]]), version 3
static const char npy_version_3[] =
    "\223NUMPY\003\000t\000\000\000{'descr': '|b1', 'fortran_order': False,"
    " 'shape': (2, 1), }                                                   "
    "     \012\001\000";

// np.float64(0.5)
static const char npy_scalar[] =
    "\223NUMPY\001\000v\000{'descr': '<f8', 'fortran_order': False, 'shape'"
    ": (), }                                                              "
    "\012\000\000\000\000\000\000\340\?";

// np.array([b"one", b"", b"three"])
static const char npy_bytes[] =
    "\223NUMPY\001\000v\000{'descr': '|S5', 'fortran_order': False, 'shape'"
    ": (3,), }                                                            "
    "\012one\000\000\000\000\000\000\000three";

// np.array(["one"])
static const char npy_texts[] =
    "\223NUMPY\001\000v\000{'descr': '<U3', 'fortran_order': False, 'shape'"
    ": (1,), }                                                            "
    "\012o\000\000\000n\000\000\000e\000\000\000";

// np.array([1 + 2j], ">c8")
static const char npy_complex[] =
    "\223NUMPY\001\000v\000{'descr': '>c8', 'fortran_order': False, 'shape'"
    ": (1,), }                                                            "
    "\012\?\200\000\000@\000\000\000";

#endif  // LS_TESTS_SUPPORT_NPY_FILES_H_

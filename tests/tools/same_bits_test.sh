#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Five trainings end with the same bytes on each instruction set of this
# machine, also when another one resumes them. tools/same-bits without a folder
# compares compilers, C libraries and processors too.

set -eu
"${LS_SOURCE_DIR:?}/tools/same-bits" "${LS_BUILD_DIR:?}"

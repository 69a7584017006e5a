# SPDX-License-Identifier: Apache-2.0
#
# Reads the public headers and ops.def and writes the table of all public names,
# which `lockstep help NAME` reads and the other scripts of this folder make
# pages of. A line is a letter, a space and a text:
#
#   H train.h 1 train    a header, its circle (1: lockstep.h includes it) and
#                        its layer
#   D text               a line of the comment at its top
#   S Stopping           a section
#   E name name          an entry: the names that a group of declarations makes
#   C code               its code, C's branch where C++ has another
#   T text               its comment
#
# A group is one or more declarations without a blank line or a comment between
# them: they share the comment above the first. A maker of an op that has none
# takes the op's line of ops.def. Names that end in "_" are private.
#
# usage: awk -f table.awk ops.def HEADER...

# The headers that lockstep.h includes, itself and what these include.
function read_circle(folder, file, line) {
  if (file in circle) return
  circle[file] = 1
  while ((getline line < (folder file)) > 0)
    if (line ~ /^#include "lockstep\/[a-z_0-9]+\.h"/) {
      sub(/^[^\/]*\//, "", line)
      sub(/".*/, "", line)
      includes[file] = includes[file] " " line
    }
  close(folder file)
  read_includes(folder, includes[file])
}
function read_includes(folder, list, names, count, i) {
  count = split(list, names)
  for (i = 1; i <= count; ++i) read_circle(folder, names[i])
}

# Notes the line of documentation of each op: the first string that ends in ","
# or ")" after the name.
function read_op(text, name) {
  sub(/^LS_OP\([A-Z0-9_]+, *"/, "", text)
  name = text
  sub(/".*/, "", name)
  sub(/^[^"]*"/, "", text)
  if (!match(text, /"([^"\\]|\\.)*"/)) return
  op_doc[name] = substr(text, RSTART + 1, RLENGTH - 2)
}

# Adds the names that a declaration makes to the entry.
function add_name(name) {
  if (name ~ /_$/ || (name in seen)) return
  seen[name] = 1
  names = names (names == "" ? "" : " ") name
}

# Returns a declaration without comments, strings and line ends.
function plain_code(text) {
  gsub(/\/\/[^\n]*/, "", text)
  gsub(/"([^"\\]|\\.)*"/, "", text)
  gsub(/[ \t\n]+/, " ", text)
  return text
}

function add_enumerators(text, parts, count, i) {
  sub(/^[^{]*\{/, "", text)
  sub(/\}.*/, "", text)
  count = split(text, parts, ",")
  for (i = 1; i <= count; ++i)
    if (match(parts[i], /LS_[A-Z0-9_]+/))
      add_name(substr(parts[i], RSTART, RLENGTH))
}

# Finds the names of a declaration of C.
function add_declaration(text, name) {
  text = plain_code(text)
  if (text ~ /^#define /) {
    sub(/^#define +/, "", text)
    match(text, /^[A-Za-z0-9_]+/)
    add_name(substr(text, 1, RLENGTH))
    return
  }
  if (text ~ /^typedef /) {
    name = text
    sub(/\{.*\}/, "", name)
    if (match(name, /\(\*ls_[a-z0-9_]+\)/)) {
      name = substr(name, RSTART + 2, RLENGTH - 3)
    } else {
      gsub(/\(.*\)/, "", name)
      gsub(/\[[^]]*\]/, "", name)
      sub(/ *;.*/, "", name)
      sub(/^.*[ *]/, "", name)
    }
    add_name(name)
  } else if (text ~ /^LS_API extern /) {
    sub(/;.*/, "", text)
    sub(/.* /, "", text)
    add_name(text)
    return
  } else if (text !~ /^(enum|struct)[ {]/ && match(text, /ls_[a-z0-9_]+ ?\(/)) {
    name = substr(text, RSTART, RLENGTH)
    sub(/ ?\($/, "", name)
    add_name(name)
    return
  } else if (match(text, /^struct ls_[a-z0-9_]+/)) {
    add_name(substr(text, 8, RLENGTH - 7))
  }
  if (text ~ /^(typedef )?enum/) add_enumerators(text)
}

# Removes `size` characters of marks, and indents the lines after the first by
# as much less, where they can be.
function without_marks(text, size, lines, count, i, space) {
  count = split(substr(text, size + 1), lines, "\n")
  for (i = 2; i <= count; ++i) {
    match(lines[i], /^ */)
    space = RLENGTH > size + 4 ? size : RLENGTH > 4 ? RLENGTH - 4 : 0
    lines[1] = lines[1] "\n" substr(lines[i], space + 1)
  }
  return lines[1]
}

# Ends a declaration: bodies of inline functions and of macros with statements
# are left out.
function end_declaration() {
  if (declaration ~ /^typedef struct [a-z_0-9]+ [a-z_0-9]+; *\/\/ lockstep\//) {
    declaration = ""  # Of another header.
    return
  }
  add_declaration(declaration)
  if (declaration ~ /^static inline/) sub(/[ \n]*\{.*/, ";", declaration)
  if (match(declaration, /^(static inline |LS_API |LS_PLACED |LS_MUST_USE )+/))
    declaration = without_marks(declaration, RLENGTH)
  gsub(/[ \t]*\\\n/, "\n", declaration)
  gsub(/\n/, "\nC ", declaration)
  code[++num_code] = "C " declaration
  names_of[num_code] = names
  names = declaration = ""
  depth = 0
}

# Prints a group as an entry, or as one for each declaration that an op
# documents.
function end_group(    i, list, op) {
  for (i = 1; i <= num_code; ++i) {
    op = names_of[i]
    sub(/^ls_/, "", op)
    if (num_comment == 0 && (op in op_doc)) {
      print_section()
      print "E " names_of[i] "\n" code[i] "\nT " op_doc[op]
      code[i] = ""
    } else if (names_of[i] != "") {
      list = list " " names_of[i]
    }
  }
  if (list != "") {
    print_section()
    print "E" list
    for (i = 1; i <= num_code; ++i) if (code[i] != "") print code[i]
    for (i = 1; i <= num_comment; ++i) print "T " comment[i]
  }
  num_code = num_comment = 0
}
function print_section() {
  if (section != "") print "S " section
  section = ""
}

# Counts how far braces and parentheses are open after a line.
function count_open(line) {
  sub(/\/\/.*/, "", line)
  gsub(/"([^"\\]|\\.)*"/, "", line)
  return gsub(/[{(]/, "", line) - gsub(/[})]/, "", line)
}

function begin_header(    path) {
  end_group()
  path = FILENAME
  file = path
  sub(/.*\//, "", file)
  if (!started++) read_circle(substr(path, 1, length(path) - length(file)), "lockstep.h")
  layer = "base"
  in_head = 1
  in_blank = 0
  section = ""
  num_head = skipping = levels = 0
}

function end_head(    i) {
  in_head = 0
  print "H " file " " ((file in circle) ? 1 : 2) " " layer
  for (i = 1; i <= num_head; ++i) print "D " head[i]
}

FILENAME ~ /ops\.def$/ {
  if (/^LS_OP\(/) {
    if (row != "") read_op(row)
    row = ""
  }
  if (!/^\/\//) row = row $0 " "
  next
}

FNR == 1 {
  if (row != "") read_op(row)
  row = ""
  begin_header()
}

in_head && /^\/\// {
  text = $0
  sub(/^\/\/ ?/, "", text)
  if (text ~ /^SPDX/) next
  if (text ~ /^Layer: /) layer = substr(text, 8)
  else if (text != "" || num_head > 0) head[++num_head] = text
  next
}
in_head { end_head() }

# Branches of the preprocessor: C's, and those of this compiler.
declaration == "" && /^#(if|ifdef|ifndef) / {
  ++levels
  if (!skipping && (/^#ifdef __cplusplus/ || /^#if !defined\(__GNUC__\)/))
    skipping = levels
  next
}
declaration == "" && /^#(else|elif)/ {
  if (skipping == levels) skipping = 0
  else if (!skipping) skipping = levels
  next
}
declaration == "" && /^#endif/ {
  if (skipping == levels) skipping = 0
  --levels
  next
}
skipping { next }

declaration == "" && /^\/\/ ---- / {
  end_group()
  section = $0
  sub(/^\/\/ ---- /, "", section)
  sub(/ *-*$/, "", section)
  next
}
declaration == "" && /^\/\// {
  if (num_code > 0) end_group()
  text = $0
  sub(/^\/\/ ?/, "", text)
  comment[++num_comment] = text
  next
}
declaration == "" && (/^$/ || /^#(include|undef)/ || /^}/ || /^LS_[A-Z_]*\(/) {
  end_group()
  # The rest of a call of a macro.
  in_call = /^LS_/ && !/\)$/
  next
}
in_call {
  in_call = !/\)$/
  next
}

{
  declaration = declaration (declaration == "" ? "" : "\n") $0
  depth += count_open($0)
  if (declaration ~ /^#define/) {
    if (!/\\$/) end_declaration()
  } else if (depth <= 0 && (/;( *\/\/.*)?$/ || /}$/)) {
    end_declaration()
  }
}

END { end_group() }

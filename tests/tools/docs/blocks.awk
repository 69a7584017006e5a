# SPDX-License-Identifier: Apache-2.0
#
# Takes the code blocks of a page into files of the folder OUT:
#
#   page.run     a script of the page's shell and Python, in their order
#   page.c       its C: declarations as they are, each fragment a function that
#                main calls; page.cpp likewise
#   N.c          a program, of line N
#   N.py         Python, with its set-up
#   named        the names of files that the script writes
#   commands     all shell, to be parsed
#   blocks       a line for each block: kind, line, what becomes of it
#
# The first line of a block says what becomes of it:
#
#   ```sh run                  runs; what it prints is compared with a block
#                              without a language that follows
#   ```text like               such a block, in which numbers may be others
#   ```text                    output of no block
#   ```sh run fails            runs, and its last command must fail
#   ```sh run if: curl         runs where these programs are; `$NAME` is a variable
#                              of the environment, for Python these are modules
#   ```python run              likewise, and `run fails` and so on
#   ```c                       a program, declarations or a fragment: runs
#   ```c NAME                  a part of a file of this name, for the script
#   ```cpp                     a fragment: runs
#
# A comment before a block has what the block takes from elsewhere, and a line
# `...` in it stands for the block:
#
#   <!-- c: ls_iterator *batches = ls_iterator_in(bag, page_batches()); -->
#
# So do `sh:`, `python:` and `cpp:`. `c top:` has declarations of the page, and
# `c run:` statements that run after the declarations before it. A fragment's
# `bag` is its own; page.h has a net and data.
#
# usage: awk -v out=OUT -f blocks.awk PAGE

function fault(what) { print FILENAME ":" start ": " what }

# Counts the block, visible ones only.
function note(what) {
  print kind "\t" FILENAME ":" start "\t" what > (out "/blocks")
}

# The text with its context around it.
function whole(    around, at) {
  around = context[kind]
  at = match("\n" around, /\n *\.\.\.\n/)
  if (!at) return around text
  return substr(around, 1, at - 1) text substr(around, at + RLENGTH - 1)
}

function append(name, lines) { printf "%s", lines >> (out "/" name) }

# A function of the page's program.
function add_fragment(file, lines) {
  append(file, "static ls_status fragment_" start "(ls_bag *bag) {\n" lines \
    "\n  return ls_ok();\n}\n")
  calls[file] = calls[file] "  failed |= page_fails(" start ", fragment_" start ");\n"
}

function end_c(    lines) {
  lines = "#line " start + 1 " \"" FILENAME "\"\n" text
  if (word == "cpp") word = ""
  if (word != "") {
    if (!(word in named)) print word > (out "/named")
    append("page.run", "cat >" (word in named ? ">" : "") word \
      " <<'END_OF_FILE'\n" whole() "END_OF_FILE\n")
    named[word] = 1
    note("run")
  } else if (kind == "c" && text ~ /(^|\n)int main\(/) {
    append(start ".c", text)
    note("run")
  } else if (kind == "c" && text ~ /(^|\n)(#include|static )/) {
    text = lines
    append("page.c", whole())
    note("run")
  } else {
    text = lines
    add_fragment("page." kind, whole())
    note("run")
  }
}

# Runs shell, or Python from a file, and compares what it printed.
function end_script(    command) {
  if (kind == "sh") append("commands", text)
  if (kind == "python") append(start ".py", whole())
  note("run")
  command = kind == "sh" ? "{\n" text "}" : "\"$python\" \"$blocks/" start ".py\""
  append("page.run", "if there " kind " " start " '" needed "'; then\n")
  if (kind == "sh" && context[kind] != "")
    append("page.run", "{\n" context[kind] "} >\"$output\" 2>&1\n")
  append("page.run", (fails ? "set +e\n" : "") command " >\"$output\" 2>&1\n")
  if (fails) append("page.run", "code=$?\nset -e\n[ $code != 0 ] || refuse 'succeeds'\n")
  append("page.run", "fi\n")
  may_print = start
}

function end_block() {
  needed = ""
  fails = 0
  word = info
  if (word == "run" || word ~ /^run /) {
    sub(/^run ?/, "", word)
    fails = sub(/^fails ?/, "", word)
    if (sub(/^if: */, "", word)) needed = word
  }
  if (kind == "c" || kind == "cpp") {
    end_c()
  } else if (kind == "sh" || kind == "python") {
    if (info !~ /^run( fails)?( if: .*)?$/)
      fault("a block of " kind " does not say \"run\"")
    else
      end_script()
  } else if (may_print && (kind == "" || kind == "text" && info == "like")) {
    append(start ".expected", text)
    append("page.run", "expect " may_print " " start (info == "like" ? " 1" : "") "\n")
    note("compared")
  } else if (kind == "" || kind == "text") {
    note("shown")
  } else {
    fault("a block of " kind ", which nothing runs")
  }
  if (kind != "sh" && kind != "python") may_print = 0
  context[kind] = ""
}

BEGIN {
  append("page.c", "#include \"page.h\"\n")
  append("page.cpp", "#include \"lockstep/lockstep.hpp\"\n#include \"page.h\"\n")
}

/^<!-- (c|c top|c run|cpp|cpp top|sh|python):( |$)/ && !inside {
  in_comment = 1
  comment = $0
  sub(/^<!-- /, "", comment)
  sub(/:.*/, "", comment)
  sub(/^<!-- [a-z ]*: ?/, "")
  kind = comment
  start = FNR
  lines = ""
}
in_comment {
  in_comment = !/-->/
  sub(/ *-->.*/, "")
  if ($0 != "") lines = lines $0 "\n"
  if (in_comment) next
  if (sub(/ top$/, "", comment))
    append("page." comment, "#line " start " \"" FILENAME "\"\n" lines)
  else if (sub(/ run$/, "", comment))
    add_fragment("page.c", "#line " start " \"" FILENAME "\"\n" lines)
  else
    context[comment] = context[comment] lines
  next
}
/^```/ {
  if (inside) {
    inside = 0
    end_block()
    next
  }
  inside = 1
  start = FNR
  text = ""
  kind = $1
  sub(/^```/, "", kind)
  info = $0
  sub(/^```[^ ]* */, "", info)
  next
}
inside { text = text $0 "\n" }
END {
  if (inside) fault("a block does not end")
  if (in_comment) fault("a comment does not end")
  for (kind in context)
    if (context[kind] != "") fault("a context of " kind " without a block")
  for (file in calls)
    append(file, "int main(void) {\n  bool failed = false;\n" calls[file] "  return failed;\n}\n")
  if (!("page.c" in calls)) append("page.c", "int main(void) { return 0; }\n")
}

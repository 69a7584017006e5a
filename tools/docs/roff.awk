# SPDX-License-Identifier: Apache-2.0
#
# Functions of scripts that make pages of the manual: texts and comments, as
# paragraphs or as they stand, in `file`.

# Escape a text for roff: code keeps its minus signs.
function escape(text) {
  text = escape_prose(text)
  gsub(/-/, "\\-", text)
  return text
}
function escape_prose(text) {
  gsub(/\\/, "\\e", text)
  gsub(/`/, "", text)
  if (text ~ /^[.']/) text = "\\&" text
  return text
}

# Begins a paragraph, which a heading has begun already.
function begin_paragraph(macro) {
  if (!after_heading) print ".PP" > file
  after_heading = 0
  if (macro != "") print macro > file
}
function begin_section(heading) {
  end_part()
  print ".SH " escape(heading) > file
  after_heading = 1
}

# Prints a line of a comment: of a paragraph, or as it stands.
function add_comment(line) {
  if (line ~ /^ *$/) {
    end_part()
  } else if (line ~ /^  /) {
    if (part != "code") {
      end_part()
      begin_paragraph(".nf")
    }
    part = "code"
    print escape(line) > file
  } else {
    if (part == "code") end_part()
    if (part == "") begin_paragraph("")
    part = "text"
    print_wrapped(escape_prose(line), 80)
  }
}
function end_part() {
  if (part == "code") print ".fi" > file
  part = ""
}

# Prints an escaped text in lines of at most `width` characters, which begin
# with no control character.
function print_wrapped(text, width, words, count, i, line) {
  count = split(text, words, " ")
  for (i = 1; i <= count; ++i) {
    if (line != "" && length(line) + length(words[i]) >= width) {
      print line > file
      line = words[i] ~ /^[.']/ ? "\\&" : ""
    }
    line = line (line == "" || line == "\\&" ? "" : " ") words[i]
  }
  if (line != "") print line > file
}

# Prints an item of a list: a head in bold and a text.
function add_item(head, text) {
  end_part()
  after_heading = 0
  print ".TP\n.B " escape(head) > file
  print_wrapped(escape(text), 80)
}

# SPDX-License-Identifier: Apache-2.0
#
# Makes the reference as web pages, one per header and an index, of the table
# of public names, which it reads twice: first for the links. search.js looks
# into names.js; neither needs a network or a server. cheat.html is a cheat
# sheet: the calls of lockstep.h on one page.
#
# usage: awk -v out=FOLDER -f html.awk TABLE TABLE

function escape(text) {
  gsub(/&/, "\\&amp;", text)
  gsub(/</, "\\&lt;", text)
  gsub(/>/, "\\&gt;", text)
  return text
}

# Escapes a text and links the names and headers in it.
function link_names(text, result, word) {
  text = escape(text)
  while (match(text, /(ls|LS)_[A-Za-z0-9_]+|lockstep\/[a-z_0-9]+\.h/)) {
    word = substr(text, RSTART, RLENGTH)
    result = result substr(text, 1, RSTART - 1)
    text = substr(text, RSTART + RLENGTH)
    if (word in page_of)
      word = "<a href=\"" page_of[word] "#" word "\">" word "</a>"
    else if (word ~ /^lockstep/ && (substr(word, 10) in is_header))
      word = "<a href=\"" page_name(substr(word, 10)) "\">" word "</a>"
    result = result word
  }
  return result text
}

function page_name(header) {
  sub(/\.h$/, ".html", header)
  return header
}

# Returns the first sentence of a comment.
function first_sentence(text) {
  if (match(text, /\.( |$)/)) text = substr(text, 1, RSTART - 1)
  return text
}

# Prints a comment: paragraphs, and lists and tables as they stand.
function add_comment(line) {
  if (line ~ /^ *$/) end_part()
  else if (line ~ /^  /) begin_part("pre", line "\n")
  else begin_part("p", line "\n")
}
function begin_part(kind, text) {
  if (part != kind) {
    end_part()
    printf "<%s>", kind > file
    part = kind
  }
  text = link_names(text)
  gsub(/`[^`]+`/, "<code>&</code>", text)
  gsub(/`/, "", text)
  printf "%s", text > file
}
function end_part() {
  if (part != "") print "</" part ">" > file
  part = ""
}

function begin_page(name, title) {
  file = out "/" name
  printf "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n" \
    "<meta charset=\"utf-8\">\n<meta name=\"viewport\" " \
    "content=\"width=device-width, initial-scale=1\">\n" \
    "<title>%s</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n" \
    "</head>\n<body>\n<header><a href=\"index.html\">Lockstep</a>\n" \
    "<input id=\"search\" type=\"search\" placeholder=\"Search names ( / )\" " \
    "aria-label=\"Search names\" autocomplete=\"off\">\n" \
    "<ol id=\"found\"></ol></header>\n<main>\n<h1>%s</h1>\n", title, title > file
}
function end_page() {
  if (file == "") return
  end_entry()
  print "</main>\n<script src=\"names.js\"></script>\n" \
    "<script src=\"search.js\"></script>\n</body>\n</html>" > file
  close(file)
  file = ""
}
function end_entry() {
  end_part()
  if (in_code) print "</pre>" > file
  if (in_entry) print "</section>" > file
  in_entry = in_code = 0
}

{ tag = substr($0, 1, 1) }

# The first reading: names, their pages and comments.
NR == FNR {
  if (tag == "H") {
    header = $2
    is_header[header] = 1
    circle_of[header] = $3
    headers[++num_headers] = header
    num_names[header] = 0
  } else if (tag == "D" && !(header in is_brief)) {
    if (NF < 2) is_brief[header] = 1
    else brief_of[header] = brief_of[header] " " substr($0, 3)
  } else if (tag == "E") {
    for (i = 2; i <= NF; ++i) {
      page_of[$i] = page_name(header)
      names[++num_all] = $i
    }
    first = num_all - NF + 2
    last = num_all
  } else if (tag == "T" && first) {
    for (i = first; i <= last; ++i) about[names[i]] = about[names[i]] " " $0
    if ($0 ~ /\.( |$)/) first = 0
  }
  if (tag ~ /[HSE]/ && tag != "E") first = 0
  next
}

# Adds a call to the cheat sheet: its name and its arguments without types.
function add_call(code, name, list, parts, count, i) {
  gsub(/ *\/\/[^\n]*/, "", code)
  if (code ~ /^typedef|^enum|^struct/ || !match(code, /(ls|LS)_[A-Za-z0-9_]+\(/))
    return
  name = substr(code, RSTART, RLENGTH - 1)
  if (!(name in page_of)) return
  code = substr(code, RSTART + RLENGTH)
  gsub(/\n/, " ", code)
  if (code ~ /;/) {
    gsub(/\(\*/, "", code)  # Of a pointer to a function its name stays.
    gsub(/\)\([^)]*\)/, "", code)
    gsub(/\[[^]]*\]/, "", code)
  }
  sub(/\).*/, "", code)
  count = split(code, parts, ",")
  for (i = 1; i <= count; ++i) {
    sub(/ *$/, "", parts[i])
    sub(/^.*[ *]/, "", parts[i])
    list = list (list == "" ? "" : ", ") parts[i]
  }
  if (list == "void") list = ""
  if (sheet_section != "") sheet = sheet "<h2>" escape(sheet_section) "</h2>\n"
  sheet_section = ""
  sheet = sheet "<p><a href=\"" page_of[name] "#" name "\">" name "</a>(" list ")</p>\n"
}

tag == "H" {
  on_sheet = $3 == 1
  sheet_section = page_name($2)
  sub(/\.html$/, "", sheet_section)
}
tag == "S" { sheet_section = substr($0, 3) }
on_sheet && tag == "C" {
  line = substr($0, 3)
  if (line !~ /^ / || line ~ /^#define/) is_macro = line ~ /^#define/
  if (line ~ /^#define/) {
    add_call(line)
  } else if (!is_macro) {
    code = code (code == "" ? "" : "\n") line
    if (line ~ /;( *\/\/.*)?$/) {
      add_call(code)
      code = ""
    }
  }
}
tag != "C" { code = "" }

tag == "H" {
  end_page()
  begin_page(page_name($2), "lockstep/" $2)
  if ($3 == 1) print "<p class=\"note\">Part of lockstep/lockstep.h.</p>" > file
  else print "<p class=\"note\">Part of lockstep/full.h.</p>" > file
  next
}
tag == "D" {
  add_comment(substr($0, 3))
  next
}
tag == "S" {
  end_entry()
  print "<h2>" escape(substr($0, 3)) "</h2>" > file
  next
}
tag == "E" {
  end_entry()
  printf "<section id=\"%s\">\n", $2 > file
  for (i = 3; i <= NF; ++i) printf "<a id=\"%s\"></a>", $i > file
  printf "<pre class=\"code\">" > file
  in_entry = in_code = 1
  next
}
tag == "C" {
  print link_names(substr($0, 3)) > file
  next
}
tag == "T" {
  if (in_code) print "</pre>" > file
  in_code = 0
  add_comment(substr($0, 3))
}

function list_headers(circle, i, text) {
  print "<dl>" > file
  for (i = 1; i <= num_headers; ++i) {
    if (circle_of[headers[i]] != circle) continue
    text = substr(brief_of[headers[i]], 2)
    printf "<dt><a href=\"%s\">%s</a></dt><dd>%s</dd>\n",
      page_name(headers[i]), headers[i], escape(first_sentence(text)) > file
  }
  print "</dl>" > file
}

END {
  end_page()
  begin_page("index.html", "Lockstep reference")
  print "<p>" num_all " names. <a href=\"cheat.html\">Cheat sheet</a>. " \
    "In a terminal: <code>lockstep help ls_train</code>, " \
    "<code>man ls_train</code>.</p>" > file
  print "<h2>lockstep/lockstep.h</h2>" > file
  list_headers(1)
  print "<h2>lockstep/full.h adds</h2>" > file
  list_headers(2)
  end_page()
  begin_page("cheat.html", "Lockstep cheat sheet")
  print "</main><main class=\"sheet\">\n" sheet > file
  end_page()
  file = out "/names.js"
  print "const names = [" > file
  for (i = 1; i <= num_all; ++i) {
    text = about[names[i]]
    gsub(/ T /, " ", text)
    text = escape(first_sentence(substr(text, 2)))
    gsub(/["\\]/, "\\\\&", text)
    printf "[\"%s\",\"%s\",\"%s\"],\n", names[i], page_of[names[i]], text > file
  }
  print "];" > file
}

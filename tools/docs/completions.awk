# SPDX-License-Identifier: Apache-2.0
#
# Makes completions for bash, zsh and fish of the lines of tools/docs/commands:
# commands, flags of each, models and files; for bash also the names that
# `lockstep help` explains.
#
# usage: awk -v bash=FILE -v zsh=FILE -v fish=FILE -f completions.awk COMMANDS

# Adds a flag to the command, whose flags with and without --estimator differ.
function add_flag(text, flag) {
  split(text, flag, "\t")
  if ((command, flag[1]) in num_of) return
  ++num_flags[command]
  num_of[command, flag[1]] = num_flags[command]
  name_of[command, num_flags[command]] = flag[1]
  form_of[command, num_flags[command]] = flag[2]
  help_of[command, num_flags[command]] = flag[3]
}

function is_path(form) {
  return form ~ /PATH|DIR|FILE/
}

# The first part of a flag's help, without what shells read in it.
function brief(text) {
  sub(/[;:(].*/, "", text)
  gsub(/[^A-Za-z0-9 .,=+%-]/, "", text)
  sub(/ *$/, "", text)
  return text
}

function flags_of(name, test, i, list) {
  for (i = 1; i <= num_flags[name]; ++i)
    if (test == "" || (test == "word") == (form_of[name, i] != "" &&
                                           !is_path(form_of[name, i])))
      list = list (list == "" ? "" : " ") "--" name_of[name, i]
  return list
}

/^M / { models = models (models == "" ? "" : " ") $2 }
/^P / {
  commands[++num_commands] = $2
  about = substr($0, 3)
  sub(/^[^ ]* /, "", about)
  about_of[$2] = about
}
/^U / {
  command = $2
  if ($3 ~ /^[a-z]/) {
    parts_of[$2] = parts_of[$2] (parts_of[$2] == "" ? "" : " ") $3
    command = $2 " " $3
  }
  if (!(command in num_flags)) {
    num_flags[command] = 0
    all[++num_all] = command
  }
}
/^F / { add_flag(substr($0, 3)) }

function write_bash(file, i, list) {
  for (i = 1; i <= num_commands; ++i) list = list " " commands[i]
  print "# Completions of lockstep for bash.\n_lockstep() {\n" \
    "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}\n" \
    "  local command=${COMP_WORDS[1]} flags= plain=\n  COMPREPLY=()\n" \
    "  if ((COMP_CWORD == 1)); then\n" \
    "    COMPREPLY=($(compgen -W '--version --help" list "' -- \"$word\"))\n" \
    "    return\n  fi\n  case $command in" > file
  for (i = 1; i <= num_commands; ++i)
    if (commands[i] in parts_of)
      print "  " commands[i] ")\n    if ((COMP_CWORD == 2)); then\n" \
        "      COMPREPLY=($(compgen -W '--help " parts_of[commands[i]] "' -- \"$word\"))\n" \
        "      return\n    fi\n    command+=\" ${COMP_WORDS[2]}\" ;;" > file
  print "  esac\n  case $command in" > file
  for (i = 1; i <= num_all; ++i)
    print "  '" all[i] "')\n    flags='" flags_of(all[i]) "'\n    plain='" \
      flags_of(all[i], "word") "' ;;" > file
  print "  esac\n" \
    "  if [[ $before == --model ]] || { ((COMP_CWORD == 2)) && [[ $command =~ ^(bench|graph|compile)$ ]]; }; then\n" \
    "    COMPREPLY=($(compgen -W '" models "' -- \"$word\"))\n" \
    "  elif [[ $command == help && $word =~ ^[lL][sS]_ ]]; then\n" \
    "    local table=${BASH_SOURCE[0]%/*}/../../lockstep/reference.txt\n" \
    "    COMPREPLY=($(compgen -W \"$(sed -n 's/^E //p' \"$table\" 2>/dev/null)\" -- \"$word\"))\n" \
    "  elif [[ $command == help ]]; then\n" \
    "    COMPREPLY=($(compgen -W 'env" list "' -- \"$word\"))\n" \
    "  elif [[ \" $plain \" == *\" $before \"* ]]; then\n" \
    "    compopt +o default 2>/dev/null\n" \
    "  elif [[ $word == -* ]]; then\n" \
    "    COMPREPLY=($(compgen -W \"--help $flags\" -- \"$word\"))\n  fi\n}\n" \
    "complete -o default -F _lockstep lockstep" > file
  close(file)
}

function zsh_flags(name, i, form, line) {
  for (i = 1; i <= num_flags[name]; ++i) {
    form = form_of[name, i]
    line = "--" name_of[name, i] (form == "" ? "" : "=") "[" brief(help_of[name, i]) "]"
    if (form != "") {
      line = line (form ~ /^\[/ ? "::" : ":")
      gsub(/[^A-Za-z0-9|@,=.]/, "", form)
      line = line form ":"
      if (name_of[name, i] == "model") line = line "_lockstep_model"
      else if (is_path(form)) line = line "_files"
      else line = line " "
    }
    print "      '" line "' \\" > file
  }
}

function write_zsh(path, i, list) {
  file = path
  for (i = 1; i <= num_commands; ++i) list = list " " commands[i]
  print "#compdef lockstep\n# Completions of lockstep for zsh.\n" \
    "_lockstep_model() { _alternative 'models:model:(" models ")' 'files:file:_files' }\n" \
    "_lockstep() {\n  local -a commands\n  commands=(" > file
  for (i = 1; i <= num_commands; ++i)
    print "    '" commands[i] ":" brief(about_of[commands[i]]) "'" > file
  print "  )\n  if (( CURRENT == 2 )); then\n    _describe command commands\n" \
    "    return\n  fi\n  local command=$words[2]\n  shift words\n  (( CURRENT-- ))\n" \
    "  case $command in" > file
  for (i = 1; i <= num_commands; ++i)
    if (commands[i] in parts_of)
      print "  (" commands[i] ")\n    if (( CURRENT == 2 )); then\n" \
        "      compadd -- " parts_of[commands[i]] "\n      return\n    fi\n" \
        "    command+=\" $words[2]\"\n    shift words\n    (( CURRENT-- )) ;;" > file
  print "  esac\n  case $command in" > file
  for (i = 1; i <= num_all; ++i) {
    print "  ('" all[i] "')\n    _arguments \\" > file
    zsh_flags(all[i])
    if (all[i] == "help") print "      '*:command:(env" list ")' ;;" > file
    else if (all[i] ~ /^(bench|graph|compile)$/) print "      '*:model:_lockstep_model' ;;" > file
    else print "      '*:file:_files' ;;" > file
  }
  print "  esac\n}\n_lockstep \"$@\"" > file
  close(file)
}

function write_fish(file, i, k, name, words, condition) {
  print "# Completions of lockstep for fish.\ncomplete -c lockstep -n __fish_use_subcommand -l version -d 'print the version'" > file
  for (i = 1; i <= num_commands; ++i) {
    print "complete -c lockstep -n __fish_use_subcommand -f -a " commands[i] \
      " -d '" brief(about_of[commands[i]]) "'" > file
    if (commands[i] in parts_of)
      print "complete -c lockstep -n '__fish_seen_subcommand_from " commands[i] \
        "; and not __fish_seen_subcommand_from " parts_of[commands[i]] \
        "' -f -a '" parts_of[commands[i]] "'" > file
  }
  for (i = 1; i <= num_all; ++i) {
    name = all[i]
    k = split(name, words, " ")
    condition = "__fish_seen_subcommand_from " words[1]
    if (k > 1) condition = condition "; and __fish_seen_subcommand_from " words[2]
    for (k = 1; k <= num_flags[name]; ++k)
      print "complete -c lockstep -n '" condition "' -l " name_of[name, k] \
        fish_value(name_of[name, k], form_of[name, k]) \
        " -d '" brief(help_of[name, k]) "'" > file
  }
  close(file)
}
function fish_value(name, form) {
  if (form == "" || form ~ /^\[/) return ""
  if (name == "model") return " -r -a '" models "'"
  return is_path(form) ? " -r" : " -x"
}

END {
  write_bash(bash)
  write_zsh(zsh)
  write_fish(fish)
}

// Graphs of every stage, with the regions they hold.
==== a build graph with names, devices and control inputs
graph build "model" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3]} # "x" : f32[?,3]
  %2 = constant() {value = f32[3,2] [1, 2, 3, 4, 5, 6]} # "dense/w" @"/device:CPU:0" : f32[3,2]
  %3 = matmul(%1, %2) {transpose_a = false, transpose_b = false} # "dense/matmul" : f32[?,2]
  %4 = reduce_sum(%3) ^%2 {axes = [0, 1], keep_dims = false} # "dense/reduce_sum" : f32[]
  %5 = no_op() ^%3 ^%4 # "group_deps"
  %6 = broadcast(%4, %3) {sizes = sizes[dim(1, 0), 2]} # "back" : f32[?,2]
  %7 = reshape(%6, %1) {sizes = sizes[dim(1, 0), -1]} # "rows" : f32[?,?]
}
---- same
==== names and layout are free
// A comment.
graph build "g" { %1 = constant() { value = f32 [ 2 ] [ 1, 2 ] } : f32[2] // Another.
  %2 = add(%1,%1)#"sum":f32[2]
    }
---- text
graph build "g" {
  %1 = constant() {value = f32[2] [1, 2]} : f32[2]
  %2 = add(%1, %1) # "sum" : f32[2]
}
==== ids may have gaps
graph build "gaps" {
  %2 = constant() {value = f32[] [1]} : f32[]
  %7 = neg(%2) : f32[]
  %8796093022000 = neg(%7) : f32[]
}
---- same
==== a loop that captures
graph build "loop" {
  %1 = constant() {value = i32[] [0]} # "zero" : i32[]
  %2 = placeholder() {dtype = f32, shape = shape[...]} # "x" : f32[...]
  %3 = constant() {value = i32[] [10]} # "ten" : i32[]
  %4:2 = while(%1, %2, %3, %2) {num_carried = 2, max_trips = 0} # "while" (graph region "while_condition" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} # "parameter" : i32[]
    %2 = parameter() {dtype = f32, shape = shape[...], index = 1} # "parameter_1" : f32[...]
    %3 = parameter() {dtype = i32, shape = shape[], index = 2} # "capture" captures (%3) : i32[]
    %4 = less(%1, %3) # "less" : bool[]
    return %4
  }, graph region "while_body" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} # "parameter" : i32[]
    %2 = parameter() {dtype = f32, shape = shape[...], index = 1} # "parameter_1" : f32[...]
    %3 = constant() {value = i32[] [1]} # "one" : i32[]
    %4 = add(%1, %3) # "add" : i32[]
    %5 = parameter() {dtype = f32, shape = shape[...], index = 2} # "capture" captures (%2) : f32[...]
    %6 = mul(%2, %5) # "mul" : f32[...]
    return %4, %6
  }) : i32[], f32[...]
  %5 = neg(%4:1) # "neg" : f32[...]
}
---- same
==== branches in branches
graph build "cond" {
  %1 = placeholder() {dtype = bool, shape = shape[]} # "p" : bool[]
  %2 = placeholder() {dtype = f32, shape = shape[2]} # "x" : f32[2]
  %3 = cond(%1, %1, %2) # "cond" (graph region "cond_then" {
    %1 = parameter() {dtype = bool, shape = shape[], index = 0} captures (%1) : bool[]
    %2 = parameter() {dtype = f32, shape = shape[2], index = 1} captures (%2) : f32[2]
    %3 = cond(%1, %2, %2) (graph region "cond_then" {
      %1 = parameter() {dtype = f32, shape = shape[2], index = 0} captures (%2) : f32[2]
      return %1
    }, graph region "cond_else" {
      %1 = parameter() {dtype = f32, shape = shape[2], index = 0} captures (%2) : f32[2]
      %2 = neg(%1) : f32[2]
      return %2
    }) : f32[2]
    return %3
  }, graph region "cond_else" {
    %1 = constant() {value = f32[2] [0, 0]} : f32[2]
    return %1
  }) : f32[2]
}
---- same
==== a function of its own has captures of a graph that is not shown
graph function "step" {
  %1 = parameter() {dtype = f32, shape = shape[2], index = 0} # "x" : f32[2]
  %2 = parameter() {dtype = f32, shape = shape[2], index = 1} # "capture" captures (%17:2) : f32[2]
  %3 = add(%1, %2) # "add" : f32[2]
  return %3, %1
}
---- same
==== a call of a function that was traced elsewhere
graph build "call" {
  %1 = constant() {value = f32[] [1]} # "a" : f32[]
  %2:2 = call(%1, %1) # "f" (graph function "f" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} # "x" : f32[]
    %2 = parameter() {dtype = f32, shape = shape[], index = 1} # "capture" captures (outer %99) : f32[]
    return %1, %2
  }) : f32[], f32[]
}
---- same
==== replicas
graph build "replicas" {
  %1 = constant() {value = f32[] [1]} # "a" : f32[]
  %2:3 = replicate(%1, %1, %1) {replicas = 2, num_split = 1, num_gathered = 1} # "replicate" (graph region "replica" {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} # "x" : f32[]
    %2 = parameter() {dtype = f32, shape = shape[], index = 1} # "capture" captures (%1) : f32[]
    %3 = all_reduce(%1) {reduce = "sum"} # "all_reduce" : f32[]
    return %1, %3
  }) : f32[], f32[], f32[]
}
---- same
==== a lowered graph
graph lowered "program" {
  %1 = parameter() {dtype = f32, shape = shape[4], index = 0} : f32[4]
  %2:2 = replicate(%1, %1) {replicas = 2, num_split = 0, num_gathered = 1} (graph lowered "replica" {
    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} captures (%1) : f32[4]
    %2 = replica_id() varying : i32[]
    %3 = convert(%2) {dtype = f32} varying : f32[]
    %4 = mul(%1, %3) varying : f32[4]
    return %4
  }) : f32[4], f32[4]
  return %2:0, %2:1
}
---- INVALID_ARGUMENT
replicate over 2: 0 split arguments, 0 wide ones and 1 captures against 2 operands
==== a lowered graph whose counts agree
graph lowered "program" {
  %1 = parameter() {dtype = f32, shape = shape[4], index = 0} : f32[4]
  %2:2 = replicate(%1) {replicas = 2, num_split = 0, num_gathered = 1} (graph lowered "replica" {
    %1 = parameter() {dtype = f32, shape = shape[4], index = 0} captures (%1) : f32[4]
    %2 = replica_id() varying : i32[]
    %3 = convert(%2) {dtype = f32} varying : f32[]
    %4 = mul(%1, %3) varying : f32[4]
    return %4
  }) : f32[4], f32[4]
  return %2:0, %2:1
}
---- same
==== host kernels by name
graph build "host" {
  %1 = constant() {value = f32[] [1]} # "a" : f32[]
  %2 = host(%1) {kernel = kernel "echo"} # "echo" : f32[]
}
---- same
==== a host kernel that was not given
graph build "host" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = host(%1) {kernel = kernel "shout"} : f32[]
}
---- INVALID_ARGUMENT
line 3: no host kernel named 'shout' among the 1 that were given

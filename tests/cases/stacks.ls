// Stacks, and loops that save values of each trip.
==== stacks
graph build "stacks" {
  %1 = placeholder() {dtype = f32, shape = shape[?,3]} # "x" : f32[?,3]
  %2 = stack_new() {dtype = f32, shape = shape[?,3]} # "stack" : variant[]
  %3 = stack_push(%2, %1) : variant[]
  %4:2 = stack_pop(%3) {dtype = f32, shape = shape[?,3]} : variant[], f32[?,3]
  %5 = stack_new() {endless = true} : variant[]
  %6 = stack_push(%5, %4:0) : variant[]
  %7:2 = stack_pop(%6) {dtype = variant, shape = shape[]} : variant[], variant[]
  %8 = stack_new() : variant[]
  %9:2 = stack_pop(%8) {dtype = i32, shape = shape[...]} : variant[], i32[...]
}
---- same
==== a loop that saves
graph build "saving" {
  %1 = placeholder() {dtype = f32, shape = shape[?]} # "x" : f32[?]
  %2:4 = while(%1) {num_carried = 1, max_trips = 3, num_saved = 2} # "while" (graph region "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    %2 = constant() {value = bool[] [true]} # "true" : bool[]
    return %2
  }, graph region "b" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    %2 = exp(%1) # "exp" : f32[?]
    return %2, %1, %2
  }) : f32[?], i64[], variant[], variant[]
  %3 = add(%2:0, %1) # "add" : f32[?]
}
---- same
==== a loop that only counts its trips
graph build "counting" {
  %1 = placeholder() {dtype = f32, shape = shape[?]} # "x" : f32[?]
  %2:2 = while(%1) {num_carried = 1, num_saved = 0} # "while" (graph region "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    %2 = constant() {value = bool[] [true]} # "true" : bool[]
    return %2
  }, graph region "b" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    return %1
  }) : f32[?], i64[]
}
---- same
==== a lowered loop with stacks
graph lowered "loop" {
  %1 = parameter() {dtype = f32, shape = shape[3], index = 0} : f32[3]
  %2 = stack_new() {dtype = f32, shape = shape[3]} : variant[]
  %3:2 = while(%1, %2) {num_carried = 2, max_trips = 3} (graph lowered "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[3], index = 0} : f32[3]
    %2 = parameter() {dtype = variant, shape = shape[], index = 1} : variant[]
    %3 = constant() {value = bool[] [true]} : bool[]
    return %3
  }, graph lowered "b" loop {
    %1 = parameter() {dtype = f32, shape = shape[3], index = 0} : f32[3]
    %2 = parameter() {dtype = variant, shape = shape[], index = 1} : variant[]
    %3 = exp(%1) : f32[3]
    %4 = stack_push(%2, %1) : variant[]
    return %3, %4
  }) : f32[3], variant[]
  %4:2 = stack_pop(%3:1) {dtype = f32, shape = shape[3]} : variant[], f32[3]
  return %3:0, %4:1
}
---- same
==== a number that is no stack
graph build "g" {
  %1 = constant() {value = f32[] [1]} : f32[]
  %2 = stack_push(%1, %1) : variant[]
}
---- INVALID_ARGUMENT
stack_push: the stack must be a variant scalar, is f32[]
==== stacks of texts
graph build "g" {
  %1 = stack_new() : variant[]
  %2 = placeholder() {dtype = string, shape = shape[]} # "x" : string[]
  %3 = stack_push(%1, %2) : variant[]
}
---- INVALID_ARGUMENT
stack_push: a stack of string; elements are numbers, bools and stacks
==== a top of no type
graph build "g" {
  %1 = stack_new() : variant[]
  %2:2 = stack_pop(%1) {dtype = f32} : variant[], f32[]
}
---- INVALID_ARGUMENT
it needs the attribute 'shape', a shape
==== fewer saved values than are said
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[?]} # "x" : f32[?]
  %2:3 = while(%1) {num_carried = 1, num_saved = 1} # "while" (graph region "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    %2 = constant() {value = bool[] [true]} # "true" : bool[]
    return %2
  }, graph region "b" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    return %1
  }) : f32[?], i64[], variant[]
}
---- INVALID_ARGUMENT
while: 1 values are carried and 1 are saved, the body takes 1 and returns 1
==== less than no saved values
graph build "g" {
  %1 = placeholder() {dtype = f32, shape = shape[?]} # "x" : f32[?]
  %2 = while(%1) {num_carried = 1, num_saved = -1} # "while" (graph region "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
    %2 = constant() {value = bool[] [true]} # "true" : bool[]
    return %2
  }, graph region "b" loop {
    %1 = parameter() {dtype = f32, shape = shape[?], index = 0} # "parameter" : f32[?]
  }) : f32[?]
}
---- INVALID_ARGUMENT
'num_saved' is -1, must be 0 to 1048576
==== a lowered loop that saves by itself
graph lowered "g" {
  %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
  %2:2 = while(%1) {num_carried = 1, num_saved = 0} (graph lowered "c" loop {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
    %2 = constant() {value = bool[] [true]} : bool[]
    return %2
  }, graph lowered "b" loop {
    %1 = parameter() {dtype = f32, shape = shape[], index = 0} : f32[]
    return %1
  }) : f32[], i64[]
  return %2
}
---- INVALID_ARGUMENT
a lowered loop saves values on stacks of its own

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

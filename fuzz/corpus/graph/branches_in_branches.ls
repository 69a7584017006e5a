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

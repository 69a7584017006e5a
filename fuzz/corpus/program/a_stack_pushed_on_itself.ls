graph function "g" {
  %1 = parameter() {dtype = f32, shape = shape[3], index = 0} # "x" : f32[3]
  %2 = stack_new() # "s" : variant[]
  %3 = stack_push(%2, %2) # "t" : variant[]
  %4:2 = stack_pop(%3) {dtype = variant, shape = shape[]} # "p" : variant[], variant[]
  %5:2 = stack_pop(%4:1) {dtype = f32, shape = shape[3]} # "q" : variant[], f32[3]
  return %5:1
}

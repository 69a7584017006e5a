graph function "g" {
  %1 = parameter() {dtype = f32, shape = shape[3], index = 0} # "x" : f32[3]
  %2 = stack_new() # "s" : variant[]
  %3 = stack_new() # "t" : variant[]
  %4 = stack_push(%2, %3) # "u" : variant[]
  %5 = stack_push(%3, %4) # "v" : variant[]
  %6:2 = stack_pop(%5) {dtype = variant, shape = shape[]} # "p" : variant[], variant[]
  %7:2 = stack_pop(%6:1) {dtype = f32, shape = shape[3]} # "q" : variant[], f32[3]
  return %7:1
}

variable @"global_step" : i64[] initializer %3
variable @"weight" : f32[] trainable initializer %5
graph build "monitored" {
  %1 = constant() {value = i64[] [0]} # "global_step/constant" : i64[]
  %2 = broadcast(%1) {sizes = sizes[]} # "global_step/broadcast" : i64[]
  %3 = assign(%2) {variable = @"global_step"} # "global_step/initializer" : i64[]
  %4 = constant() {value = f32[] [5]} # "constant" : f32[]
  %5 = assign(%4) {variable = @"weight"} # "weight/initializer" : f32[]
  %6 = placeholder() {dtype = f32, shape = shape[]} # "input" : f32[]
  %7 = read_variable() {variable = @"global_step"} # "read_variable" : i64[]
  %8 = convert(%7) {dtype = f32} # "convert" : f32[]
  %9 = constant() {value = f32[] [1]} # "constant_1" : f32[]
  %10 = add(%8, %9) # "add" : f32[]
  %11 = constant() {value = f32[] [1]} # "constant_2" : f32[]
  %12 = div(%11, %10) # "div" : f32[]
  %13 = constant() {value = i64[] [1]} # "constant_3" : i64[]
  %14 = assign_add(%13) {variable = @"global_step"} # "assign_add" : i64[]
  %15 = constant() ^%14 {value = f32[] [2]} # "constant_4" : f32[]
  %16 = assign_add(%15) {variable = @"weight"} # "assign_add_1" : f32[]
  %17 = read_variable() {variable = @"global_step"} # "read_variable_1" : i64[]
  %18 = constant() {value = i64[] [4]} # "constant_5" : i64[]
  %19 = assign_add(%18) {variable = @"global_step"} # "assign_add_2" : i64[]
  %20 = no_op() ^%3 ^%5 # "init"
  %21 = no_op() # "local_init"
  %22 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_variables/is_variable_initialized" : bool[]
  %23 = is_variable_initialized() {variable = @"weight"} # "report_uninitialized_variables/is_variable_initialized_1" : bool[]
  %24 = host(%22, %23) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_variables/report_uninitialized_variables" : string[2]
  %25 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_global_variables/is_variable_initialized" : bool[]
  %26 = is_variable_initialized() {variable = @"weight"} # "report_uninitialized_global_variables/is_variable_initialized_1" : bool[]
  %27 = host(%25, %26) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_global_variables/report_uninitialized_variables" : string[2]
}
collection "variables" = @"global_step", @"weight"
collection "global_step" = @"global_step"
collection "trainable_variables" = @"weight"

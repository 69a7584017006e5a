variable @"global_step" : i64[] initializer %3
variable @"global_step/replica_1" : i64[] initializer %5
variable @"global_step/replica_2" : i64[] initializer %7
variable @"hidden" : f32[6,8] trainable initializer %19
variable @"hidden/replica_1" : f32[6,8] trainable initializer %21
variable @"hidden/replica_2" : f32[6,8] trainable initializer %23
variable @"out" : f32[8,3] trainable initializer %29
variable @"out/replica_1" : f32[8,3] trainable initializer %31
variable @"out/replica_2" : f32[8,3] trainable initializer %33
variable @"hidden/momentum" : f32[6,8] initializer %121
variable @"hidden/momentum/replica_1" : f32[6,8] initializer %123
variable @"hidden/momentum/replica_2" : f32[6,8] initializer %125
variable @"out/momentum" : f32[8,3] initializer %169
variable @"out/momentum/replica_1" : f32[8,3] initializer %171
variable @"out/momentum/replica_2" : f32[8,3] initializer %173
graph build "estimator" {
  %1 = constant() {value = i64[] [0]} # "global_step/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %2 = broadcast(%1) {sizes = sizes[]} # "global_step/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %3 = assign(%2) {variable = @"global_step"} # "global_step/initializer" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %4 = identity(%2) # "global_step/replica_1/identity" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[]
  %5 = assign(%4) {variable = @"global_step/replica_1"} # "global_step/replica_1/initializer" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[]
  %6 = identity(%2) # "global_step/replica_2/identity" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[]
  %7 = assign(%6) {variable = @"global_step/replica_2"} # "global_step/replica_2/initializer" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[]
  %8 = no_op() ^%3 # "group_deps" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %9 = no_op() ^%5 # "group_deps_1" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %10 = no_op() ^%7 # "group_deps_2" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %11 = no_op() ^%8 ^%9 ^%10 # "group_deps_3"
  %12 = placeholder() {dtype = f32, shape = shape[8,6]} # "input" : f32[8,6]
  %13 = placeholder() {dtype = f32, shape = shape[8,6]} # "input_1" : f32[8,6]
  %14 = placeholder() {dtype = f32, shape = shape[8,6]} # "input_2" : f32[8,6]
  %15 = placeholder() {dtype = i32, shape = shape[8]} # "input_3" : i32[8]
  %16 = placeholder() {dtype = i32, shape = shape[8]} # "input_4" : i32[8]
  %17 = placeholder() {dtype = i32, shape = shape[8]} # "input_5" : i32[8]
  %18 = random_uniform() {dtype = f32, sizes = sizes[6, 8], low = -0.6546536707079771, high = 0.6546536707079771, seed = 0, stream = 6630380596742137189, fixed = true, same_on_all_replicas = true} # "hidden/random_uniform" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %19 = assign(%18) {variable = @"hidden"} # "hidden/initializer" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %20 = identity(%18) # "hidden/replica_1/identity" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %21 = assign(%20) {variable = @"hidden/replica_1"} # "hidden/replica_1/initializer" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %22 = identity(%18) # "hidden/replica_2/identity" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %23 = assign(%22) {variable = @"hidden/replica_2"} # "hidden/replica_2/initializer" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %24 = no_op() ^%19 # "group_deps_4" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %25 = no_op() ^%21 # "group_deps_5" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %26 = no_op() ^%23 # "group_deps_6" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %27 = no_op() ^%24 ^%25 ^%26 # "group_deps_7" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %28 = random_uniform() {dtype = f32, sizes = sizes[8, 3], low = -0.7385489458759964, high = 0.7385489458759964, seed = 0, stream = 7491410527766798447, fixed = true, same_on_all_replicas = true} # "out/random_uniform" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %29 = assign(%28) {variable = @"out"} # "out/initializer" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %30 = identity(%28) # "out/replica_1/identity" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %31 = assign(%30) {variable = @"out/replica_1"} # "out/replica_1/initializer" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %32 = identity(%28) # "out/replica_2/identity" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %33 = assign(%32) {variable = @"out/replica_2"} # "out/replica_2/initializer" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %34 = no_op() ^%29 # "group_deps_8" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %35 = no_op() ^%31 # "group_deps_9" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %36 = no_op() ^%33 # "group_deps_10" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %37 = no_op() ^%34 ^%35 ^%36 # "group_deps_11" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %38 = read_variable() {variable = @"out"} # "read_variable" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %39 = read_variable() {variable = @"hidden"} # "read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %40 = matmul(%12, %39) {transpose_a = false, transpose_b = false} # "matmul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,8]
  %41 = relu(%40) # "relu" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,8]
  %42 = matmul(%41, %38) {transpose_a = false, transpose_b = false} # "matmul_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %43 = argmax(%42) {axis = 1} # "argmax" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[8]
  %44 = softmax_cross_entropy(%42, %15) # "softmax_cross_entropy" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8]
  %45 = reduce_mean(%44) {axes = [0], keep_dims = false} # "reduce_mean" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %46 = constant() {value = f32[] [1]} # "gradients/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %47 = broadcast(%46) {sizes = sizes[]} # "gradients/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %48 = identity(%47) # "gradients/grad_ys_0" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %49 = dim_size(%44) {axis = 0} # "gradients/reduce_mean_grad/dim_size" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %50 = constant() {value = f32[] [1]} # "gradients/reduce_mean_grad/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %51 = convert(%49) {dtype = f32} # "gradients/reduce_mean_grad/convert" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %52 = div(%50, %51) # "gradients/reduce_mean_grad/div" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %53 = mul(%48, %52) # "gradients/reduce_mean_grad/mul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %54 = reshape(%53, %44) {sizes = sizes[1]} # "gradients/reduce_mean_grad/reshape" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[1]
  %55 = broadcast(%54) {sizes = sizes[8]} # "gradients/reduce_mean_grad/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8]
  %56 = softmax_cross_entropy_grad(%42, %15, %55) # "gradients/softmax_cross_entropy_grad/softmax_cross_entropy_grad" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %57 = matmul(%41, %56) {transpose_a = true, transpose_b = false} # "gradients/matmul_1_grad/matmul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %58 = matmul(%56, %38) {transpose_a = false, transpose_b = true} # "gradients/matmul_1_grad/matmul_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,8]
  %59 = relu_grad(%58, %41) # "gradients/relu_grad/relu_grad" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,8]
  %60 = matmul(%12, %59) {transpose_a = true, transpose_b = false} # "gradients/matmul_grad/matmul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %61 = read_variable() {variable = @"out/replica_1"} # "replica_1/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %62 = read_variable() {variable = @"hidden/replica_1"} # "replica_1/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %63 = matmul(%13, %62) {transpose_a = false, transpose_b = false} # "replica_1/matmul" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,8]
  %64 = relu(%63) # "replica_1/relu" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,8]
  %65 = matmul(%64, %61) {transpose_a = false, transpose_b = false} # "replica_1/matmul_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %66 = argmax(%65) {axis = 1} # "replica_1/argmax" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[8]
  %67 = softmax_cross_entropy(%65, %16) # "replica_1/softmax_cross_entropy" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8]
  %68 = reduce_mean(%67) {axes = [0], keep_dims = false} # "replica_1/reduce_mean" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %69 = constant() {value = f32[] [1]} # "replica_1/gradients/constant" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %70 = broadcast(%69) {sizes = sizes[]} # "replica_1/gradients/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %71 = identity(%70) # "replica_1/gradients/grad_ys_0" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %72 = dim_size(%67) {axis = 0} # "replica_1/gradients/replica_1/reduce_mean_grad/dim_size" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[]
  %73 = constant() {value = f32[] [1]} # "replica_1/gradients/replica_1/reduce_mean_grad/constant" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %74 = convert(%72) {dtype = f32} # "replica_1/gradients/replica_1/reduce_mean_grad/convert" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %75 = div(%73, %74) # "replica_1/gradients/replica_1/reduce_mean_grad/div" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %76 = mul(%71, %75) # "replica_1/gradients/replica_1/reduce_mean_grad/mul" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %77 = reshape(%76, %67) {sizes = sizes[1]} # "replica_1/gradients/replica_1/reduce_mean_grad/reshape" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[1]
  %78 = broadcast(%77) {sizes = sizes[8]} # "replica_1/gradients/replica_1/reduce_mean_grad/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8]
  %79 = softmax_cross_entropy_grad(%65, %16, %78) # "replica_1/gradients/replica_1/softmax_cross_entropy_grad/softmax_cross_entropy_grad" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %80 = matmul(%64, %79) {transpose_a = true, transpose_b = false} # "replica_1/gradients/replica_1/matmul_1_grad/matmul" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %81 = matmul(%79, %61) {transpose_a = false, transpose_b = true} # "replica_1/gradients/replica_1/matmul_1_grad/matmul_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,8]
  %82 = relu_grad(%81, %64) # "replica_1/gradients/replica_1/relu_grad/relu_grad" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,8]
  %83 = matmul(%13, %82) {transpose_a = true, transpose_b = false} # "replica_1/gradients/replica_1/matmul_grad/matmul" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %84 = read_variable() {variable = @"out/replica_2"} # "replica_2/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %85 = read_variable() {variable = @"hidden/replica_2"} # "replica_2/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %86 = matmul(%14, %85) {transpose_a = false, transpose_b = false} # "replica_2/matmul" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,8]
  %87 = relu(%86) # "replica_2/relu" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,8]
  %88 = matmul(%87, %84) {transpose_a = false, transpose_b = false} # "replica_2/matmul_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %89 = argmax(%88) {axis = 1} # "replica_2/argmax" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[8]
  %90 = softmax_cross_entropy(%88, %17) # "replica_2/softmax_cross_entropy" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8]
  %91 = reduce_mean(%90) {axes = [0], keep_dims = false} # "replica_2/reduce_mean" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %92 = constant() {value = f32[] [1]} # "replica_2/gradients/constant" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %93 = broadcast(%92) {sizes = sizes[]} # "replica_2/gradients/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %94 = identity(%93) # "replica_2/gradients/grad_ys_0" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %95 = dim_size(%90) {axis = 0} # "replica_2/gradients/replica_2/reduce_mean_grad/dim_size" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[]
  %96 = constant() {value = f32[] [1]} # "replica_2/gradients/replica_2/reduce_mean_grad/constant" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %97 = convert(%95) {dtype = f32} # "replica_2/gradients/replica_2/reduce_mean_grad/convert" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %98 = div(%96, %97) # "replica_2/gradients/replica_2/reduce_mean_grad/div" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %99 = mul(%94, %98) # "replica_2/gradients/replica_2/reduce_mean_grad/mul" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %100 = reshape(%99, %90) {sizes = sizes[1]} # "replica_2/gradients/replica_2/reduce_mean_grad/reshape" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[1]
  %101 = broadcast(%100) {sizes = sizes[8]} # "replica_2/gradients/replica_2/reduce_mean_grad/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8]
  %102 = softmax_cross_entropy_grad(%88, %17, %101) # "replica_2/gradients/replica_2/softmax_cross_entropy_grad/softmax_cross_entropy_grad" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %103 = matmul(%87, %102) {transpose_a = true, transpose_b = false} # "replica_2/gradients/replica_2/matmul_1_grad/matmul" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %104 = matmul(%102, %84) {transpose_a = false, transpose_b = true} # "replica_2/gradients/replica_2/matmul_1_grad/matmul_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,8]
  %105 = relu_grad(%104, %87) # "replica_2/gradients/replica_2/relu_grad/relu_grad" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,8]
  %106 = matmul(%14, %105) {transpose_a = true, transpose_b = false} # "replica_2/gradients/replica_2/matmul_grad/matmul" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %107 = add_n(%60, %83, %106) # "momentum/momentum/add_n" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %108 = constant() {value = f32[] [0.33333334]} # "momentum/momentum/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %109 = mul(%107, %108) # "momentum/momentum/mul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %110 = identity(%109) # "momentum/momentum/identity" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %111 = identity(%109) # "momentum/momentum/identity_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %112 = identity(%109) # "momentum/momentum/identity_2" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %113 = add_n(%57, %80, %103) # "momentum/momentum/add_n_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %114 = constant() {value = f32[] [0.33333334]} # "momentum/momentum/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %115 = mul(%113, %114) # "momentum/momentum/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %116 = identity(%115) # "momentum/momentum/identity_3" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %117 = identity(%115) # "momentum/momentum/identity_4" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %118 = identity(%115) # "momentum/momentum/identity_5" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %119 = constant() {value = f32[] [0]} # "hidden/momentum/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %120 = broadcast(%119) {sizes = sizes[6, 8]} # "hidden/momentum/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %121 = assign(%120) {variable = @"hidden/momentum"} # "hidden/momentum/initializer" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %122 = identity(%120) # "hidden/momentum/replica_1/identity" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %123 = assign(%122) {variable = @"hidden/momentum/replica_1"} # "hidden/momentum/replica_1/initializer" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %124 = identity(%120) # "hidden/momentum/replica_2/identity" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %125 = assign(%124) {variable = @"hidden/momentum/replica_2"} # "hidden/momentum/replica_2/initializer" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %126 = no_op() ^%121 # "group_deps_12" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %127 = no_op() ^%123 # "group_deps_13" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %128 = no_op() ^%125 # "group_deps_14" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %129 = no_op() ^%126 ^%127 ^%128 # "group_deps_15"
  %130 = read_variable() {variable = @"hidden"} # "momentum/momentum/update_0/update_hidden/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %131 = read_variable() {variable = @"hidden/momentum"} # "momentum/momentum/update_0/update_hidden/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %132 = constant() {value = f32[] [0.9]} # "momentum/momentum/update_0/update_hidden/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %133 = mul(%131, %132) # "momentum/momentum/update_0/update_hidden/mul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %134 = add(%133, %110) # "momentum/momentum/update_0/update_hidden/add" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %135 = assign(%134) {variable = @"hidden/momentum"} # "momentum/momentum/update_0/update_hidden/assign" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %136 = constant() {value = f32[] [0.1]} # "momentum/momentum/update_0/update_hidden/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %137 = mul(%134, %136) # "momentum/momentum/update_0/update_hidden/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %138 = sub(%130, %137) # "momentum/momentum/update_0/update_hidden/sub" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %139 = assign(%138) {variable = @"hidden"} # "momentum/momentum/update_0/update_hidden/assign_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[6,8]
  %140 = no_op() ^%139 ^%135 # "momentum/momentum/update_0/update_hidden/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %141 = read_variable() {variable = @"hidden/replica_1"} # "momentum/momentum/update_1/update_hidden/replica_1/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %142 = read_variable() {variable = @"hidden/momentum/replica_1"} # "momentum/momentum/update_1/update_hidden/replica_1/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %143 = constant() {value = f32[] [0.9]} # "momentum/momentum/update_1/update_hidden/replica_1/constant" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %144 = mul(%142, %143) # "momentum/momentum/update_1/update_hidden/replica_1/mul" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %145 = add(%144, %111) # "momentum/momentum/update_1/update_hidden/replica_1/add" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %146 = assign(%145) {variable = @"hidden/momentum/replica_1"} # "momentum/momentum/update_1/update_hidden/replica_1/assign" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %147 = constant() {value = f32[] [0.1]} # "momentum/momentum/update_1/update_hidden/replica_1/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %148 = mul(%145, %147) # "momentum/momentum/update_1/update_hidden/replica_1/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %149 = sub(%141, %148) # "momentum/momentum/update_1/update_hidden/replica_1/sub" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %150 = assign(%149) {variable = @"hidden/replica_1"} # "momentum/momentum/update_1/update_hidden/replica_1/assign_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[6,8]
  %151 = no_op() ^%150 ^%146 # "momentum/momentum/update_1/update_hidden/replica_1/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %152 = read_variable() {variable = @"hidden/replica_2"} # "momentum/momentum/update_2/update_hidden/replica_2/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %153 = read_variable() {variable = @"hidden/momentum/replica_2"} # "momentum/momentum/update_2/update_hidden/replica_2/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %154 = constant() {value = f32[] [0.9]} # "momentum/momentum/update_2/update_hidden/replica_2/constant" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %155 = mul(%153, %154) # "momentum/momentum/update_2/update_hidden/replica_2/mul" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %156 = add(%155, %112) # "momentum/momentum/update_2/update_hidden/replica_2/add" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %157 = assign(%156) {variable = @"hidden/momentum/replica_2"} # "momentum/momentum/update_2/update_hidden/replica_2/assign" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %158 = constant() {value = f32[] [0.1]} # "momentum/momentum/update_2/update_hidden/replica_2/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %159 = mul(%156, %158) # "momentum/momentum/update_2/update_hidden/replica_2/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %160 = sub(%152, %159) # "momentum/momentum/update_2/update_hidden/replica_2/sub" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %161 = assign(%160) {variable = @"hidden/replica_2"} # "momentum/momentum/update_2/update_hidden/replica_2/assign_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[6,8]
  %162 = no_op() ^%161 ^%157 # "momentum/momentum/update_2/update_hidden/replica_2/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %163 = no_op() ^%140 # "momentum/momentum/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %164 = no_op() ^%151 # "momentum/momentum/group_deps_1" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %165 = no_op() ^%162 # "momentum/momentum/group_deps_2" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %166 = no_op() ^%163 ^%164 ^%165 # "momentum/momentum/group_deps_3"
  %167 = constant() {value = f32[] [0]} # "out/momentum/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %168 = broadcast(%167) {sizes = sizes[8, 3]} # "out/momentum/broadcast" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %169 = assign(%168) {variable = @"out/momentum"} # "out/momentum/initializer" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %170 = identity(%168) # "out/momentum/replica_1/identity" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %171 = assign(%170) {variable = @"out/momentum/replica_1"} # "out/momentum/replica_1/initializer" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %172 = identity(%168) # "out/momentum/replica_2/identity" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %173 = assign(%172) {variable = @"out/momentum/replica_2"} # "out/momentum/replica_2/initializer" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %174 = no_op() ^%169 # "group_deps_16" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %175 = no_op() ^%171 # "group_deps_17" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %176 = no_op() ^%173 # "group_deps_18" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %177 = no_op() ^%174 ^%175 ^%176 # "group_deps_19"
  %178 = read_variable() {variable = @"out"} # "momentum/momentum/update_0_1/update_out/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %179 = read_variable() {variable = @"out/momentum"} # "momentum/momentum/update_0_1/update_out/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %180 = constant() {value = f32[] [0.9]} # "momentum/momentum/update_0_1/update_out/constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %181 = mul(%179, %180) # "momentum/momentum/update_0_1/update_out/mul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %182 = add(%181, %116) # "momentum/momentum/update_0_1/update_out/add" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %183 = assign(%182) {variable = @"out/momentum"} # "momentum/momentum/update_0_1/update_out/assign" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %184 = constant() {value = f32[] [0.1]} # "momentum/momentum/update_0_1/update_out/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %185 = mul(%182, %184) # "momentum/momentum/update_0_1/update_out/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %186 = sub(%178, %185) # "momentum/momentum/update_0_1/update_out/sub" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %187 = assign(%186) {variable = @"out"} # "momentum/momentum/update_0_1/update_out/assign_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[8,3]
  %188 = no_op() ^%187 ^%183 # "momentum/momentum/update_0_1/update_out/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %189 = read_variable() {variable = @"out/replica_1"} # "momentum/momentum/update_1_1/update_out/replica_1/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %190 = read_variable() {variable = @"out/momentum/replica_1"} # "momentum/momentum/update_1_1/update_out/replica_1/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %191 = constant() {value = f32[] [0.9]} # "momentum/momentum/update_1_1/update_out/replica_1/constant" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %192 = mul(%190, %191) # "momentum/momentum/update_1_1/update_out/replica_1/mul" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %193 = add(%192, %117) # "momentum/momentum/update_1_1/update_out/replica_1/add" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %194 = assign(%193) {variable = @"out/momentum/replica_1"} # "momentum/momentum/update_1_1/update_out/replica_1/assign" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %195 = constant() {value = f32[] [0.1]} # "momentum/momentum/update_1_1/update_out/replica_1/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %196 = mul(%193, %195) # "momentum/momentum/update_1_1/update_out/replica_1/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %197 = sub(%189, %196) # "momentum/momentum/update_1_1/update_out/replica_1/sub" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %198 = assign(%197) {variable = @"out/replica_1"} # "momentum/momentum/update_1_1/update_out/replica_1/assign_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[8,3]
  %199 = no_op() ^%198 ^%194 # "momentum/momentum/update_1_1/update_out/replica_1/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %200 = read_variable() {variable = @"out/replica_2"} # "momentum/momentum/update_2_1/update_out/replica_2/read_variable" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %201 = read_variable() {variable = @"out/momentum/replica_2"} # "momentum/momentum/update_2_1/update_out/replica_2/read_variable_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %202 = constant() {value = f32[] [0.9]} # "momentum/momentum/update_2_1/update_out/replica_2/constant" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %203 = mul(%201, %202) # "momentum/momentum/update_2_1/update_out/replica_2/mul" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %204 = add(%203, %118) # "momentum/momentum/update_2_1/update_out/replica_2/add" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %205 = assign(%204) {variable = @"out/momentum/replica_2"} # "momentum/momentum/update_2_1/update_out/replica_2/assign" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %206 = constant() {value = f32[] [0.1]} # "momentum/momentum/update_2_1/update_out/replica_2/constant_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %207 = mul(%204, %206) # "momentum/momentum/update_2_1/update_out/replica_2/mul_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %208 = sub(%200, %207) # "momentum/momentum/update_2_1/update_out/replica_2/sub" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %209 = assign(%208) {variable = @"out/replica_2"} # "momentum/momentum/update_2_1/update_out/replica_2/assign_1" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[8,3]
  %210 = no_op() ^%209 ^%205 # "momentum/momentum/update_2_1/update_out/replica_2/group_deps" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %211 = no_op() ^%188 # "momentum/momentum/group_deps_4" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %212 = no_op() ^%199 # "momentum/momentum/group_deps_5" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %213 = no_op() ^%210 # "momentum/momentum/group_deps_6" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %214 = no_op() ^%211 ^%212 ^%213 # "momentum/momentum/group_deps_7"
  %215 = no_op() ^%166 ^%214 # "momentum/momentum/group_deps_8"
  %216 = no_op() ^%215 # "momentum/momentum/momentum"
  %217 = constant() {value = i64[] [1]} # "constant" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %218 = constant() {value = i64[] [1]} # "replica_1/constant" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[]
  %219 = constant() {value = i64[] [1]} # "replica_2/constant" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[]
  %220 = assign_add(%217) {variable = @"global_step"} # "update_0/assign_add" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %221 = assign_add(%217) {variable = @"global_step/replica_1"} # "update_1/assign_add" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[]
  %222 = assign_add(%217) {variable = @"global_step/replica_2"} # "update_2/assign_add" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[]
  %223 = no_op() ^%220 # "group_deps_20" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %224 = no_op() ^%221 # "group_deps_21" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %225 = no_op() ^%222 # "group_deps_22" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %226 = no_op() ^%223 ^%224 ^%225 # "group_deps_23"
  %227 = identity(%220) ^%226 # "identity" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %228 = identity(%221) ^%226 # "identity_1" @"/job:localhost/replica:0/task:0/device:CPU:1" : i64[]
  %229 = identity(%222) ^%226 # "identity_2" @"/job:localhost/replica:0/task:0/device:CPU:2" : i64[]
  %230 = no_op() ^%216 ^%227 # "train_op" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %231 = convert(%43) {dtype = i32} # "convert" @"/job:localhost/replica:0/task:0/device:CPU:0" : i32[8]
  %232 = no_op() ^%216 ^%228 # "replica_1/train_op" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %233 = convert(%66) {dtype = i32} # "replica_1/convert" @"/job:localhost/replica:0/task:0/device:CPU:1" : i32[8]
  %234 = no_op() ^%216 ^%229 # "replica_2/train_op" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %235 = convert(%89) {dtype = i32} # "replica_2/convert" @"/job:localhost/replica:0/task:0/device:CPU:2" : i32[8]
  %236 = add_n(%45, %68, %91) # "add_n" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %237 = constant() {value = f32[] [0.33333334]} # "constant_1" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %238 = mul(%236, %237) # "mul" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %239 = identity(%238) # "identity_3" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %240 = identity(%238) # "identity_4" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %241 = identity(%238) # "identity_5" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %242 = meeting(%45, %239) {num_inputs = 1, op = "all_reduce", reduce = "mean"} # "all_reduce" @"/job:localhost/replica:0/task:0/device:CPU:0" : f32[]
  %243 = meeting(%68, %240) {num_inputs = 1, op = "all_reduce", reduce = "mean"} # "replica_1/all_reduce" @"/job:localhost/replica:0/task:0/device:CPU:1" : f32[]
  %244 = meeting(%91, %241) {num_inputs = 1, op = "all_reduce", reduce = "mean"} # "replica_2/all_reduce" @"/job:localhost/replica:0/task:0/device:CPU:2" : f32[]
  %245 = no_op() ^%230 # "group_deps_24" @"/job:localhost/replica:0/task:0/device:CPU:0"
  %246 = no_op() ^%232 # "group_deps_25" @"/job:localhost/replica:0/task:0/device:CPU:1"
  %247 = no_op() ^%234 # "group_deps_26" @"/job:localhost/replica:0/task:0/device:CPU:2"
  %248 = no_op() ^%245 ^%246 ^%247 # "train_op_1"
  %249 = host(%242) {kernel = kernel "summary", state = object "summary"} # "summary"
  %250 = read_variable() {variable = @"global_step"} # "read_variable_2" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %251 = read_variable() {variable = @"global_step"} # "read_variable_3" @"/job:localhost/replica:0/task:0/device:CPU:0" : i64[]
  %252 = no_op() ^%249 # "summaries"
  %253 = no_op() ^%11 ^%27 ^%37 ^%129 ^%177 # "init"
  %254 = no_op() # "local_init"
  %255 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_variables/is_variable_initialized" : bool[]
  %256 = is_variable_initialized() {variable = @"global_step/replica_1"} # "report_uninitialized_variables/is_variable_initialized_1" : bool[]
  %257 = and(%255, %256) # "report_uninitialized_variables/and" : bool[]
  %258 = is_variable_initialized() {variable = @"global_step/replica_2"} # "report_uninitialized_variables/is_variable_initialized_2" : bool[]
  %259 = and(%257, %258) # "report_uninitialized_variables/and_1" : bool[]
  %260 = is_variable_initialized() {variable = @"hidden"} # "report_uninitialized_variables/is_variable_initialized_3" : bool[]
  %261 = is_variable_initialized() {variable = @"hidden/replica_1"} # "report_uninitialized_variables/is_variable_initialized_4" : bool[]
  %262 = and(%260, %261) # "report_uninitialized_variables/and_2" : bool[]
  %263 = is_variable_initialized() {variable = @"hidden/replica_2"} # "report_uninitialized_variables/is_variable_initialized_5" : bool[]
  %264 = and(%262, %263) # "report_uninitialized_variables/and_3" : bool[]
  %265 = is_variable_initialized() {variable = @"out"} # "report_uninitialized_variables/is_variable_initialized_6" : bool[]
  %266 = is_variable_initialized() {variable = @"out/replica_1"} # "report_uninitialized_variables/is_variable_initialized_7" : bool[]
  %267 = and(%265, %266) # "report_uninitialized_variables/and_4" : bool[]
  %268 = is_variable_initialized() {variable = @"out/replica_2"} # "report_uninitialized_variables/is_variable_initialized_8" : bool[]
  %269 = and(%267, %268) # "report_uninitialized_variables/and_5" : bool[]
  %270 = is_variable_initialized() {variable = @"hidden/momentum"} # "report_uninitialized_variables/is_variable_initialized_9" : bool[]
  %271 = is_variable_initialized() {variable = @"hidden/momentum/replica_1"} # "report_uninitialized_variables/is_variable_initialized_10" : bool[]
  %272 = and(%270, %271) # "report_uninitialized_variables/and_6" : bool[]
  %273 = is_variable_initialized() {variable = @"hidden/momentum/replica_2"} # "report_uninitialized_variables/is_variable_initialized_11" : bool[]
  %274 = and(%272, %273) # "report_uninitialized_variables/and_7" : bool[]
  %275 = is_variable_initialized() {variable = @"out/momentum"} # "report_uninitialized_variables/is_variable_initialized_12" : bool[]
  %276 = is_variable_initialized() {variable = @"out/momentum/replica_1"} # "report_uninitialized_variables/is_variable_initialized_13" : bool[]
  %277 = and(%275, %276) # "report_uninitialized_variables/and_8" : bool[]
  %278 = is_variable_initialized() {variable = @"out/momentum/replica_2"} # "report_uninitialized_variables/is_variable_initialized_14" : bool[]
  %279 = and(%277, %278) # "report_uninitialized_variables/and_9" : bool[]
  %280 = host(%259, %264, %269, %274, %279) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_variables/report_uninitialized_variables" : string[5]
  %281 = is_variable_initialized() {variable = @"global_step"} # "report_uninitialized_global_variables/is_variable_initialized" : bool[]
  %282 = is_variable_initialized() {variable = @"global_step/replica_1"} # "report_uninitialized_global_variables/is_variable_initialized_1" : bool[]
  %283 = and(%281, %282) # "report_uninitialized_global_variables/and" : bool[]
  %284 = is_variable_initialized() {variable = @"global_step/replica_2"} # "report_uninitialized_global_variables/is_variable_initialized_2" : bool[]
  %285 = and(%283, %284) # "report_uninitialized_global_variables/and_1" : bool[]
  %286 = is_variable_initialized() {variable = @"hidden"} # "report_uninitialized_global_variables/is_variable_initialized_3" : bool[]
  %287 = is_variable_initialized() {variable = @"hidden/replica_1"} # "report_uninitialized_global_variables/is_variable_initialized_4" : bool[]
  %288 = and(%286, %287) # "report_uninitialized_global_variables/and_2" : bool[]
  %289 = is_variable_initialized() {variable = @"hidden/replica_2"} # "report_uninitialized_global_variables/is_variable_initialized_5" : bool[]
  %290 = and(%288, %289) # "report_uninitialized_global_variables/and_3" : bool[]
  %291 = is_variable_initialized() {variable = @"out"} # "report_uninitialized_global_variables/is_variable_initialized_6" : bool[]
  %292 = is_variable_initialized() {variable = @"out/replica_1"} # "report_uninitialized_global_variables/is_variable_initialized_7" : bool[]
  %293 = and(%291, %292) # "report_uninitialized_global_variables/and_4" : bool[]
  %294 = is_variable_initialized() {variable = @"out/replica_2"} # "report_uninitialized_global_variables/is_variable_initialized_8" : bool[]
  %295 = and(%293, %294) # "report_uninitialized_global_variables/and_5" : bool[]
  %296 = is_variable_initialized() {variable = @"hidden/momentum"} # "report_uninitialized_global_variables/is_variable_initialized_9" : bool[]
  %297 = is_variable_initialized() {variable = @"hidden/momentum/replica_1"} # "report_uninitialized_global_variables/is_variable_initialized_10" : bool[]
  %298 = and(%296, %297) # "report_uninitialized_global_variables/and_6" : bool[]
  %299 = is_variable_initialized() {variable = @"hidden/momentum/replica_2"} # "report_uninitialized_global_variables/is_variable_initialized_11" : bool[]
  %300 = and(%298, %299) # "report_uninitialized_global_variables/and_7" : bool[]
  %301 = is_variable_initialized() {variable = @"out/momentum"} # "report_uninitialized_global_variables/is_variable_initialized_12" : bool[]
  %302 = is_variable_initialized() {variable = @"out/momentum/replica_1"} # "report_uninitialized_global_variables/is_variable_initialized_13" : bool[]
  %303 = and(%301, %302) # "report_uninitialized_global_variables/and_8" : bool[]
  %304 = is_variable_initialized() {variable = @"out/momentum/replica_2"} # "report_uninitialized_global_variables/is_variable_initialized_14" : bool[]
  %305 = and(%303, %304) # "report_uninitialized_global_variables/and_9" : bool[]
  %306 = host(%285, %290, %295, %300, %305) {kernel = kernel "report_uninitialized_variables", state = object "names"} # "report_uninitialized_global_variables/report_uninitialized_variables" : string[5]
  %307 = no_op() ^%249 # "merge_all_summaries"
}
collection "variables" = @"global_step", @"hidden", @"out", @"hidden/momentum", @"out/momentum"
collection "global_step" = @"global_step"
collection "trainable_variables" = @"hidden", @"out"
collection "train_op" = op %216
collection "summaries" = op %249

// Replicas that go through one op, and the same through several ones: what they
// give is the same. In both $R is the number of replicas, $P their parameters,
// which $A lists, $T the types of a result of each, $G the results of op %9000,
// and $N as many sevens, whose sum is $M.
==== from one to the next, beside a uniform value
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = mul(%1, %1) varying : f32[7]
    %3 = all_reduce(%2) {reduce = "sum"} : f32[7]
    %4 = exp(%1) varying : f32[7]
    %5 = sub(%2, %3) varying : f32[7]
    %6 = mul(%4, %5) varying : f32[7]
    return %6
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100:3 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 2} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = mul(%1, %1) varying : f32[7]
    %3 = all_reduce(%2) {reduce = "sum"} : f32[7]
    %4 = exp(%1) varying : f32[7]
    return %4, %2, %3
  }) : f32[$R,7], f32[$R,7], f32[7]
  %9000:$R = replicate(%1100, %1100:1, %1100:2) {replicas = $R, num_gathered = 1, num_wide_split = 2} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = f32, shape = shape[7], index = 1} varying : f32[7]
    %3 = parameter() {dtype = f32, shape = shape[7], index = 2} captures (%1100:2) : f32[7]
    %5 = sub(%2, %3) varying : f32[7]
    %6 = mul(%1, %5) varying : f32[7]
    return %6
  }) : $T
  return $G
}
==== an argument, wide and narrow, as it is
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = neg(%1) varying : f32[7]
    %3 = add(%1, %2) varying : f32[7]
    %4 = sub(%1, %3) varying : f32[7]
    return %4
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 1} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : f32[$R,7]
  %1200:2 = replicate(%1100) {replicas = $R, num_wide_split = 1, num_wide_gathered = 2} (graph lowered "b" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1, %1
  }) : f32[$R,7], f32[$R,7]
  %9000:$R = replicate(%1200, %1200:1, %1100) {replicas = $R, num_gathered = 1, num_wide_split = 3} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = f32, shape = shape[7], index = 1} varying : f32[7]
    %3 = parameter() {dtype = f32, shape = shape[7], index = 2} varying : f32[7]
    %4 = neg(%1) varying : f32[7]
    %5 = add(%2, %4) varying : f32[7]
    %6 = sub(%3, %5) varying : f32[7]
    return %6
  }) : $T
  return $G
}
==== what is the same on all replicas
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = all_reduce(%1) {reduce = "sum"} : f32[7]
    %3 = neg(%2) : f32[7]
    %4 = constant() {value = f32[] [3]} : f32[]
    %5 = mul(%1, %4) varying : f32[7]
    %6 = add(%5, %3) varying : f32[7]
    %7 = mul(%6, %2) varying : f32[7]
    return %7
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100:3 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 3} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = all_reduce(%1) {reduce = "sum"} : f32[7]
    %3 = neg(%2) : f32[7]
    %4 = constant() {value = f32[] [3]} : f32[]
    return %4, %3, %2
  }) : f32[$R], f32[$R,7], f32[$R,7]
  %9000:$R = replicate($A, %1100, %1100:1, %1100:2) {replicas = $R, num_split = 1, num_gathered = 1, num_wide_split = 3} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = f32, shape = shape[], index = 1} varying : f32[]
    %3 = parameter() {dtype = f32, shape = shape[7], index = 2} varying : f32[7]
    %4 = parameter() {dtype = f32, shape = shape[7], index = 3} varying : f32[7]
    %5 = mul(%1, %2) varying : f32[7]
    %6 = add(%5, %3) varying : f32[7]
    %7 = mul(%6, %4) varying : f32[7]
    return %7
  }) : $T
  return $G
}
==== other dtypes, and nothing at all
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = replica_id() varying : i32[]
    %3 = neg(%1) varying : f32[7]
    %4 = less(%1, %3) varying : bool[7]
    %5 = convert(%2) {dtype = f32} varying : f32[]
    %6 = select(%4, %1, %5) varying : f32[7]
    return %6
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100:3 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 3} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = replica_id() varying : i32[]
    %3 = neg(%1) varying : f32[7]
    %4 = less(%1, %3) varying : bool[7]
    %5 = slice(%1) {starts = [0], limits = [0], strides = [1]} varying : f32[0]
    return %2, %4, %5
  }) : i32[$R], bool[$R,7], f32[$R,0]
  %9000:$R = replicate($A, %1100, %1100:1, %1100:2) {replicas = $R, num_split = 1, num_gathered = 1, num_wide_split = 3} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = i32, shape = shape[], index = 1} varying : i32[]
    %3 = parameter() {dtype = bool, shape = shape[7], index = 2} varying : bool[7]
    %4 = parameter() {dtype = f32, shape = shape[0], index = 3} varying : f32[0]
    %5 = convert(%2) {dtype = f32} varying : f32[]
    %6 = select(%3, %1, %5) varying : f32[7]
    return %6
  }) : $T
  return $G
}
==== around a loop
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = neg(%1) varying : f32[7]
    %3 = constant() {value = i32[] [0]} : i32[]
    %4:2 = while(%3, %2) {num_carried = 2} varying (graph lowered "c" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = constant() {value = i32[] [5]} : i32[]
      %4 = less(%1, %3) : bool[]
      return %4
    }, graph lowered "b" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = constant() {value = i32[] [1]} : i32[]
      %4 = add(%1, %3) : i32[]
      %15 = constant() {value = f32[] [0.5]} : f32[]
      %16 = mul(%2, %15) : f32[7]
      %17 = all_reduce(%16) {reduce = "sum"} : f32[7]
      %18 = random_uniform() {dtype = f32, sizes = sizes[7], seed = 5, stream = 3} : f32[7]
      %19 = mul(%17, %18) : f32[7]
      %20 = sub(%19, %16) : f32[7]
      return %4, %20
    }) : i32[], f32[7]
    %5 = mul(%4:1, %1) varying : f32[7]
    return %5
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100:2 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 2} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = neg(%1) varying : f32[7]
    return %2, %1
  }) : f32[$R,7], f32[$R,7]
  %1200 = constant() {value = i32[] [0]} : i32[]
  %1300:2 = while(%1200, %1100) {num_carried = 2} (graph lowered "c" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = constant() {value = i32[] [5]} : i32[]
    %4 = less(%1, %3) : bool[]
    return %4
  }, graph lowered "b" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = constant() {value = i32[] [1]} : i32[]
    %4 = add(%1, %3) : i32[]
    %5 = replicate(%2) {replicas = $R, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "t" {
      %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
      %15 = constant() {value = f32[] [0.5]} : f32[]
      %16 = mul(%1, %15) varying : f32[7]
      %17 = all_reduce(%16) {reduce = "sum"} : f32[7]
      %18 = random_uniform() {dtype = f32, sizes = sizes[7], seed = 5, stream = 3} varying : f32[7]
      %19 = mul(%17, %18) varying : f32[7]
      %20 = sub(%19, %16) varying : f32[7]
      return %20
    }) : f32[$R,7]
    return %4, %5
  }) : i32[], f32[$R,7]
  %9000:$R = replicate(%1300:1, %1100:1) {replicas = $R, num_gathered = 1, num_wide_split = 2} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = f32, shape = shape[7], index = 1} varying : f32[7]
    %5 = mul(%1, %2) varying : f32[7]
    return %5
  }) : $T
  return $G
}
==== around a loop that makes none of its trips
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %3 = constant() {value = i32[] [7]} : i32[]
    %4:2 = while(%3, %1) {num_carried = 2} varying (graph lowered "c" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = constant() {value = i32[] [5]} : i32[]
      %4 = less(%1, %3) : bool[]
      return %4
    }, graph lowered "b" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = constant() {value = i32[] [1]} : i32[]
      %4 = add(%1, %3) : i32[]
      %15 = constant() {value = f32[] [0.5]} : f32[]
      %16 = mul(%2, %15) : f32[7]
      %17 = all_reduce(%16) {reduce = "sum"} : f32[7]
      %18 = random_uniform() {dtype = f32, sizes = sizes[7], seed = 5, stream = 3} : f32[7]
      %19 = mul(%17, %18) : f32[7]
      %20 = sub(%19, %16) : f32[7]
      return %4, %20
    }) : i32[], f32[7]
    return %4:1
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 1} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : f32[$R,7]
  %1200 = constant() {value = i32[] [7]} : i32[]
  %1300:2 = while(%1200, %1100) {num_carried = 2} (graph lowered "c" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = constant() {value = i32[] [5]} : i32[]
    %4 = less(%1, %3) : bool[]
    return %4
  }, graph lowered "b" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = constant() {value = i32[] [1]} : i32[]
    %4 = add(%1, %3) : i32[]
    %5 = replicate(%2) {replicas = $R, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "t" {
      %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
      %15 = constant() {value = f32[] [0.5]} : f32[]
      %16 = mul(%1, %15) varying : f32[7]
      %17 = all_reduce(%16) {reduce = "sum"} : f32[7]
      %18 = random_uniform() {dtype = f32, sizes = sizes[7], seed = 5, stream = 3} varying : f32[7]
      %19 = mul(%17, %18) varying : f32[7]
      %20 = sub(%19, %16) varying : f32[7]
      return %20
    }) : f32[$R,7]
    return %4, %5
  }) : i32[], f32[$R,7]
  %9000:$R = replicate(%1300:1) {replicas = $R, num_gathered = 1, num_wide_split = 1} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : $T
  return $G
}
==== through branches in a loop, two of them in each other's place
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = exp(%1) varying : f32[7]
    %3 = constant() {value = i32[] [0]} : i32[]
    %4:3 = while(%3, %1, %2) {num_carried = 3} varying (graph lowered "c" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = parameter() {dtype = f32, shape = shape[7], index = 2} : f32[7]
      %4 = constant() {value = i32[] [5]} : i32[]
      %5 = less(%1, %4) : bool[]
      return %5
    }, graph lowered "b" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = parameter() {dtype = f32, shape = shape[7], index = 2} : f32[7]
      %4 = constant() {value = i32[] [1]} : i32[]
      %5 = add(%1, %4) : i32[]
      %6 = constant() {value = i32[] [3]} : i32[]
      %7 = less(%1, %6) : bool[]
      %8 = cond(%7, %2, %2) (graph lowered "y" {
        %1 = parameter() {dtype = f32, shape = shape[7], index = 0} captures (%2) : f32[7]
        %2 = neg(%1) : f32[7]
        return %2
      }, graph lowered "n" {
        %1 = parameter() {dtype = f32, shape = shape[7], index = 0} captures (%2) : f32[7]
        return %1
      }) : f32[7]
      return %5, %3, %8
    }) : i32[], f32[7], f32[7]
    %5 = sub(%4:1, %4:2) varying : f32[7]
    return %5
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100:2 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 2} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = exp(%1) varying : f32[7]
    return %1, %2
  }) : f32[$R,7], f32[$R,7]
  %1200 = constant() {value = i32[] [0]} : i32[]
  %1300:3 = while(%1200, %1100, %1100:1) {num_carried = 3} (graph lowered "c" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = parameter() {dtype = f32, shape = shape[$R,7], index = 2} : f32[$R,7]
    %4 = constant() {value = i32[] [5]} : i32[]
    %5 = less(%1, %4) : bool[]
    return %5
  }, graph lowered "b" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = parameter() {dtype = f32, shape = shape[$R,7], index = 2} : f32[$R,7]
    %4 = constant() {value = i32[] [1]} : i32[]
    %5 = add(%1, %4) : i32[]
    %6 = constant() {value = i32[] [3]} : i32[]
    %7 = less(%1, %6) : bool[]
    %8 = cond(%7, %2, %2) (graph lowered "y" {
      %1 = parameter() {dtype = f32, shape = shape[$R,7], index = 0} captures (%2) : f32[$R,7]
      %2 = replicate(%1) {replicas = $R, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "t" {
        %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
        %2 = neg(%1) varying : f32[7]
        return %2
      }) : f32[$R,7]
      return %2
    }, graph lowered "n" {
      %1 = parameter() {dtype = f32, shape = shape[$R,7], index = 0} captures (%2) : f32[$R,7]
      return %1
    }) : f32[$R,7]
    return %5, %3, %8
  }) : i32[], f32[$R,7], f32[$R,7]
  %9000:$R = replicate(%1300:1, %1300:2) {replicas = $R, num_gathered = 1, num_wide_split = 2} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = f32, shape = shape[7], index = 1} varying : f32[7]
    %3 = sub(%1, %2) varying : f32[7]
    return %3
  }) : $T
  return $G
}
==== to the host and back
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = constant() {value = f32[2] [5, 7]} : f32[2]
    %3:2 = host(%1, %2) {kernel = kernel "own"} varying : f32[7], i32[]
    %4 = convert(%3:1) {dtype = f32} varying : f32[]
    %5 = mul(%3, %4) varying : f32[7]
    return %5
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 1} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : f32[$R,7]
  %1200 = constant() {value = f32[2] [5, 7]} : f32[2]
  %1300:2 = host(%1100, %1200) {kernel = kernel "own", replicas = $R, wide = [0]} : f32[$R,7], i32[$R]
  %9000:$R = replicate(%1300, %1300:1) {replicas = $R, num_gathered = 1, num_wide_split = 2} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = i32, shape = shape[], index = 1} varying : i32[]
    %4 = convert(%2) {dtype = f32} varying : f32[]
    %5 = mul(%1, %4) varying : f32[7]
    return %5
  }) : $T
  return $G
}
==== to the host in a loop
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = constant() {value = i32[] [0]} : i32[]
    %3:2 = while(%2, %1) {num_carried = 2} varying (graph lowered "c" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = constant() {value = i32[] [3]} : i32[]
      %4 = less(%1, %3) : bool[]
      return %4
    }, graph lowered "b" loop {
      %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
      %2 = parameter() {dtype = f32, shape = shape[7], index = 1} : f32[7]
      %3 = constant() {value = i32[] [1]} : i32[]
      %4 = add(%1, %3) : i32[]
      %5 = constant() {value = f32[2] [5, 7]} : f32[2]
      %6:2 = host(%2, %5) {kernel = kernel "own"} : f32[7], i32[]
      %7 = all_reduce(%6) {reduce = "mean"} : f32[7]
      %8 = sub(%6, %7) : f32[7]
      return %4, %8
    }) : i32[], f32[7]
    return %3:1
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 1} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : f32[$R,7]
  %1200 = constant() {value = i32[] [0]} : i32[]
  %1300:2 = while(%1200, %1100) {num_carried = 2} (graph lowered "c" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = constant() {value = i32[] [3]} : i32[]
    %4 = less(%1, %3) : bool[]
    return %4
  }, graph lowered "b" loop {
    %1 = parameter() {dtype = i32, shape = shape[], index = 0} : i32[]
    %2 = parameter() {dtype = f32, shape = shape[$R,7], index = 1} : f32[$R,7]
    %3 = constant() {value = i32[] [1]} : i32[]
    %4 = add(%1, %3) : i32[]
    %5 = constant() {value = f32[2] [5, 7]} : f32[2]
    %6:2 = host(%2, %5) {kernel = kernel "own", replicas = $R, wide = [0]} : f32[$R,7], i32[$R]
    %7 = replicate(%6) {replicas = $R, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "t" {
      %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
      %2 = all_reduce(%1) {reduce = "mean"} : f32[7]
      %3 = sub(%1, %2) varying : f32[7]
      return %3
    }) : f32[$R,7]
    return %4, %7
  }) : i32[], f32[$R,7]
  %9000:$R = replicate(%1300:1) {replicas = $R, num_gathered = 1, num_wide_split = 1} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : $T
  return $G
}
==== beside merges of all kinds
graph lowered "p" {
  $P
  %9000:$R = replicate($A) {replicas = $R, num_split = 1, num_gathered = 1} (graph lowered "r" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %20 = constant() {value = f32[] [0.37]} : f32[]
    %21 = convert(%1) {dtype = bf16} varying : bf16[7]
    %22 = all_reduce(%21) {reduce = "mean"} : bf16[7]
    %23 = convert(%22) {dtype = f32} : f32[7]
    %24 = all_reduce(%1) {reduce = "max"} : f32[7]
    %25 = sub(%24, %23) : f32[7]
    %26 = all_gather(%1) {axis = 0, rows = [$N]} : f32[$M]
    %27 = reduce_sum(%26) {axes = [0], keep_dims = false} : f32[]
    %28 = convert(%1) {dtype = f64} varying : f64[7]
    %29 = all_reduce(%28) {reduce = "mean"} : f64[7]
    %30 = convert(%29) {dtype = f32} : f32[7]
    %31 = mul(%30, %27) : f32[7]
    %32 = broadcast(%1) {sizes = sizes[64, 7]} varying : f32[64,7]
    %33 = transpose(%32) {permutation = [1, 0]} varying : f32[7,64]
    %34 = exp(%33) varying : f32[7,64]
    %35 = matmul(%33, %34) {transpose_a = true, transpose_b = false} varying : f32[64,64]
    %36 = all_reduce(%35) {reduce = "mean"} : f32[64,64]
    %37 = matmul(%34, %34) {transpose_a = true, transpose_b = false} varying : f32[64,64]
    %38 = mul(%37, %20) varying : f32[64,64]
    %39 = all_reduce(%38) {reduce = "sum"} : f32[64,64]
    %40 = sub(%36, %39) : f32[64,64]
    %41 = reduce_sum(%40) {axes = [0, 1], keep_dims = false} : f32[]
    %42 = mul(%31, %41) : f32[7]
    %43 = replica_id() varying : i32[]
    %44 = mul(%43, %43) varying : i32[]
    %45 = all_reduce(%44) {reduce = "sum"} : i32[]
    %46 = convert(%45) {dtype = f32} : f32[]
    %47 = mul(%25, %46) : f32[7]
    %48 = sub(%42, %47) : f32[7]
    %49 = all_reduce(%33) {reduce = "sum"} : f32[7,64]
    %50 = reduce_sum(%49) {axes = [1], keep_dims = false} : f32[7]
    %51 = add(%48, %50) : f32[7]
    %60 = mul(%1, %51) varying : f32[7]
    return %60
  }) : $T
  return $G
}
---- cut
graph lowered "p" {
  $P
  %1100 = replicate($A) {replicas = $R, num_split = 1, num_wide_gathered = 1} (graph lowered "a" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    return %1
  }) : f32[$R,7]
  %1200:2 = replicate(%1100) {replicas = $R, num_wide_split = 1, num_wide_gathered = 1} (graph lowered "b" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %20 = constant() {value = f32[] [0.37]} : f32[]
    %21 = convert(%1) {dtype = bf16} varying : bf16[7]
    %22 = all_reduce(%21) {reduce = "mean"} : bf16[7]
    %23 = convert(%22) {dtype = f32} : f32[7]
    %24 = all_reduce(%1) {reduce = "max"} : f32[7]
    %25 = sub(%24, %23) : f32[7]
    %26 = all_gather(%1) {axis = 0, rows = [$N]} : f32[$M]
    %27 = reduce_sum(%26) {axes = [0], keep_dims = false} : f32[]
    %28 = convert(%1) {dtype = f64} varying : f64[7]
    %29 = all_reduce(%28) {reduce = "mean"} : f64[7]
    %30 = convert(%29) {dtype = f32} : f32[7]
    %31 = mul(%30, %27) : f32[7]
    %32 = broadcast(%1) {sizes = sizes[64, 7]} varying : f32[64,7]
    %33 = transpose(%32) {permutation = [1, 0]} varying : f32[7,64]
    %34 = exp(%33) varying : f32[7,64]
    %35 = matmul(%33, %34) {transpose_a = true, transpose_b = false} varying : f32[64,64]
    %36 = all_reduce(%35) {reduce = "mean"} : f32[64,64]
    %37 = matmul(%34, %34) {transpose_a = true, transpose_b = false} varying : f32[64,64]
    %38 = mul(%37, %20) varying : f32[64,64]
    %39 = all_reduce(%38) {reduce = "sum"} : f32[64,64]
    %40 = sub(%36, %39) : f32[64,64]
    %41 = reduce_sum(%40) {axes = [0, 1], keep_dims = false} : f32[]
    %42 = mul(%31, %41) : f32[7]
    %43 = replica_id() varying : i32[]
    %44 = mul(%43, %43) varying : i32[]
    %45 = all_reduce(%44) {reduce = "sum"} : i32[]
    %46 = convert(%45) {dtype = f32} : f32[]
    %47 = mul(%25, %46) : f32[7]
    %48 = sub(%42, %47) : f32[7]
    %49 = all_reduce(%33) {reduce = "sum"} : f32[7,64]
    %50 = reduce_sum(%49) {axes = [1], keep_dims = false} : f32[7]
    %51 = add(%48, %50) : f32[7]
    return %1, %51
  }) : f32[$R,7], f32[7]
  %9000:$R = replicate(%1200, %1200:1) {replicas = $R, num_gathered = 1, num_wide_split = 1} (graph lowered "z" {
    %1 = parameter() {dtype = f32, shape = shape[7], index = 0} varying : f32[7]
    %2 = parameter() {dtype = f32, shape = shape[7], index = 1} captures (%1200:1) : f32[7]
    %3 = mul(%1, %2) varying : f32[7]
    return %3
  }) : $T
  return $G
}
